// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_IO_SAFETENSORS_FILE_HPP
#define SHARD_SRC_IO_SAFETENSORS_FILE_HPP

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shard/io/safetensors.hpp"

namespace shard::impl {

/// Bytes of a value of this dtype, 0 if there is no such dtype.
index_t bytes_of_type(std::string_view type);

/// Extents as text.
std::string shape_of(const std::vector<index_t>& extents);

/// Throws IoError with the file's name.
[[noreturn]] void throw_io(const std::string& path, const std::string& what);

/// The text in double quotes with JSON's escapes: names in headers and in messages.
std::string json_text(std::string_view words);

/// A regular file open for reading. Failures throw IoError.
class File {
 public:
  explicit File(const std::string& path);
  ~File();
  File(const File&)            = delete;
  File& operator=(const File&) = delete;

  index_t size() const;
  void read(index_t at, void* bytes, std::size_t count) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int descriptor_;
};

SafetensorsHeader read_header(const File& file);

/// The header's text with the 8 bytes before it, with the positions in `header`. Throws
/// ArgumentError for invalid names.
std::string header_bytes(const SafetensorsHeader& header);

/// Assigns consecutive positions to the arrays. Returns the data's length.
index_t place_arrays(SafetensorsHeader& header);

/// Runs `body` on the first rank of `comm`; rethrows its exception on every rank. Collective.
template <class Body>
void on_first_rank(MPI_Comm comm, const Body& body);

/// Broadcasts and throws a failure: kind 0 is none, 1 ArgumentError, 2 IoError, 3 any other.
void throw_everywhere(MPI_Comm comm, int kind, std::string message);

template <class Body>
void on_first_rank(MPI_Comm comm, const Body& body) {
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  int kind = 0;
  std::string message;
  if (rank == 0) {
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
  }
  throw_everywhere(comm, kind, message);
}

/// Broadcasts from the first rank, any length.
void broadcast_bytes(MPI_Comm comm, void* bytes, std::size_t count);

}  // namespace shard::impl

#endif
