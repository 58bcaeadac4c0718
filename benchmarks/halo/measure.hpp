// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_HALO_MEASURE_HPP
#define SHARD_BENCHMARKS_HALO_MEASURE_HPP

#include <cstdio>
#include <string>
#include <vector>

#include "case.hpp"

namespace halo {

struct Options {
  std::string filter;
  std::string json;
  std::string tuning;  ///< of shard's plans, as their report and the JSON have it; else measured
  bool quick = false;
  bool list  = false;
};

/// What one way of one case took: the median over turns of the slowest rank's time.
struct Result {
  std::string case_name, way, tuning;
  int messages        = 0;  ///< that rank 0 sends, where known
  double microseconds = 0;
  std::vector<double> turns;   ///< microseconds in each of them, the same turns for all ways
  index_t face_bytes = 0;      ///< of the largest message of one side, all fields
  index_t run_bytes  = 0;      ///< contiguous ones, in the face where they are fewest
  bool strided       = false;  ///< the fastest dimension has a halo
};

/// Runs every way of every case whose name case/way matches, in turns. Collective; throws if a way
/// fills a halo wrongly.
std::vector<Result> measure(MPI_Comm comm, const Options& options);

/// Lines of text, and JSON for table.py.
void print_header(std::FILE* to);
void print(std::FILE* to, const Result& result);
void write_json(const std::string& file, const std::vector<Result>& results, int ranks);

}  // namespace halo

#endif
