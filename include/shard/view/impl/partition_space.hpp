// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_IMPL_PARTITION_SPACE_HPP
#define SHARD_VIEW_IMPL_PARTITION_SPACE_HPP

#include <cstdint>

#include "shard/mesh/axis.hpp"

namespace shard::impl {

/// What the partition of an index space or of blocks has beside its begins: the base of IndexHalo
/// and BlockSpace.
struct PartitionSpace {
  bool has_blocks        = false;    ///< of a BlockSpace
  AxisId space           = nullptr;  ///< the space's type
  std::uint64_t identity = 0;        ///< the same on all ranks, different for other spaces
};

}  // namespace shard::impl

#endif
