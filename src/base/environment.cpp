// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/base/environment.hpp"

#include <Kokkos_Core.hpp>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "shard/base/impl/environment_variable.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard {

namespace {

[[noreturn]] void abort_job() {
  int initialized = 0, finalized = 0, rank = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  const bool running = initialized != 0 && finalized == 0;
  if (running) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const char* what = "an exception that isn't a std::exception";
  std::string kept;
  try {
    if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
    what = "an exception left a scope that had an Environment";
  } catch (const std::exception& e) {
    kept = e.what();
    what = kept.c_str();
  } catch (...) {
  }
  std::fprintf(stderr, "shard: rank %d: %s\n", rank, what);
  std::fflush(stderr);
  if (running) MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  std::_Exit(EXIT_FAILURE);
}

/// Starts Kokkos without its advice to bind threads, which it gives on every rank where
/// OMP_PROC_BIND isn't set. If OMP_PROC_BIND or OMP_PLACES is set, it may say what it finds; its
/// other warnings (more threads than cores) always come.
void initialize_kokkos(int& argc, char** argv) {
  const bool quiet =
      !impl::environment_text("OMP_PROC_BIND") && !impl::environment_text("OMP_PLACES");
  if (quiet) setenv("OMP_PROC_BIND", "false", 1);  // the default, which Kokkos doesn't warn about
  try {
    Kokkos::initialize(argc, argv);
  } catch (...) {
    if (quiet) unsetenv("OMP_PROC_BIND");
    throw;
  }
  if (quiet) unsetenv("OMP_PROC_BIND");
}

}  // namespace

Environment::Environment(int& argc, char**& argv) : exceptions_(std::uncaught_exceptions()) {
  int initialized = 0;
  impl::check_mpi(MPI_Initialized(&initialized), "MPI_Initialized");
  if (initialized == 0) {
    const auto thread = impl::environment_text("SHARD_PROGRESS_THREAD");
    const int wanted  = thread == "1" ? MPI_THREAD_MULTIPLE : MPI_THREAD_FUNNELED;
    int provided      = 0;
    impl::check_mpi(MPI_Init_thread(&argc, &argv, wanted, &provided), "MPI_Init_thread");
    began_mpi_ = true;
    // An uncaught exception ends the program without unwinding, so the destructor below would not
    // run.
    std::set_terminate(abort_job);
  }
  const std::string wrong = impl::environment_complaint();
  if (!wrong.empty()) throw ArgumentError(wrong);
  if (!Kokkos::is_initialized()) {
    initialize_kokkos(argc, argv);
    began_kokkos_ = true;
  }
}

Environment::~Environment() {
  if (std::uncaught_exceptions() > exceptions_) abort_job();
  if (began_kokkos_ && Kokkos::is_initialized() && !Kokkos::is_finalized()) Kokkos::finalize();
  int finalized = 0, rank = 0;
  MPI_Finalized(&finalized);
  if (!began_mpi_ || finalized != 0) return;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const impl::Watched watched({.what = "other ranks to end their Environment", .rank = rank});
  MPI_Finalize();
}

int Environment::rank() const {
  int rank = 0;
  impl::check_mpi(MPI_Comm_rank(world(), &rank), "MPI_Comm_rank");
  return rank;
}

int Environment::size() const {
  int size = 0;
  impl::check_mpi(MPI_Comm_size(world(), &size), "MPI_Comm_size");
  return size;
}

}  // namespace shard
