// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_SHARDING_SPEC_HPP
#define SHARD_VIEW_SHARDING_SPEC_HPP

#include <cstddef>
#include <optional>
#include <vector>

#include "shard/base/types.hpp"
#include "shard/mesh/logical_mesh.hpp"
#include "shard/view/shard_layout.hpp"

namespace shard {

/// Options of a ShardingSpec, by name.
struct ShardingSpecOptions {
  bool minibatch    = false;            ///< dimension 0 of a tensor is this host's batch
  int local_devices = 0;                ///< devices of this host; 0: all of the mesh
  ShardRule rule    = ShardRule::ceil;  ///< how indices are distributed
};

namespace impl {

/// Extents of a View, of a field (its global ones), or as given.
template <class Tensor>
std::vector<index_t> extents_of(const Tensor& tensor) {
  constexpr int rank = static_cast<int>(Tensor::rank);
  std::vector<index_t> extents;
  for (int d = 0; d < rank; ++d) {
    if constexpr (requires { tensor.global_extent(d); })
      extents.push_back(tensor.global_extent(d));
    else
      extents.push_back(static_cast<index_t>(tensor.extent(static_cast<std::size_t>(d))));
  }
  return extents;
}
inline std::vector<index_t> extents_of(const std::vector<index_t>& extents) { return extents; }

}  // namespace impl

/// The sharding of a spec on a mesh, for many tensors. A tensor is a Kokkos View, a ShardedView (by
/// its global extents) or a list of extents.
class ShardingSpec {
 public:
  /// Throws what LogicalMesh::get_op_sharding throws, and ArgumentError for more local devices than
  /// the mesh has.
  ShardingSpec(LogicalMesh mesh, const PartitionSpec& spec,
               const ShardingSpecOptions& options = {});
  /// On the global mesh; ArgumentError if there is none.
  explicit ShardingSpec(const PartitionSpec& spec, const ShardingSpecOptions& options = {});

  /// The mesh.
  const LogicalMesh& mesh() const { return mesh_; }
  /// The spec on the mesh.
  const OpSharding& sharding() const { return sharding_; }

  /// Whether the tensor has one dimension per entry of the spec.
  template <class Tensor>
  bool can_apply(const Tensor& tensor) const {
    return fits(impl::extents_of(tensor).size());
  }
  /// The sharding, or none if it doesn't fit.
  template <class Tensor>
  std::optional<OpSharding> sharding_for(const Tensor& tensor) const {
    return can_apply(tensor) ? std::optional<OpSharding>(sharding_) : std::nullopt;
  }
  /// The shards of the tensor. With `minibatch` the tensor is this host's part of the batch: the
  /// global dimension 0 is its own times the number of hosts. Throws ArgumentError if it doesn't
  /// fit, and for a minibatch that the local devices don't divide.
  template <class Tensor>
  ShardLayout apply(const Tensor& tensor) const {
    return layout(impl::extents_of(tensor));
  }

 private:
  bool fits(std::size_t rank) const { return static_cast<int>(rank) == sharding_.rank(); }
  ShardLayout layout(std::vector<index_t> extents) const;

  LogicalMesh mesh_;
  OpSharding sharding_;
  ShardingSpecOptions options_;
};

}  // namespace shard

#endif
