// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "machine.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <stdexcept>
#include <system_error>

namespace scaling {

Machine read_machine(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("there is no machine file " + file);
  Machine machine;
  double ranks = 0, cores = 0;
  std::map<std::string, double*> wanted = {{"ranks_per_node", &ranks},
                                           {"kernel_us", &machine.kernel_us},
                                           {"far_latency_us", &machine.far_latency_us},
                                           {"near_latency_us", &machine.near_latency_us},
                                           {"message_us", &machine.message_us},
                                           {"node_GBs", &machine.node_GBs},
                                           {"near_GBs", &machine.near_GBs},
                                           {"memory_GBs", &machine.memory_GBs},
                                           {"cores_per_node", &cores},
                                           {"far_GBs", &machine.far_GBs},
                                           {"burst_kB", &machine.burst_kB},
                                           {"eager_kB", &machine.eager_kB},
                                           {"long_GBs", &machine.long_GBs},
                                           {"quiet_us", &machine.quiet_us}};
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t equals = line.find('='), space = line.find(' ');
    const std::string key = line.substr(0, space);
    const auto found      = wanted.find(key);
    if (equals == std::string::npos || space > equals)
      throw std::runtime_error(file + ": '" + line + "' is not understood");
    double value            = 0;
    const std::size_t first = line.find_first_not_of(' ', equals + 1);
    const char *const from = line.data() + std::min(first, line.size()), *const end = line.data() +
                                                                                      line.size();
    const auto [at, failed] = std::from_chars(from, end, value);
    if (failed != std::errc() || !std::isfinite(value) ||
        std::any_of(at, end, [](char c) { return c != ' '; }))
      throw std::runtime_error(file + ": '" + line + "' has no number that can be used");
    if (found == wanted.end())
      throw std::runtime_error(file + ": '" + line + "' is not understood");
    *found->second = value;
    wanted.erase(found);
  }
  for (const char* optional :
       {"cores_per_node", "far_GBs", "burst_kB", "eager_kB", "long_GBs", "quiet_us"})
    wanted.erase(optional);
  if (!wanted.empty()) throw std::runtime_error(file + " lacks " + wanted.begin()->first);
  machine.ranks_per_node = static_cast<int>(ranks);
  machine.cores_per_node = static_cast<int>(cores);
  return machine;
}

}  // namespace scaling
