// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_ENVIRONMENT_HPP
#define SHARD_BASE_ENVIRONMENT_HPP

#include <mpi.h>

namespace shard {

/// Starts MPI (at thread level FUNNELED) and Kokkos if they aren't running, and ends what it
/// started in the right order. Make one at the beginning of main. A program that starts both itself
/// needs no Environment.
///
/// When an exception unwinds through the Environment, it prints rank and message and aborts the
/// job, because other ranks may be waiting.
class Environment {
 public:
  /// Collective over MPI_COMM_WORLD if MPI isn't running yet. Removes the arguments of MPI and
  /// Kokkos from argc and argv. Hides Kokkos' advice to set OMP_PROC_BIND, which each rank would
  /// print, unless OMP_PROC_BIND or OMP_PLACES is set. Throws ArgumentError if one of the library's
  /// environment variables is invalid.
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
