// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// layers [--large] [--tf32 | --bf16] [--library] [--seconds S] [--wall]: reads names of cases from
// standard input and answers each with one line of JSON (timing.hpp): seconds of a forward call and
// of a backward call (all gradients), in about S seconds each (0.1). `layers --list` prints the
// cases, with --large those for a device too. One rank, one thread: benchmarks/layers/compare.py
// runs it in turns with pytorch.py. --wall: the clock's time in place of the processor's, for
// several threads. --tf32, --bf16: products in TF32 or bfloat16, on processors that have it.
// --library: products by the vendor's libraries.

#include <cstdio>
#include <iostream>
#include <string>

#include "shard/layers/product_precision.hpp"
#include "shard/shard.hpp"
#include "support/arguments.hpp"
#include "timing.hpp"

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  double least = 0.1;
  support::Arguments given(
      argc, argv, "[--large] [--tf32 | --bf16] [--library] [--seconds S] [--wall] [--list]");
  given.take("--seconds", least);
  const bool list = given.flag("--list"), large = given.flag("--large");
  if (given.flag("--wall")) use_wall_clock();
  if (given.flag("--tf32")) shard::set_product_precision(shard::ProductPrecision::tf32);
  if (given.flag("--bf16")) shard::set_product_precision(shard::ProductPrecision::bfloat16);
  if (given.flag("--library")) shard::set_product_library(shard::ProductLibrary::vendor);
  if (!given.understood()) return 2;
  Cases known;
  add_windows(known, large);
  add_fields(known, large);
  add_gates(known);
  add_resampling(known);
  add_attention(known, large);
  add_training(known, large);
  if (large) {
    add_large_fields(known);
    add_large_solvers(known);
  }
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
