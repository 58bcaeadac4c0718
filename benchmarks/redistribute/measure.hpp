// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_REDISTRIBUTE_MEASURE_HPP
#define SHARD_BENCHMARKS_REDISTRIBUTE_MEASURE_HPP

#include <mpi.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

/// One way of a case: what is timed, and what tells whether it did its work.
struct Way {
  std::string name;
  std::function<void()> call;
  std::function<bool()> right = {};  ///< after a call on cleared memory
  std::function<void()> clear = {};  ///< of what the call writes
};

struct Result {
  std::string name;  ///< case/way
  int calls           = 0;
  double microseconds = 0, fastest = 0;  ///< of each rank the median, or the least; the largest
  double bytes = 0;                      ///< that a rank reads and then writes elsewhere
};

/// Runs the ways of a case in turn, on the same arrays, and adds their results. Collective; throws
/// if a way leaves wrong values.
void measure(MPI_Comm comm, const std::string& name, double bytes, int calls,
             const std::vector<Way>& ways, std::vector<Result>& results);

/// Times collectives of `values` floats on each rank beside MPI's own.
void time_collectives(MPI_Comm comm, int values, int calls, std::vector<Result>& results);

/// Google Benchmark's JSON.
void write_json(std::FILE* to, const std::vector<Result>& results, int ranks);

#endif
