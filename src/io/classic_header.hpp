// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_IO_CLASSIC_SIZE_HPP
#define SHARD_SRC_IO_CLASSIC_SIZE_HPP

#include <cstdint>
#include <string>

namespace shard::impl {

/// The size that the header of a NetCDF file in a classic format (CDF-1, 2, 5) says the file has at
/// least; 0 for other files, and for a header that can't be read. The NetCDF library opens and
/// reads truncated files without an error. Source: the format's specification, "NetCDF Classic
/// Format Specification" of the NetCDF user's guide.
std::uint64_t classic_size(const std::string& path);

}  // namespace shard::impl

#endif
