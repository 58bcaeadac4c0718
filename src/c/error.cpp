// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/base/error.hpp"

#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <new>
#include <string>

#include "handles.hpp"
#include "shard/io/safetensors.hpp"

#if defined(__GNUC__)
// of whatever OpenMP the calling program has, if it has one
extern "C" int omp_in_parallel(void) __attribute__((weak));
#endif

namespace shard::c {

namespace {

std::string& last_message() {
  thread_local std::string message;
  return message;
}
std::atomic<shard_error_handler> handler{nullptr};
bool began_kokkos = false;

bool in_parallel_region() {
#if defined(__GNUC__)
  return omp_in_parallel != nullptr && omp_in_parallel() != 0;
#else
  return false;
#endif
}

}  // namespace

int fail(int code, const char* message) noexcept {
  try {
    last_message() = message;
  } catch (...) {
    last_message().clear();
  }
  if (const shard_error_handler call = handler.load()) call(code, message);
  return code;
}

int fail_with_current() noexcept {
  try {
    throw;
  } catch (const AgreementError& error) {
    return fail(shard_error_agreement, error.what());
  } catch (const ArgumentError& error) {
    return fail(shard_error_argument, error.what());
  } catch (const MpiError& error) {
    return fail(shard_error_mpi, error.what());
  } catch (const StaleHaloError& error) {
    return fail(shard_error_stale, error.what());
  } catch (const MessageError& error) {
    return fail(shard_error_stale, error.what());
  } catch (const IoError& error) {
    return fail(shard_error_io, error.what());
  } catch (const std::exception& error) {
    return fail(shard_error_other, error.what());
  } catch (...) {
    return fail(shard_error_other, "shard: an unknown exception");
  }
}

void require_callable() {
  if (in_parallel_region())
    throw ArgumentError(
        "shard: called inside a parallel region of threads; call it from one thread outside");
  if (!Kokkos::is_initialized())
    throw ArgumentError("shard: Kokkos isn't running; call shard_initialize first");
}

void throw_null(const char* what) {
  throw ArgumentError("shard: " + std::string(what) + " is null");
}

}  // namespace shard::c

const char* shard_error_message(void) { return shard::c::last_message().c_str(); }

int shard_set_error_handler(shard_error_handler handler) {
  shard::c::handler = handler;
  return shard_ok;
}

int shard_initialize(MPI_Comm comm) {
  try {
    shard::impl::require_communicator(comm, "shard_initialize");
    if (Kokkos::is_initialized()) return shard_ok;
    Kokkos::initialize();
    shard::c::began_kokkos = true;
    return shard_ok;
  } catch (...) {
    return shard::c::fail_with_current();
  }
}

int shard_initialize_f(MPI_Fint comm) { return shard_initialize(MPI_Comm_f2c(comm)); }

int shard_finalize(void) {
  try {
    if (shard::c::began_kokkos && Kokkos::is_initialized()) Kokkos::finalize();
    shard::c::began_kokkos = false;
    return shard_ok;
  } catch (...) {
    return shard::c::fail_with_current();
  }
}
