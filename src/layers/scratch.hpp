// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_SCRATCH_HPP
#define SHARD_SRC_LAYERS_SCRATCH_HPP

#include <cstddef>
#include <vector>

#include "shard/base/types.hpp"

namespace shard::impl {

/// Memory of the calling host thread for `count` values. The thread's next call uses the same
/// memory.
template <class T>
T* scratch_values(index_t count) {
  thread_local std::vector<T> values;
  if (static_cast<index_t>(values.size()) < count) values.resize(static_cast<std::size_t>(count));
  return values.data();
}

}  // namespace shard::impl

#endif
