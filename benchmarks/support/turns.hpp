// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SUPPORT_TURNS_HPP
#define SHARD_BENCHMARKS_SUPPORT_TURNS_HPP

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

namespace support {

/// The median; of no values 0.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Seconds of a call, those of the slowest rank. Collective.
template <class Call>
double slowest_seconds(MPI_Comm comm, const Call& call) {
  MPI_Barrier(comm);
  const double start = MPI_Wtime();
  call();
  double seconds = MPI_Wtime() - start;
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, comm);
  return seconds;
}

/// Median microseconds of a call of each way, those of the slowest rank. The ways alternate; each
/// is called `calls` times in a turn. Collective.
inline std::vector<double> in_turns(MPI_Comm comm, int turns, int calls,
                                    const std::vector<std::function<void()>>& ways) {
  std::vector<std::vector<double>> times(ways.size());
  for (int turn = 0; turn < turns; ++turn)
    for (std::size_t w = 0; w < ways.size(); ++w)
      times[w].push_back(1e6 / calls * slowest_seconds(comm, [&] {
                           for (int call = 0; call < calls; ++call) ways[w]();
                         }));
  std::vector<double> medians;
  for (const auto& of_way : times) medians.push_back(median(of_way));
  return medians;
}

}  // namespace support

#endif
