// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SOLVE_WAYS_HPP
#define SHARD_BENCHMARKS_SOLVE_WAYS_HPP

#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "support/turns.hpp"

/// Several ways to compute the same, timed in turns.
namespace ways {

struct Way {
  std::string name;
  std::function<void()> run;
  double bytes;  ///< that this rank has to move
  std::vector<double> seconds{};
};

/// The slowest rank's seconds of each turn. The first one isn't counted.
inline void measure(MPI_Comm comm, std::vector<Way>& all, int turns) {
  for (int turn = -1; turn < turns; ++turn)
    for (Way& way : all) {
      const double seconds = support::slowest_seconds(comm, [&] {
        way.run();
        Kokkos::fence("benchmark");
      });
      if (turn >= 0) way.seconds.push_back(seconds);
    }
}

/// Medians, bandwidths of all ranks together, and the median of each turn's time over that of the
/// first way in the same turn. Collective; rank 0 prints.
inline void print(MPI_Comm comm, const std::vector<Way>& all) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  for (const Way& way : all) {
    double bytes = 0.0;
    MPI_Allreduce(&way.bytes, &bytes, 1, MPI_DOUBLE, MPI_SUM, comm);
    std::vector<double> ratios;
    for (std::size_t turn = 0; turn < way.seconds.size(); ++turn)
      ratios.push_back(way.seconds[turn] / all.front().seconds[turn]);
    const double seconds = support::median(way.seconds);
    if (rank == 0)
      std::printf("%-20s %8.3f ms, %6.2f GB/s, %5.2f of %s\n", way.name.c_str(), seconds * 1e3,
                  bytes / seconds * 1e-9, support::median(ratios), all.front().name.c_str());
  }
}

}  // namespace ways

#endif
