// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_SCRATCH_HPP
#define SHARD_SRC_LAYERS_SCRATCH_HPP

#include <cstddef>
#include <vector>

#include "shard/base/types.hpp"

namespace shard::impl {

/// Memory of the calling host thread for `count` values, from the begin of a cache line. The
/// thread's next call uses the same memory.
template <class T>
T* scratch_values(index_t count) {
  struct alignas(64) Line {
    T values[64 / sizeof(T)];
  };
  constexpr index_t each = 64 / static_cast<index_t>(sizeof(T));
  thread_local std::vector<Line> lines;
  const auto needed = static_cast<std::size_t>((count + each - 1) / each);
  if (lines.size() < needed) lines.resize(needed);
  return reinterpret_cast<T*>(lines.data());
}

}  // namespace shard::impl

#endif
