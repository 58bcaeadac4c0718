// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_IMPL_SOURCE_RANGES_HPP
#define SHARD_EXCHANGE_IMPL_SOURCE_RANGES_HPP

#include <cstdint>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/base/types.hpp"

namespace shard::impl {

/// Elements [target, target + count) of a dimension, which are the elements source, source + step,
/// ... of another dimension.
struct SourceRange {
  index_t target = 0, source = 0, count = 0;
  index_t step = 1;  ///< +1 or -1
};

/// Disjoint ranges in the order of their targets.
struct SourceRanges {
  explicit SourceRanges(std::vector<SourceRange> all)
      : list(std::move(all)),
        hash(hash_bytes(list.data(), list.size() * sizeof(SourceRange), hash_seed)) {}

  std::vector<SourceRange> list;
  std::uint64_t hash;  ///< by which plans and ranks compare them
};

}  // namespace shard::impl

#endif
