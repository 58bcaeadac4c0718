// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A mesh that outlives Kokkos, and MPI: plans are gone before Kokkos is, and nothing is called
// after MPI_Finalize.
#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <optional>

#include "shard/shard.hpp"

struct X;

using Line = shard::ShardedView<int*, Kokkos::LayoutRight,
                                shard::ShardDim<0, X, shard::Halo<1>, shard::Periodic>>;

int main(int argc, char** argv) {
  std::optional<shard::Mesh<X>> outlives_mpi;
  std::weak_ptr<shard::impl::CachedPlan> plan, other;
  int failures      = 0;
  const auto expect = [&](bool good, const char* what) {
    if (good) return;
    ++failures;
    std::printf("FAILED: %s\n", what);
  };
  {
    MPI_Init(&argc, &argv);
    const shard::Mesh<X> mesh(MPI_COMM_WORLD, {0});  // made before Kokkos runs, and outlives it
    Kokkos::initialize(argc, argv);
    outlives_mpi.emplace(MPI_COMM_WORLD, shard::Extents<1>{0});
    {
      const Kokkos::DefaultExecutionSpace space;
      const Line t("t", mesh, {8}), u("u", *outlives_mpi, {8});
      shard::exchange(space, t);
      shard::exchange(space, u);
      plan  = shard::impl::find_exchange_plan(t);
      other = shard::impl::find_exchange_plan(u);
    }
    expect(!plan.expired() && !other.expired(), "the mesh keeps its plans");
    Kokkos::finalize();
    expect(plan.expired() && other.expired(), "plans end before Kokkos");
  }
  MPI_Finalize();
  outlives_mpi.reset();
  if (failures == 0) std::printf("PASSED\n");
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
