// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// MPI ends before Kokkos does, and before a mesh, a field in shared memory and their plan: nothing
// that ends later calls MPI, waits for another rank or touches a window.
#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>

#include "shard/shard.hpp"

struct X;

using Rows =
    shard::ShardedView<double**, Kokkos::LayoutRight,
                       shard::ShardDim<0, X, shard::Halo<1>, shard::Periodic>, Kokkos::HostSpace>;

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Kokkos::initialize(argc, argv);
  {
    const Kokkos::DefaultHostExecutionSpace space;
    const shard::Mesh<X> mesh(MPI_COMM_WORLD, {0});
    // read in its place, and packed
    const Rows t = shard::shared_field<Rows>("t", mesh, {8, 600}), u("u", mesh, {8, 5});
    const shard::Exchange of_t(t), of_u(u);
    of_t(space);
    of_u(space);
    MPI_Finalize();
  }
  Kokkos::finalize();
  std::printf("PASSED\n");
  return EXIT_SUCCESS;
}
