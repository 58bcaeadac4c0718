// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_IO_SAFETENSORS_FILE_HPP
#define SHARD_SRC_IO_SAFETENSORS_FILE_HPP

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
  /// The number of the file on its file system.
  std::uint64_t number() const;
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

}  // namespace shard::impl

#endif
