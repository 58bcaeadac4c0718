// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDISTRIBUTE_AXIS_PLACEMENTS_HPP
#define SHARD_REDISTRIBUTE_AXIS_PLACEMENTS_HPP

#include <cstdint>
#include <vector>

#include "shard/mesh/logical_mesh.hpp"
#include "shard/mesh/partition_spec.hpp"

namespace shard {

/// A tensor's placement along one mesh axis, as a value, as in DTensor. (A PartitionSpec has one
/// entry for each dimension of the tensor.)
struct AxisPlacement {
  /// DTensor's three.
  enum class Kind : std::uint8_t { replicate, shard, partial };
  Kind kind = Kind::replicate;  ///< its kind
  int dim   = 0;                ///< of a shard: the dimension that the axis shards; -1 is the last

  /// The axis replicates the tensor.
  static constexpr AxisPlacement replicate() { return {}; }
  /// The axis shards a dimension.
  static constexpr AxisPlacement shard(int dim) { return {Kind::shard, dim}; }
  /// The ranks along the axis have contributions to a sum.
  static constexpr AxisPlacement partial() { return {Kind::partial, 0}; }
  /// Whether both are the same placement.
  friend constexpr bool operator==(AxisPlacement a, AxisPlacement b) {
    return a.kind == b.kind && (a.kind != Kind::shard || a.dim == b.dim);
  }
};

/// The spec of a tensor of this rank with these placements: axes that shard one dimension become a
/// tuple, in the mesh's order. Throws ArgumentError for another number of placements than the mesh
/// has axes, a dimension that the tensor lacks, and Partial, which a spec can't express.
PartitionSpec spec_from_placements(const std::vector<AxisPlacement>& placements,
                                   const LogicalMesh& mesh, int rank);

/// The placements of a spec, tuples and names too. Throws ArgumentError for a spec that doesn't fit
/// the mesh, and for a tuple whose axes don't ascend, which placements can't express.
std::vector<AxisPlacement> placements_from_spec(const PartitionSpec& spec, const LogicalMesh& mesh);

}  // namespace shard

#endif
