// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_IO_CLASSIC_HEADER_HPP
#define SHARD_SRC_IO_CLASSIC_HEADER_HPP

#include <cstdint>
#include <string>
#include <vector>

#include "output_file.hpp"

namespace shard::impl {

/// A variable of a file in a classic format.
struct ClassicVariable {
  std::string name;
  int type            = 0;  ///< as NetCDF numbers types
  std::uint64_t bytes = 1;  ///< of one record, if it has records
  std::uint64_t begin = 0;  ///< position of its values
  bool is_record      = false;
};

/// The header of a NetCDF file in a classic format (CDF-1, 2, 5), read without a NetCDF library.
/// Source: "NetCDF Classic Format Specification" of the NetCDF user's guide.
struct ClassicHeader {
  bool is_classic = false;  ///< otherwise the rest is empty: another format, or it can't be read
  std::vector<ClassicVariable> variables{};
  /// A line for each dimension, each variable and each attribute of a variable, sorted.
  std::vector<std::string> definitions{};
  std::uint64_t records = 0;
  /// The size that the file has at least. The NetCDF library reads truncated files without an
  /// error.
  std::uint64_t size = 0;
};

ClassicHeader read_classic_header(const std::string& path);

/// The same lines for the declarations of a file that is to be written.
std::vector<std::string> definitions_of(const OutputHeader& header);

/// How the file at `path` differs from these declarations, values of coordinates too; empty if it
/// doesn't. Attributes of the file as a whole don't count.
std::string difference(const std::string& path, const ClassicHeader& file,
                       const OutputHeader& declared);

}  // namespace shard::impl

#endif
