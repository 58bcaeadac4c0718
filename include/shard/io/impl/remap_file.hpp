// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_IO_IMPL_REMAP_FILE_HPP
#define SHARD_IO_IMPL_REMAP_FILE_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace shard::impl {

/// What a file of remapping weights has: a part of the weights, and all cells.
struct RemapFile {
  std::vector<std::int64_t> row, column;  ///< of the weights, from 0
  std::vector<double> weight;
  /// The areas by which integrals are conserved, and what a row adds up to.
  std::vector<double> target_area, source_area, row_sum;
};

/// Reads part `part` of `parts` of the weights. Local. Throws NetcdfError.
RemapFile read_remap_file(const std::string& path, std::size_t part, std::size_t parts);

}  // namespace shard::impl

#endif
