// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// layers [--seconds S] [--wall]: reads names of cases from standard input and answers each with one
// line of JSON: seconds of a forward call and of a backward call (all gradients), the least of
// those made in S seconds (0.1), and their shares of the core's peak or of a copy's speed. `layers
// --list` prints the cases. One rank, one thread: benchmarks/layers/compare.py runs it in turns
// with pytorch.py. --wall: the clock's time in place of the processor's, for several threads.

#include <cstdio>
#include <iostream>
#include <string>

#include "shard/shard.hpp"
#include "support/arguments.hpp"
#include "timing.hpp"

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  Cases known;
  add_windows(known);
  add_fields(known);
  add_resampling(known);
  add_attention(known);
  add_training(known);
  double least = 0.1;
  support::Arguments given(argc, argv, "[--seconds S] [--wall] [--list]");
  given.take("--seconds", least);
  const bool list = given.flag("--list");
  if (given.flag("--wall")) use_wall_clock();
  if (!given.understood()) return 2;
  if (list) {
    for (const auto& [name, run] : known) std::printf("%s\n", name.c_str());
    return 0;
  }
  if (environment.size() != 1) throw std::runtime_error("layers: one rank is timed, not several");
  const Grid mesh(environment.world(), {1, 1});
  for (std::string name; std::getline(std::cin, name);) {
    const auto found = known.find(name);
    if (found == known.end()) throw std::runtime_error("layers: there is no case " + name);
    found->second(mesh, least);
    std::fflush(stdout);
  }
}
