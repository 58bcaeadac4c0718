// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_IO_SHARED_FILE_HPP
#define SHARD_SRC_IO_SHARED_FILE_HPP

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>

#include "new_file.hpp"
#include "safetensors_file.hpp"

/// \file
/// One file that all ranks of a communicator write or read, each rank its part.

namespace shard::impl {

/// Bytes that are copied, hashed and written together: they fit into the processor's cache.
inline constexpr index_t piece_bytes = index_t{1} << 20;

/// Throws the failure of the lowest rank that has one, on every rank: kind 0 is none, 1
/// ArgumentError, 2 IoError, 3 any other. Collective.
void throw_everywhere(MPI_Comm comm, int kind, std::string message);

/// Runs `body` on every rank of `comm`; if it throws on some rank, every rank throws. Collective.
template <class Body>
void on_every_rank(MPI_Comm comm, const Body& body) {
  int kind = 0;
  std::string message;
  try {
    body();
  } catch (const ArgumentError& e) {
    kind    = 1;
    message = e.what();
  } catch (const IoError& e) {
    kind    = 2;
    message = e.what();
  } catch (const std::exception& e) {
    kind    = 3;
    message = e.what();
  }
  throw_everywhere(comm, kind, message);
}

/// Runs `body` on the first rank of `comm`; if it throws, every rank throws. Collective.
template <class Body>
void on_first_rank(MPI_Comm comm, const Body& body) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  on_every_rank(comm, [&] {
    if (rank == 0) body();
  });
}

/// Throws AgreementError on every rank unless all ranks give the same path. Collective.
void require_same_path(const char* function, const std::string& path, MPI_Comm comm);

/// The temporary file of `path`, open on every rank of `comm`; the first rank puts it in place.
/// Collective; requires the same path.
std::unique_ptr<NewFile> create_on_all(const char* function, const std::string& path,
                                       MPI_Comm comm);

/// The file, open on every rank of `comm`. Throws IoError if the ranks see different files.
/// Collective.
std::unique_ptr<File> open_on_all(const std::string& path, MPI_Comm comm);

/// Broadcasts any number of bytes.
void broadcast_bytes(MPI_Comm comm, void* bytes, std::size_t count, int root = 0);

/// The sum over all ranks modulo 2^64, on the first rank. Collective.
std::uint64_t sum_on_first_rank(MPI_Comm comm, std::uint64_t value);

/// Divides arrays that every rank has into pieces. The ranks write or read them in turn.
class Turns {
 public:
  explicit Turns(MPI_Comm comm) {
    check_mpi(MPI_Comm_rank(comm, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(comm, &size_), "MPI_Comm_size");
  }
  int rank() const { return rank_; }

  /// Calls use(first value, values, rank) for the pieces of the next array, of `count` values of
  /// `size` bytes.
  template <class Use>
  void take(index_t count, index_t size, const Use& use) {
    const index_t most = piece_bytes / size;
    for (index_t first = 0; first < count; first += most, next_ = (next_ + 1) % size_)
      use(first, std::min(most, count - first), next_);
  }
  /// The same for this rank's pieces.
  template <class Use>
  void take_own(index_t count, index_t size, const Use& use) {
    take(count, size, [&](index_t first, index_t n, int owner) {
      if (owner == rank_) use(first, n);
    });
  }
  /// Broadcasts the pieces of the next array, each from the rank whose turn it is. Collective.
  void broadcast(MPI_Comm comm, void* values, index_t count, index_t size) {
    take(count, size, [&](index_t first, index_t n, int owner) {
      broadcast_bytes(comm, static_cast<char*>(values) + first * size,
                      static_cast<std::size_t>(n * size), owner);
    });
  }

 private:
  int rank_ = 0, size_ = 1, next_ = 0;
};

}  // namespace shard::impl

#endif
