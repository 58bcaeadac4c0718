// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "oversubscription.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard::impl {

namespace {

/// A bit for each core, enough for any kernel.
using Cores = std::array<std::uint64_t, 128>;

/// The cores on which a process may run; none if unknown.
Cores cores_of([[maybe_unused]] pid_t process) {
  Cores cores{};
#ifdef __linux__
  if (sched_getaffinity(process, sizeof(cores), reinterpret_cast<cpu_set_t*>(cores.data())) != 0)
    cores = {};
#endif
  return cores;
}

int count(const Cores& cores) {
  int n = 0;
  for (const std::uint64_t word : cores) n += std::popcount(word);
  return n;
}

/// Ranks on this machine, of all communicators, from the variables of OpenMPI's, MPICH's, MVAPICH's
/// and PMI's launchers.
int launched_here() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS",
                           "MV2_COMM_WORLD_LOCAL_SIZE", "PMI_LOCAL_SIZE"})
    if (const char* text = std::getenv(name)) return std::max(0, std::atoi(text));
  return 0;
}

}  // namespace

bool NodeUse::is_oversubscribed() const {
  return std::max(ranks, threads) > cores || (given > 0 && launched > given);
}

bool has_wait_policy() { return std::getenv("OMP_WAIT_POLICY") != nullptr; }

NodeUse use_of(MPI_Comm node, int threads) {
  NodeUse use;
  check_mpi(MPI_Comm_size(node, &use.ranks), "MPI_Comm_size");

  // The binding of this communicator's ranks doesn't show where other ranks run. The launcher's own
  // binding does: it binds its ranks and not itself.
  struct Seen {
    Cores any, not_all, launcher;
    std::uint64_t launcher_is_alike;
  } seen{};
  static_assert(sizeof(Seen) % sizeof(std::uint64_t) == 0);
  seen.any      = cores_of(0);
  seen.launcher = cores_of(getppid());
  for (std::size_t i = 0; i < seen.any.size(); ++i) seen.not_all[i] = ~seen.any[i];
  seen.launcher_is_alike = seen.launcher == seen.any ? 1 : 0;
  await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, &seen,
            sizeof(seen) / sizeof(std::uint64_t), MPI_UINT64_T, MPI_BOR, node);
  use.cores    = count(seen.any);
  use.launched = launched_here();
  await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, &use.launched, 1, MPI_INT, MPI_MAX, node);

  use.threads = threads;
  await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, &use.threads, 1, MPI_INT, MPI_SUM, node);

  bool bound = false;  // not all ranks to the same cores
  for (std::size_t i = 0; i < seen.any.size(); ++i)
    bound = bound || (seen.any[i] & seen.not_all[i]) != 0;
  // a script between launcher and rank has the rank's binding
  if (!bound || seen.launcher_is_alike == 0) {
    for (std::size_t i = 0; i < seen.any.size(); ++i) seen.launcher[i] |= seen.any[i];
    use.given = count(seen.launcher);
  }
  if (use.cores == 0) use.cores = use.given = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  return use;
}

}  // namespace shard::impl
