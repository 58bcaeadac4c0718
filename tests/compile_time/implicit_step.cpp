// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A time loop with an implicit solve.
#include <shard/shard.hpp>
#include <shard/solve/cg.hpp>
#include <shard/solve/multigrid.hpp>
#include <cstdio>
struct Lat;
struct Lon;
using Cells =
    shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, Lat, shard::Halo<1>>,
                       shard::ShardDim<1, Lon, shard::Halo<1>>>;
struct Step {
  Cells x, b;
  KOKKOS_FUNCTION void operator()(int i, int j) const { b(i, j) = x(i, j); }
};
int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  const shard::Mesh<Lat, Lon> mesh(environment.world(), {0, 0});
  Cells x("x", mesh, {256, 512}), b = x.like("b");
  const Kokkos::DefaultExecutionSpace space;
  shard::Diffusion a(x, {.spacing = {1.0 / 256, 1.0 / 256}});
  shard::Multigrid multigrid(a);
  shard::CG cg(x, a, multigrid, {.relative = 1e-10});
  for (int step = 0; step < 10; ++step) {
    Kokkos::parallel_for("step",
                         Kokkos::MDRangePolicy<Kokkos::DefaultExecutionSpace, Kokkos::Rank<2>>(
                             space, {0, 0}, {x.extent(0), x.extent(1)}),
                         Step{x, b});
    const shard::SolveResult result = cg(space, x, b);
    if (!result) std::printf("%s\n", result.text().c_str());
  }
}
