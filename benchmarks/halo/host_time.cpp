// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What start and finish cost the host beside the work itself: the time of both less the time in
// MPI's calls (wrapped), of an exchange that does everything that one of 8 kB faces does but has a
// single value to copy in each face, so that the kernels' bodies are next to nothing. 2 ranks.
// Prints Google Benchmark's JSON.
#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "shard/base/environment.hpp"
#include "shard/exchange/exchange.hpp"
#include "support/arguments.hpp"
#include "support/turns.hpp"

namespace {

struct Rows;
using Field = shard::ShardedView<double**, Kokkos::LayoutRight,
                                 shard::ShardDim<0, Rows, shard::Halo<1>, shard::Periodic>,
                                 Kokkos::HostSpace>;

double now() {  // nanoseconds
  return std::chrono::duration<double, std::nano>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

double in_mpi = 0;
int mpi_calls = 0;

template <class Call>
int timed(const Call& call) {
  const double begin = now();
  const int code     = call();
  in_mpi += now() - begin;
  ++mpi_calls;
  return code;
}

}  // namespace

extern "C" {
int MPI_Startall(int n, MPI_Request* r) {
  return timed([&] { return PMPI_Startall(n, r); });
}
int MPI_Start(MPI_Request* r) {
  return timed([&] { return PMPI_Start(r); });
}
int MPI_Waitall(int n, MPI_Request* r, MPI_Status* s) {
  return timed([&] { return PMPI_Waitall(n, r, s); });
}
int MPI_Testall(int n, MPI_Request* r, int* flag, MPI_Status* s) {
  return timed([&] { return PMPI_Testall(n, r, flag, s); });
}
}

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  if (!support::Arguments(argc, argv, "").understood()) return 2;
  const Kokkos::DefaultHostExecutionSpace space;
  shard::Mesh<Rows> mesh(environment.world(), {environment.size()});
  constexpr int calls = 4000;

  // the clock's own share of what is measured: one reading within each interval
  std::vector<double> gaps;
  for (int i = 0; i < calls; ++i) {
    const double begin = now();
    gaps.push_back(now() - begin);
  }
  const double clock = support::median(gaps);

  int calls_per_exchange = 0;
  const auto outside_mpi = [&](shard::index_t columns) {
    const Field t("t", mesh, {1024, columns});
    // MPI's calls can be told from ours
    const shard::Exchange halos(shard::Tuning{.transport = shard::TransportKind::mpi}, t);
    std::vector<double> times;
    for (int i = -200; i < calls; ++i) {
      MPI_Barrier(environment.world());
      in_mpi = mpi_calls = 0;
      const double begin = now();
      halos(space);
      const double all   = now() - begin;
      calls_per_exchange = mpi_calls;
      // an interval within ours costs us two readings, and has one within itself
      if (i >= 0) times.push_back(all - clock - in_mpi - mpi_calls * clock);
    }
    return support::median(times);
  };
  double times[2] = {outside_mpi(1), outside_mpi(1024)}, most[2] = {};
  MPI_Allreduce(times, most, 2, MPI_DOUBLE, MPI_MAX, environment.world());
  if (environment.rank() == 0)
    std::printf(
        "{\"benchmarks\": [{\"name\": \"host_time/%s\", \"run_type\": \"iteration\", "
        "\"iterations\": %d, \"real_time\": %.1f, \"cpu_time\": %.1f, \"time_unit\": \"ns\", "
        "\"with_bodies\": %.1f, \"mpi_calls\": %d, \"clock\": %.1f}]}\n",
        space.name(), calls, most[0], most[0], most[1], calls_per_exchange, clock);
}
