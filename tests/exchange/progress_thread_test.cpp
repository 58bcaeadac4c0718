// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A rank that computes for long doesn't keep its neighbour's long messages waiting: a thread calls
// MPI meanwhile.
#include <Kokkos_Core.hpp>
#include <mpi.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "shard/shard.hpp"

struct X;

using Rows =
    shard::ShardedView<double**, Kokkos::LayoutRight,
                       shard::ShardDim<0, X, shard::Halo<1>, shard::Periodic>, Kokkos::HostSpace>;

int main(int argc, char** argv) {
  setenv("SHARD_PROGRESS_THREAD", "1", 1);
  setenv("SHARD_CHECK", "0", 1);
  const shard::Environment environment(argc, argv);
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_MULTIPLE) {
    std::puts("this MPI has no MPI_THREAD_MULTIPLE\nPASSED");
    return EXIT_SUCCESS;
  }
  const Kokkos::DefaultHostExecutionSpace space;
  const shard::Mesh<X> mesh(MPI_COMM_WORLD, {0});
  const Rows t("t", mesh, {2 * mesh.size(), 500000});
  const shard::Exchange halos(shard::Tuning{.transport = shard::TransportKind::mpi}, t);
  long number = getpid();
  MPI_Bcast(&number, 1, MPI_LONG, 0, MPI_COMM_WORLD);
  const std::string flag = "progress_thread_" + std::to_string(number);
  bool good              = true;
  for (int turn = 0; turn < 2; ++turn) {
    const std::string said = flag + "_" + std::to_string(turn);
    Kokkos::deep_copy(t.view(), 1.0 + mesh.rank());
    auto pending = halos.start(space);
    if (mesh.rank() == 0) {  // computes, and doesn't call MPI
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
      while (!std::filesystem::exists(said) && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      good = good && std::filesystem::exists(said);
    }
    pending.finish();
    if (mesh.rank() == mesh.size() - 1) std::ofstream(said) << "finished\n";
    good = good && t(-1, 7) == 1.0 + (mesh.rank() + mesh.size() - 1) % mesh.size();
    MPI_Barrier(MPI_COMM_WORLD);
    if (mesh.rank() == 0) std::filesystem::remove(said);
  }
  std::puts(good ? "PASSED" : "FAILED: the neighbour waited for this rank's computation");
  return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
