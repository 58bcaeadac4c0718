// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_IO_OUTPUT_FILE_HPP
#define SHARD_SRC_IO_OUTPUT_FILE_HPP

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "shard/io/checkpoint.hpp"
#include "shard/io/netcdf.hpp"

/// \file
/// What NetcdfOutput needs of a NetCDF library. netcdf_output_parallel.cpp has it from PnetCDF,
/// netcdf_output_serial.cpp from the NetCDF library on the first rank.

namespace shard::impl {

struct OutputVariable {
  std::string name;
  std::vector<std::string> dimensions;
  std::vector<index_t> extents;
  NetcdfType type;
  std::vector<NetcdfAttribute> attributes;
  std::vector<double> values{};  ///< of a coordinate or its bounds

  /// Whether the first dimension grows with the entries that are written. Its extent is 0.
  bool is_record() const { return !extents.empty() && extents.front() == 0; }
  /// In the file; of one entry of a record variable.
  index_t bytes() const {
    index_t bytes = type == NetcdfType::int8      ? 1
                    : type == NetcdfType::int16   ? 2
                    : type == NetcdfType::float64 ? 8
                                                  : 4;
    for (const index_t n : extents) bytes *= n == 0 ? 1 : n;
    return bytes;
  }
};

struct OutputHeader {
  std::vector<NetcdfDimension> dimensions{};  ///< of size 0: the record dimension
  std::vector<OutputVariable> variables{};
  std::vector<NetcdfAttribute> attributes{};
};

/// Boxes of a variable: starts and counts of one after the other, and their values.
struct OutputBoxes {
  std::vector<std::size_t> starts{}, counts{};
  std::vector<double> values{};
};

/// A file that all ranks write. All functions but the destructor are collective, and throw on every
/// rank. Without close() the file is removed.
class OutputFile {
 public:
  OutputFile()                             = default;
  OutputFile(const OutputFile&)            = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  virtual ~OutputFile()                    = default;
  /// Writes this rank's boxes, which may be none.
  virtual void write(const OutputVariable& variable, OutputBoxes boxes) = 0;
  virtual void close()                                                  = 0;
};

/// Throws NetcdfError if this build has no NetCDF library.
void require_output_library(const std::string& path);

/// Begins the file; with variables of more than 4 GiB it is `large`. `extends`: with a copy of the
/// file that is there, which has these declarations. Collective.
std::unique_ptr<OutputFile> make_output_file(MPI_Comm comm, const std::string& path,
                                             const OutputHeader& header, bool large, bool extends);

}  // namespace shard::impl

#endif
