// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A coarse shallow-water core, and a network that corrects it after each step, trained through the
// core: docs/hybrid.md.
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <utility>

#include "../help.hpp"
#include "check.hpp"
#include "experiment.hpp"

namespace {

void set(hybrid::Options& o, const std::string& text) {
  const auto equals                            = text.find('=');
  const std::pair<const char*, int*> numbers[] = {
      {"rows", &o.rows},         {"ratio", &o.ratio},
      {"width", &o.width},       {"waves", &o.waves},
      {"days", &o.days},         {"iterations", &o.iterations},
      {"terms", &o.terms},       {"every", &o.every},
      {"held_out", &o.held_out}, {"stable_days", &o.stable_days},
      {"seed", &o.seed}};
  const std::pair<const char*, std::string*> files[] = {
      {"weights", &o.weights}, {"start", &o.start}, {"truth", &o.truth}, {"picture", &o.picture}};
  if (equals != std::string::npos) {
    const std::string name = text.substr(0, equals), value = text.substr(equals + 1);
    for (const auto& [known, number] : numbers)
      if (name == known) {
        *number = std::stoi(value);
        return;
      }
    for (const auto& [known, file] : files)
      if (name == known) {
        *file = value;
        return;
      }
    if (name == "rate") {
      o.rate = std::stod(value);
      return;
    }
  }
  throw std::invalid_argument("hybrid: " + text + " is no option=value of this program");
}

}  // namespace

constexpr const char* usage = R"(hybrid                           the checks, on a small grid
hybrid train [option=value ...]  trains, and writes the weights
hybrid show [option=value ...]   errors of waves that training didn't see)";

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  if (asks_for_help(environment, argc, argv, usage)) return 0;
  const hybrid::Mesh mesh(environment.world(), {0, 0});
  const hybrid::Space space;
  const bool root        = environment.rank() == 0;
  const std::string mode = argc > 1 ? argv[1] : "check";
  hybrid::Options options;
  if (mode == "show") options.seed = 1001;
  for (int a = 2; a < argc; ++a) set(options, argv[a]);
  if (mode == "check") return hybrid::check(space, mesh, root) ? 0 : 1;
  if (mode == "train") return hybrid::train(space, mesh, root, options), 0;
  if (mode == "show") return hybrid::show(space, mesh, root, options), 0;
  if (root) std::fprintf(stderr, "hybrid [check | train | show] [option=value ...]\n");
  return 2;
}
