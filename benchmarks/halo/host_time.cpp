// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What start and finish cost the host beside the work itself: the time of both less the time in
// MPI's calls (wrapped), of an exchange that does everything that one of 8 kB faces does but has a
// single value to copy in each face, so that the kernels' bodies are next to nothing; by C++ and
// by the C interface, in turns. 2 ranks. Prints Google Benchmark's JSON.
#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "shard/base/environment.hpp"
#include "shard/c/shard.h"
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
  // medians of an exchange without what MPI takes: by C++, by C
  const auto outside_mpi = [&](shard::index_t columns, double* medians) {
    const Field t("t", mesh, {1024, columns}), u = t.like("u");
    // MPI's calls can be told from ours
    const shard::Exchange halos(shard::Tuning{.transport = shard::TransportKind::mpi}, t);
    setenv("SHARD_TRANSPORT", "mpi", 1);
    const int size         = environment.size();
    shard_mesh c_mesh      = nullptr;
    shard_field c_field    = nullptr;
    shard_exchange c_halos = nullptr;
    shard_boundary periodic{};
    periodic.kind                = shard_periodic;
    const shard_dimension dims[] = {{1024, 0, nullptr, nullptr, 1, 1, periodic, periodic},
                                    {columns, -1, nullptr, nullptr, 0, 0, {}, {}}};
    const int64_t local[]        = {u.extent(0) + 2, columns};
    shard_mesh_create(environment.world(), 1, &size, &c_mesh);
    shard_field_wrap(c_mesh, "u", u.view().data(), shard_double, shard_host, 2, dims, local,
                     nullptr, &c_field);
    if (shard_exchange_create(1, &c_field, nullptr, &c_halos) != shard_ok) {
      std::fprintf(stderr, "%s\n", shard_error_message());
      MPI_Abort(environment.world(), 1);
    }
    std::vector<double> times[2];
    for (int i = -200; i < calls; ++i)
      for (const bool in_c : {false, true}) {
        MPI_Barrier(environment.world());
        in_mpi = mpi_calls = 0;
        const double begin = now();
        if (in_c)
          shard_exchange_start(c_halos), shard_exchange_finish(c_halos);
        else
          halos(space);
        const double all   = now() - begin;
        calls_per_exchange = mpi_calls;
        // an interval within ours costs us two readings, and has one within itself
        if (i >= 0) times[in_c ? 1 : 0].push_back(all - clock - in_mpi - mpi_calls * clock);
      }
    shard_exchange_release(&c_halos);
    shard_field_release(&c_field);
    shard_mesh_release(&c_mesh);
    medians[0] = support::median(times[0]);
    medians[1] = support::median(times[1]);
  };
  double times[4] = {}, most[4] = {};  // of a value in each face, of 8 kB
  outside_mpi(1, times);
  outside_mpi(1024, times + 2);
  MPI_Allreduce(times, most, 4, MPI_DOUBLE, MPI_MAX, environment.world());
  if (environment.rank() == 0)
    std::printf(
        "{\"benchmarks\": [{\"name\": \"host_time/%s\", \"run_type\": \"iteration\", "
        "\"iterations\": %d, \"real_time\": %.1f, \"cpu_time\": %.1f, \"time_unit\": \"ns\", "
        "\"with_bodies\": %.1f, \"in_c\": %.1f, \"in_c_with_bodies\": %.1f, \"mpi_calls\": %d, "
        "\"clock\": %.1f}]}\n",
        space.name(), calls, most[0], most[0], most[2], most[1], most[3], calls_per_exchange,
        clock);
}
