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
  bool touch = true;  ///< false: nobody writes or reads the fields between calls
};

/// What one way of one case took: of each turn the slowest rank's time, of those the median.
struct Result {
  std::string case_name, way, tuning;
  int messages        = 0;  ///< that rank 0 sends, where known
  int repetitions     = 0;  ///< while the ranks' cores were near each other
  double microseconds = 0, fastest = 0;
  std::vector<double> turns;   ///< microseconds in each of them, the same turns for all ways
  double handshake   = 0;      ///< nanoseconds between those cores, the median
  int calls_apart    = 0;      ///< while the machine had them apart, see support/handshake.hpp
  double apart       = 0;      ///< microseconds, of those
  index_t face_bytes = 0;      ///< of the largest message of one side, all fields
  index_t run_bytes  = 0;      ///< that lie one after another, in the face where they are fewest
  bool strided       = false;  ///< the fastest dimension has a halo
};

/// Runs every way of every case whose name case/way matches, in turns. Collective; throws if a way
/// fills a halo wrongly.
std::vector<Result> measure(MPI_Comm comm, const Options& options);

/// Google Benchmark's console lines and JSON.
void print_header(std::FILE* to);
void print(std::FILE* to, const Result& result);
void write_json(const std::string& file, const std::vector<Result>& results, int ranks);

}  // namespace halo

#endif
