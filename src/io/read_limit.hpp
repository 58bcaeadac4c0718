// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_IO_READ_LIMIT_HPP
#define SHARD_SRC_IO_READ_LIMIT_HPP

#include <cstddef>
#include <cstdio>
#include <span>
#include <string>

namespace shard::impl {

/// The error if values of these extents exceed the reader's memory limit; empty if they don't.
inline std::string over_limit(std::span<const std::size_t> extents, std::size_t bytes_each,
                              std::size_t limit) {
  double bytes = static_cast<double>(bytes_each);
  for (const std::size_t extent : extents) bytes *= static_cast<double>(extent);
  if (bytes <= static_cast<double>(limit)) return {};
  char words[160];
  std::snprintf(words, sizeof words,
                "%.0f bytes (%.3g GiB) would be allocated, the limit is %zu (%.3g GiB); open the "
                "file with a larger one, or read it in parts",
                bytes, bytes / 0x1p30, limit, static_cast<double>(limit) / 0x1p30);
  return words;
}

}  // namespace shard::impl

#endif
