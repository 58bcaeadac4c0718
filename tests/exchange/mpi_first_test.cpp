// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// MPI ends before Kokkos does, and before a mesh, a field in shared memory, their plan and a
// coupling whose last message nobody receives: nothing that ends later calls MPI, waits for another
// rank or touches a window.
#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>

#include "shard/redistribute/coupling.hpp"
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
    const shard::Mesh<X> own(MPI_COMM_SELF, {1});
    const Rows from("from", own, {8, 5}), to("to", own, {8, 5});
    const bool sends = mesh.rank() == 0, receives = mesh.rank() == mesh.size() - 1;
    shard::Coupling<Rows, Rows> coupling(MPI_COMM_WORLD, receives ? &to : nullptr,
                                         sends ? &from : nullptr);
    coupling(space);
    if (sends && !receives) coupling.send(space);
    MPI_Finalize();
  }
  Kokkos::finalize();
  std::printf("PASSED\n");
  return EXIT_SUCCESS;
}
