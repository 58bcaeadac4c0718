// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_SHARD_LAYOUT_HPP
#define SHARD_VIEW_SHARD_LAYOUT_HPP

#include <cstdint>
#include <string>
#include <vector>

#include "shard/base/types.hpp"
#include "shard/mesh/op_sharding.hpp"
#include "shard/view/partition.hpp"

namespace shard {

/// How the indices of a dimension are distributed over its tiles.
enum class ShardRule : std::uint8_t {
  ceil,     ///< ceil(n / tiles) each, the last ones fewer or none: XLA, DTensor
  balanced  ///< the first n mod tiles one more than the others: the fields of this library
};

/// The part of a tensor on one device: global indices [begin[d], end[d]) along dimension d, without
/// padding, possibly none.
struct DeviceShard {
  int device     = 0;                  ///< its device
  int replica_id = 0;                  ///< which of the devices with the same indices it is
  bool whole     = false;              ///< it is the whole tensor, since the sharding replicates
  std::vector<index_t> begin;          ///< its first index in each dimension
  std::vector<index_t> end;            ///< one past its last index in each dimension
  std::vector<index_t> padded_extent;  ///< extents of the shard that every device allocates

  /// Extents without padding.
  std::vector<index_t> extent() const;
  /// Elements at the end of each dimension that are padding.
  std::vector<index_t> padding() const;
  /// "[0:4, 4:7]", or "..." for the whole tensor.
  std::string text() const;
};

/// The shards of a tensor of given extents under a sharding. A value, without data of the tensor.
class ShardLayout {
 public:
  /// Throws ArgumentError for another number of extents than the sharding has dimensions, or a
  /// negative extent.
  ShardLayout(OpSharding sharding, const std::vector<index_t>& extents,
              ShardRule rule = ShardRule::ceil);

  /// The sharding.
  const OpSharding& sharding() const { return sharding_; }
  /// Global extents.
  const std::vector<index_t>& extents() const { return extents_; }
  /// The indices of each tile along dimension d. Throws ArgumentError for a dimension that the
  /// tensor lacks.
  const Partition& partition(int d) const;
  /// Extents of the shard that every device allocates, padding included: the largest that any has.
  const std::vector<index_t>& shard_shape() const { return shard_shape_; }
  /// The shard of a device. Throws ArgumentError for a device that the mesh lacks.
  DeviceShard shard(int device) const;
  /// The shard of each of these devices.
  std::vector<DeviceShard> shards(const std::vector<int>& devices) const;

 private:
  OpSharding sharding_;
  std::vector<index_t> extents_, shard_shape_;
  std::vector<Partition> partitions_;
};

}  // namespace shard

#endif
