// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MESH_OP_SHARDING_HPP
#define SHARD_MESH_OP_SHARDING_HPP

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shard/mesh/sharding_type.hpp"

namespace shard {

/// Device ids (or numbers of groups) in a row-major array of any rank.
struct DeviceArray {
  std::vector<int> shape;  ///< extent of each axis
  std::vector<int> ids;    ///< row-major, the last axis the fastest

  /// The id at the given position, one number per axis. Throws ArgumentError outside the array.
  int at(std::initializer_list<int> position) const;
  /// The array as text: "[[0, 1], [2, 3]]".
  std::string text() const;
  /// Whether shapes and ids are equal.
  friend bool operator==(const DeviceArray&, const DeviceArray&) = default;
};

/// The iota ("v2") form of a sharding: few numbers for any number of devices. The devices of the
/// tiles, in row-major order, are 0, 1, 2, ... reshaped to `reshape`, transposed by `permutation`
/// and flattened. If `order` isn't empty, each number is an index into it; XLA's form lacks this.
struct IotaSharding {
  std::vector<int> dims;         ///< tiles per dimension, then the replicas if there are several
  std::vector<int> reshape;      ///< the mesh's shape
  std::vector<int> permutation;  ///< the axes of the spec in its order, then the others
  std::vector<ShardingType> subgroups;  ///< {replicated} where the last of `dims` counts replicas
  std::vector<int> order;               ///< the mesh's device ids; empty for 0, 1, 2, ...

  /// The devices, in row-major order of `dims`.
  std::vector<int> devices() const;
  /// XLA's text: "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"; a mesh's own device
  /// order is listed, as in the v1 form.
  std::string text() const;
  /// Whether all fields are equal.
  friend bool operator==(const IotaSharding&, const IotaSharding&) = default;
};

namespace impl {
struct ShardingData;
}  // namespace impl

/// The sharding of a spec on a mesh: which device has which tile. A handle: copies share the data.
/// Made and cached by LogicalMesh::get_op_sharding.
class OpSharding {
 public:
  /// REPLICATED, MAXIMAL, TILED or PARTIAL.
  ShardingType type() const;
  /// Number of devices.
  int devices() const;
  /// Rank of the tensors.
  int rank() const;
  /// Number of tiles along dimension d, 1 where nothing shards it. Throws ArgumentError for a
  /// dimension that the tensor lacks.
  int tiles(int d) const;
  /// The number along every dimension.
  const std::vector<int>& tiles() const;
  /// Number of devices with the same tile.
  int replicas() const;
  /// Whether every device has the whole tensor.
  bool replicated() const;

  /// The mesh's devices with the axes of the spec first, tuples merged. Without axes for a tensor
  /// of rank 0.
  const DeviceArray& tile_assignment() const;
  /// Numbers of the replication groups in an array of the tensor's rank; empty unless PARTIAL.
  const DeviceArray& group_assignment() const;
  /// The devices of each group, [group][member]; empty unless PARTIAL.
  const DeviceArray& replication_groups() const;
  /// The effective sharding as XLA's text: "{replicated}" or "{devices=[4,1,2]0,1,2,3,4,5,6,7
  /// last_tile_dim_replicate}".
  std::string text() const;
  /// The iota form.
  IotaSharding iota() const;

  /// The tile of a device: its coordinate along every dimension. Throws ArgumentError for a device
  /// that the mesh lacks.
  std::vector<int> tile_of(int device) const;
  /// The number of a device among those with the same tile: 0 if each has another tile, its own
  /// number if all have everything, else its position in its group.
  int replica_id(int device) const;

  /// Whether both are the same sharding: type, tiles, and which device has which.
  friend bool operator==(const OpSharding& a, const OpSharding& b);
  /// Whether both are one object, computed once.
  bool same_object(const OpSharding& other) const { return data_ == other.data_; }

  /// For LogicalMesh.
  explicit OpSharding(std::shared_ptr<const impl::ShardingData> data) : data_(std::move(data)) {}

 private:
  int position_of(int device) const;

  std::shared_ptr<const impl::ShardingData> data_;
};

}  // namespace shard

#endif
