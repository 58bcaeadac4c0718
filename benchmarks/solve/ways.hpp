// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SOLVE_WAYS_HPP
#define SHARD_BENCHMARKS_SOLVE_WAYS_HPP

#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

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
      MPI_Barrier(comm);
      const double start = MPI_Wtime();
      way.run();
      Kokkos::fence("benchmark");
      double seconds = MPI_Wtime() - start;
      MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, comm);
      if (turn >= 0) way.seconds.push_back(seconds);
    }
}

inline double median(std::vector<double> v) {
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
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
    const double seconds = median(way.seconds);
    if (rank == 0)
      std::printf("%-20s %8.3f ms, %6.2f GB/s, %5.2f of %s\n", way.name.c_str(), seconds * 1e3,
                  bytes / seconds * 1e-9, median(ratios), all.front().name.c_str());
  }
}

}  // namespace ways

#endif
