// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_ENVIRONMENT_HPP
#define SHARD_BASE_ENVIRONMENT_HPP

#include <mpi.h>

namespace shard {

/// MPI and Kokkos for a program's main, started if nobody has (MPI at thread level FUNNELED) and
/// ended in the right order; what others began is left running. Make one, first thing in main. The
/// library itself needs no Environment: it works under a host that started both.
///
/// When an exception leaves main or unwinds through the Environment, it prints rank and message and
/// aborts the job: other ranks may be waiting.
class Environment {
 public:
  /// Collective over MPI_COMM_WORLD if MPI isn't running yet. Arguments that MPI or Kokkos
  /// understand are taken out of argc and argv. Kokkos' advice to set OMP_PROC_BIND, which each
  /// rank would print, is left out unless OMP_PROC_BIND or OMP_PLACES is set. Throws ArgumentError
  /// if one of the library's environment variables isn't understood.
  Environment(int& argc, char**& argv);
  ~Environment();
  Environment(const Environment&)            = delete;
  Environment& operator=(const Environment&) = delete;

  /// MPI_COMM_WORLD.
  MPI_Comm world() const { return MPI_COMM_WORLD; }
  /// This process' rank in world().
  int rank() const;
  /// Number of ranks in world().
  int size() const;

 private:
  bool began_mpi_    = false;
  bool began_kokkos_ = false;
  int exceptions_    = 0;  // in flight when the Environment was made
};

}  // namespace shard

#endif
