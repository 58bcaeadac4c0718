// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What start and finish cost the host beside the work itself: the time of both, less the time in
// MPI's calls (wrapped) and in the kernels (Kokkos Tools callbacks). 8 kB faces, 2 ranks. Prints
// Google Benchmark's JSON.
#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "shard/base/environment.hpp"
#include "shard/exchange/exchange.hpp"

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

double in_mpi = 0, in_kernels = 0, kernel_began = 0;
int mpi_calls = 0, kernels = 0;

template <class Call>
int timed(const Call& call) {
  const double begin = now();
  const int code     = call();
  in_mpi += now() - begin;
  ++mpi_calls;
  return code;
}

void kernel_begins(const char*, std::uint32_t, std::uint64_t* id) {
  *id          = 0;
  kernel_began = now();
}
void kernel_ends(std::uint64_t) {
  in_kernels += now() - kernel_began;
  ++kernels;
}

struct EmptyKernel {
  KOKKOS_FUNCTION void operator()(int) const {}
};

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
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
  const Kokkos::DefaultHostExecutionSpace space;
  shard::Mesh<Rows> mesh(environment.world(), {environment.size()});
  const Field t("t", mesh, {1024, 1024});
  // MPI's calls can be told from ours
  const shard::Exchange halos(shard::Tuning{.transport = shard::TransportKind::mpi}, t);
  constexpr int calls = 4000;

  // the clock's own share of what is measured: one reading within each interval
  std::vector<double> gaps;
  for (int i = 0; i < calls; ++i) {
    const double begin = now();
    gaps.push_back(now() - begin);
  }
  const double clock = median(gaps);

  std::vector<double> outside, bodies, empty;
  double calls_per_exchange = 0;
  for (int i = -200; i < calls; ++i) {
    MPI_Barrier(environment.world());
    in_mpi = mpi_calls = 0;
    const double begin = now();
    halos(space);
    const double all = now() - begin;
    // an interval within ours costs us two readings, and has one within itself
    if (i >= 0) outside.push_back(all - clock - in_mpi - mpi_calls * clock);
    calls_per_exchange = mpi_calls;
  }

  namespace tools = Kokkos::Tools::Experimental;
  tools::set_begin_parallel_for_callback(kernel_begins);
  tools::set_end_parallel_for_callback(kernel_ends);
  int kernels_per_exchange = 0;
  for (int i = -200; i < calls; ++i) {
    MPI_Barrier(environment.world());
    in_kernels = kernels = 0;
    halos(space);
    kernels_per_exchange = kernels;
    if (i >= 0) bodies.push_back(in_kernels - kernels * clock);
    in_kernels = 0;
    Kokkos::parallel_for("empty",
                         Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>(space, 0, 1),
                         EmptyKernel{});
    if (i >= 0) empty.push_back(in_kernels - clock);
  }
  tools::set_begin_parallel_for_callback(nullptr);
  tools::set_end_parallel_for_callback(nullptr);

  // The callbacks see a launch and Kokkos' fence for tools as part of a kernel: an empty one has
  // the same, and that isn't the body's.
  const double launch = median(empty);
  double times[3] = {median(outside), median(bodies), launch}, most[3] = {};
  MPI_Allreduce(times, most, 3, MPI_DOUBLE, MPI_MAX, environment.world());
  const double host = most[0] - (most[1] - kernels_per_exchange * most[2]);
  if (environment.rank() == 0)
    std::printf(
        "{\"benchmarks\": [{\"name\": \"host_time/%s\", \"run_type\": \"iteration\", "
        "\"iterations\": %d, \"real_time\": %.1f, \"cpu_time\": %.1f, \"time_unit\": \"ns\", "
        "\"outside_mpi\": %.1f, \"in_kernels\": %.1f, \"empty_kernel\": %.1f, \"kernels\": %d, "
        "\"mpi_calls\": %.0f, \"clock\": %.1f}]}\n",
        space.name(), calls, host, host, most[0], most[1], most[2], kernels_per_exchange,
        calls_per_exchange, clock);
}
