// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_ERROR_HPP
#define SHARD_BASE_ERROR_HPP

#include <mpi.h>

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>

#include "shard/base/types.hpp"

namespace shard {

/// Base of all exceptions of the library. The message has the function, the values, the rank if it
/// is known, and the remedy.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An argument can't be used: a size that doesn't match, an index out of range, an odd number of
/// longitudes under a pole fold.
class ArgumentError : public Error {
 public:
  using Error::Error;
};

/// The ranks of a collective call disagree about its arguments. Thrown on every rank, with both
/// sides' values.
class AgreementError : public Error {
 public:
  using Error::Error;
};

/// MPI returned an error code.
class MpiError : public Error {
 public:
  using Error::Error;
};

/// A message isn't the one that was expected (found under `SHARD_CHECK=1`).
class MessageError : public Error {
 public:
  using Error::Error;
};

/// A point was computed from a stale halo (found under `SHARD_CHECK=1`; see mark_written).
class StaleHaloError : public Error {
 public:
  using Error::Error;
};

namespace impl {

/// Text of an integer or a string, for messages without streams or format.
std::string text(index_t value);
std::string text(std::string_view value);
/// "[1, 2, 3]"
std::string text(const index_t* values, int count);

/// Throws ArgumentError with "shard::" + function + ": " + the concatenated parts.
[[noreturn]] void throw_argument(std::string_view function,
                                 std::initializer_list<std::string> parts);

/// Throws MpiError with the function's name and MPI's own text unless `code` is MPI_SUCCESS.
void check_mpi(int code, const char* function);

/// Returns `comm`. Throws ArgumentError, before any MPI call that would abort, unless it is an
/// intracommunicator and MPI is running. Local.
MPI_Comm require_communicator(MPI_Comm comm, std::string_view function);

/// Collective: throws AgreementError on every rank if `description` isn't the same on all ranks of
/// `comm`; the message has the first two texts that differ, with their ranks.
void require_agreement(MPI_Comm comm, std::string_view function, const std::string& description);

/// Collective: if `message` isn't empty on some rank, throws ArgumentError on every rank, with the
/// message of the lowest such rank.
void require_no_error(MPI_Comm comm, std::string_view function, const std::string& message);

/// 64-bit FNV-1a over bytes, to be chained.
constexpr std::uint64_t hash_seed = 14695981039346656037ULL;
std::uint64_t hash_bytes(const void* bytes, std::size_t count, std::uint64_t seed);

}  // namespace impl
}  // namespace shard

#endif
