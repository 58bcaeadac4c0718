// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "machine.hpp"

#include <fstream>
#include <map>
#include <stdexcept>

namespace scaling {

Machine read_machine(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("there is no machine file " + file);
  Machine machine;
  double ranks                          = 0;
  std::map<std::string, double*> wanted = {{"ranks_per_node", &ranks},
                                           {"far_latency_us", &machine.far_latency_us},
                                           {"near_latency_us", &machine.near_latency_us},
                                           {"message_us", &machine.message_us},
                                           {"node_GBs", &machine.node_GBs},
                                           {"near_GBs", &machine.near_GBs},
                                           {"memory_GBs", &machine.memory_GBs},
                                           {"kernel_us", &machine.kernel_us}};
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t equals = line.find('=');
    const std::string key    = line.substr(0, line.find(' '));
    const auto found         = wanted.find(key);
    if (equals == std::string::npos || found == wanted.end())
      throw std::runtime_error(file + ": '" + line + "' is not understood");
    *found->second = std::stod(line.substr(equals + 1));
    wanted.erase(found);
  }
  if (!wanted.empty()) throw std::runtime_error(file + " lacks " + wanted.begin()->first);
  machine.ranks_per_node = static_cast<int>(ranks);
  return machine;
}

}  // namespace scaling
