// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The share of the memory's bandwidth that steps of a model reach: counted bytes and time of a
// step, beside those of a copy on the same cores.
#ifndef SHARD_BENCHMARKS_SHALLOW_WATER_ROOFLINE_HPP
#define SHARD_BENCHMARKS_SHALLOW_WATER_ROOFLINE_HPP

#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <cstddef>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "support/arguments.hpp"
#include "support/turns.hpp"

namespace roofline {

using Space = Kokkos::DefaultExecutionSpace;
using Array = Kokkos::View<double*, Space::memory_space>;

/// A copy; the factor keeps the compiler from calling memcpy, whose stores pass the caches by.
struct CopyKernel {
  Array to, from;
  KOKKOS_FUNCTION void operator()(std::size_t i) const { to(i) = 1.5 * from(i); }
};

enum class Clock { wall, processor };

/// Seconds of a call, those of the slowest rank. Processor time, of one rank on one thread, is for
/// machines where other programs run.
template <class Call>
double seconds(MPI_Comm comm, Clock clock, const Call& call) {
  const auto now = [&] {
    return clock == Clock::wall ? MPI_Wtime() : static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
  };
  MPI_Barrier(comm);
  const double start = now();
  call();
  Kokkos::fence();
  double time = now() - start;
  MPI_Allreduce(MPI_IN_PLACE, &time, 1, MPI_DOUBLE, MPI_MAX, comm);
  return time;
}

struct Options {
  int size, turns = 11, steps = 2;  // rows, level or points
  int stages  = 0;                  // per exchange; 0: the program has no such option
  Clock clock = Clock::wall;

  /// False if the command line can't be understood.
  bool read(int argc, char** argv, const char* size_name) {
    support::Arguments arguments(argc, argv,
                                 std::string("[") + size_name +
                                     " N] [--turns N] [--steps N] [--processor-time]" +
                                     (stages > 0 ? " [--stages-per-exchange N]" : ""));
    arguments.take(size_name, size, 1);
    if (stages > 0) arguments.take("--stages-per-exchange", stages, 1);
    arguments.take("--turns", turns, 1);
    arguments.take("--steps", steps, 1);
    if (arguments.flag("--processor-time")) clock = Clock::processor;
    return arguments.understood();
  }
};

/// Prints a line. `numbers` is how many doubles a step of this rank reads and writes; an int counts
/// half. Each of the two arrays of the copy has a twentieth of that length. The program times a
/// copy, then a step, and repeats both. The printed share is the median over these pairs.
template <class Step>
void report(MPI_Comm comm, const char* model, double cells, double numbers, const Options& o,
            const Step& step) {
  const auto length = static_cast<std::size_t>(numbers / 20);
  const Array to("to", length), from("from", length);
  const Kokkos::RangePolicy<Space, Kokkos::IndexType<std::size_t>> all(0, length);
  double sums[] = {16 * static_cast<double>(length), 8 * numbers, cells};
  MPI_Allreduce(MPI_IN_PLACE, sums, 3, MPI_DOUBLE, MPI_SUM, comm);
  const auto copy = [&] { Kokkos::parallel_for("copy", all, CopyKernel{to, from}); };
  const auto run  = [&] {
    for (int s = 0; s < o.steps; ++s) step();
  };
  copy(), run();
  std::vector<double> copies, times, shares;
  for (int turn = 0; turn < o.turns; ++turn) {
    copies.push_back(sums[0] / seconds(comm, o.clock, copy));
    times.push_back(seconds(comm, o.clock, run) / o.steps);
    shares.push_back(sums[1] / times.back() / copies.back());
  }
  int rank = 0, ranks = 1;
  MPI_Comm_rank(comm, &rank), MPI_Comm_size(comm, &ranks);
  if (rank == 0)
    std::printf(
        "%s, %.0f cells, %d ranks: %.2f ms a step, %.0f bytes a cell, copy %.2f GB/s, share %.2f\n",
        model, sums[2], ranks, 1e3 * support::median(times), sums[1] / sums[2],
        support::median(copies) / 1e9, support::median(shares));
}

}  // namespace roofline

#endif
