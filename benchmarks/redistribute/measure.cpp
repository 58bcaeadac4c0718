// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "measure.hpp"

#include <algorithm>
#include <stdexcept>

#include "support/turns.hpp"

namespace {

void check(MPI_Comm comm, const std::string& name, const Way& way) {
  if (!way.right) return;
  way.clear();
  way.call();
  int wrong = way.right() ? 0 : 1;
  MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_MAX, comm);
  if (wrong != 0) throw std::runtime_error(name + "/" + way.name + ": wrong values");
}

}  // namespace

void measure(MPI_Comm comm, const std::string& name, double bytes, int calls,
             const std::vector<Way>& ways, std::vector<Result>& results) {
  int rank = 0;
  MPI_Comm_rank(comm, &rank);
  for (const Way& way : ways) check(comm, name, way);
  std::vector<std::vector<double>> times(ways.size());
  for (int i = -2; i < calls; ++i)
    for (std::size_t w = 0; w < ways.size(); ++w) {
      MPI_Barrier(comm);
      const double begin = MPI_Wtime();
      ways[w].call();
      const double time = MPI_Wtime() - begin;
      if (i >= 0) times[w].push_back(time * 1e6);
    }
  for (std::size_t w = 0; w < ways.size(); ++w) {
    const double mine[2] = {support::median(times[w]),
                            *std::min_element(times[w].begin(), times[w].end())};
    double most[2]       = {};
    MPI_Allreduce(mine, most, 2, MPI_DOUBLE, MPI_MAX, comm);
    results.push_back({name + "/" + ways[w].name, calls, most[0], most[1], bytes});
    if (rank == 0)
      std::fprintf(stderr, "%-56s %10.1f us %10.1f us %7.2f GB/s\n", results.back().name.c_str(),
                   most[0], most[1], bytes / most[0] / 1e3);
  }
}

void write_json(std::FILE* to, const std::vector<Result>& results, int ranks) {
  std::fprintf(to, "{\"context\": {\"executable\": \"redistribute\", \"ranks\": %d},\n", ranks);
  std::fprintf(to, "\"benchmarks\": [\n");
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Result& r = results[i];
    std::fprintf(to,
                 "{\"name\": \"%s\", \"run_type\": \"iteration\", \"iterations\": %d, "
                 "\"real_time\": %.3f, \"cpu_time\": %.3f, \"time_unit\": \"us\", "
                 "\"fastest\": %.3f, \"bytes\": %.0f}%s\n",
                 r.name.c_str(), r.calls, r.microseconds, r.microseconds, r.fastest, r.bytes,
                 i + 1 < results.size() ? "," : "");
  }
  std::fprintf(to, "]}\n");
}
