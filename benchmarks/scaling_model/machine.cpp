// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "machine.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "support/arguments.hpp"

namespace scaling {

namespace {

struct KeyOf {
  const char* key;
  BoxCurves Curves::*curve;
};
constexpr KeyOf box_curves[] = {{"boxes", &Curves::boxes},
                                {"copies", &Curves::copies},
                                {"direct", &Curves::direct},
                                {"window", &Curves::window}};

/// Adds a point if the key names a curve and the line is one.
bool add_point(Curves& curves, const std::string& key, const std::string& at, double us) {
  std::istringstream in(at);
  double a = 0, b = 0, c = 0, d = 0;
  if (key == "messages" && in >> a >> b) {
    curves.messages.add(a, b, us);
    return true;
  }
  for (const KeyOf& of : box_curves)
    if (key == of.key && in >> a >> b >> c >> d) {
      (curves.*of.curve).add(a, b, c, d, us);
      return true;
    }
  return false;
}

}  // namespace

Machine read_machine(const std::string& file) {
  std::ifstream in(file);
  if (!in) throw std::runtime_error("there is no machine file " + file);
  Machine machine;
  double ranks                          = 0;
  std::map<std::string, double*> wanted = {{"ranks_per_node", &ranks},
                                           {"kernel_us", &machine.kernel_us},
                                           {"shared_us", &machine.shared_us},
                                           {"box_us", &machine.box_us},
                                           {"far_latency_us", &machine.far_latency_us},
                                           {"near_latency_us", &machine.near_latency_us},
                                           {"message_us", &machine.message_us},
                                           {"node_GBs", &machine.node_GBs},
                                           {"near_GBs", &machine.near_GBs},
                                           {"memory_GBs", &machine.memory_GBs}};
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
    if (found != wanted.end()) {
      *found->second = value;
      wanted.erase(found);
    } else if (!add_point(machine.curves, key, line.substr(space, equals - space), value)) {
      throw std::runtime_error(file + ": '" + line + "' is not understood");
    }
  }
  bool enough = !machine.curves.empty() && wanted.count("kernel_us") == 0 &&
                wanted.count("shared_us") == 0 && wanted.count("box_us") == 0 &&
                wanted.count("ranks_per_node") == 0;
  for (const KeyOf& of : box_curves) enough = enough && !(machine.curves.*of.curve).empty();
  if (machine.curves.empty())
    for (const char* of_curves : {"shared_us", "box_us"}) wanted.erase(of_curves);
  if (!enough && !wanted.empty())
    throw std::runtime_error(file + " lacks " + wanted.begin()->first);
  machine.ranks_per_node = static_cast<int>(ranks);
  return machine;
}

void write_machine(const std::string& file, const Machine& machine) {
  std::ostringstream out;
  out.precision(10);
  out << "# Measured by scaling_check on the machine where it ran.\n"
      << "ranks_per_node = " << machine.ranks_per_node << "\nkernel_us = " << machine.kernel_us
      << "\nshared_us = " << machine.shared_us << "\nbox_us = " << machine.box_us << '\n';
  machine.curves.messages.for_points([&](double count, double bytes, double us) {
    out << "messages " << count << ' ' << bytes << " = " << us << '\n';
  });
  for (const KeyOf& of : box_curves)
    (machine.curves.*of.curve)
        .for_points([&](double fields, double run, double pitch, double bytes, double us) {
          out << of.key << ' ' << fields << ' ' << run << ' ' << pitch << ' ' << bytes << " = "
              << us << '\n';
        });
  support::write_output(file, out.str());
}

}  // namespace scaling
