// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The solvers' operations on vectors, and beside them a copy of the same memory and those of
// KokkosBlas where it is installed. All in turns; medians of the slowest rank, and bandwidth.
//
// mpirun -n 2 vectors [--turns 51] [--quick]
#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <tuple>
#include <vector>

#include "shard/shard.hpp"
#include "shard/solve/vector.hpp"
#include "support/arguments.hpp"
#include "ways.hpp"
#ifdef SHARD_BENCHMARK_KERNELS
#include <KokkosBlas1_axpby.hpp>
#include <KokkosBlas1_dot.hpp>
#include <KokkosBlas1_nrm2.hpp>
#endif

namespace {

struct Ranks;
using Space  = Kokkos::DefaultExecutionSpace;
using Vector = shard::ShardedView<double*, Kokkos::LayoutRight, shard::ShardDim<0, Ranks>>;

/// Values of many magnitudes and both signs.
struct Fill {
  double* to;
  double phase;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    to[i] = Kokkos::sin(phase + 0.7 * static_cast<double>(i)) *
            Kokkos::exp(1e-6 * static_cast<double>(i % 4'000'000));
  }
};
struct Copy {
  double* to;
  const double* from;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const { to[i] = from[i]; }
};

void measure(const shard::Mesh<Ranks>& mesh, shard::index_t points, int turns) {
  const Space space;
  const Vector x("x", mesh, {points}), y = x.like("y");
  const Kokkos::RangePolicy<Space> points_here(space, 0, x.extent(0));
  Kokkos::parallel_for("fill", points_here, Fill{x.origin(), 0.3});
  Kokkos::parallel_for("fill", points_here, Fill{y.origin(), 1.9});
  const MPI_Comm comm = mesh.communicator();
  const double bytes  = 8.0 * static_cast<double>(x.extent(0));
  double result       = 0.0;
  std::vector<ways::Way> all{
      {"copy",
       [&] {
         Kokkos::parallel_for("copy", points_here, Copy{y.origin(), x.origin()});
       },
       2.0 * bytes},
      {"dot", [&] { result += shard::dots(space, std::tie(x, y))[0]; }, 2.0 * bytes},
      {"norm", [&] { result += shard::dots(space, std::tie(x, x))[0]; }, bytes},
      {"ordered dot",
       [&] { result += shard::dots<shard::Determinism::ordered>(space, std::tie(x, y))[0]; },
       2.0 * bytes},
      {"ordered norm",
       [&] { result += shard::dots<shard::Determinism::ordered>(space, std::tie(x, x))[0]; },
       bytes},
      {"axpby", [&] { shard::axpby(space, y, 0.5, x, 0.5); }, 3.0 * bytes}};
#ifdef SHARD_BENCHMARK_KERNELS
  const auto sum = [&](double mine) {
    MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_SUM, comm);
    result += mine;
  };
  const auto u = x.view(), v = y.view();
  all.push_back({"KokkosBlas dot", [&] { sum(KokkosBlas::dot(space, u, v)); }, 2.0 * bytes});
  all.push_back({"KokkosBlas nrm2", [&] { sum(KokkosBlas::nrm2(space, u)); }, bytes});
  all.push_back(
      {"KokkosBlas axpby", [&] { KokkosBlas::axpby(space, 0.5, u, 0.5, v); }, 3.0 * bytes});
#endif
  ways::measure(comm, all, turns);
  if (mesh.rank() == 0)
    std::printf("%lld points, %d ranks, %d threads, sum %g\n", static_cast<long long>(points),
                mesh.size(), space.concurrency(), result);
  ways::print(comm, all);
}

}  // namespace

int main(int argc, char** argv) {
  const shard::Environment environment(argc, argv);
  support::Arguments arguments(argc, argv, "[--turns N] [--quick]");
  int turns = 51;
  arguments.take("--turns", turns, 1);
  const bool quick = arguments.flag("--quick");
  if (!arguments.understood()) return 2;
  const shard::Mesh<Ranks> mesh(environment.world(), {0});
  if (quick) {
    measure(mesh, 10'000, 3);
    return 0;
  }
  for (const shard::index_t points : {30'000, 300'000, 1'000'000, 3'000'000, 10'000'000})
    measure(mesh, points, turns);
  return 0;
}
