// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_MESH_SHARDING_DATA_HPP
#define SHARD_SRC_MESH_SHARDING_DATA_HPP

#include <memory>
#include <vector>

#include "shard/mesh/op_sharding.hpp"
#include "shard/mesh/partition_spec.hpp"

namespace shard::impl {

/// The data of an OpSharding.
struct ShardingData {
  ShardingType type = ShardingType::unknown;
  DeviceArray tile, groups, members;
  std::vector<int> tiles;                    // per dimension of the tensor
  std::vector<int> position;                 // of each device in the tile assignment
  std::vector<int> mesh_shape, permutation;  // of the iota form
  std::vector<int> order;                    // the mesh's device ids; empty for 0, 1, 2, ...
  int replicas = 1;
};

/// Computes the sharding of a spec on a mesh.
std::shared_ptr<const ShardingData> work_out(const std::vector<int>& device_ids,
                                             const std::vector<int>& mesh_shape,
                                             const ResolvedSpec& spec);

}  // namespace shard::impl

#endif
