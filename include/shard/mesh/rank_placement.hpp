// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MESH_RANK_PLACEMENT_HPP
#define SHARD_MESH_RANK_PLACEMENT_HPP

#include <array>
#include <cstdint>
#include <vector>

#include "shard/base/types.hpp"

namespace shard {

/// How ranks are placed on a mesh.
enum class RankPlacement : std::uint8_t {
  as_given,  ///< rank i at place i, or as the order says
  by_node,   ///< halo neighbours share nodes as far as possible
  by_torus   ///< the mesh is mapped to the machine's torus, see assign_torus
};

/// The faces of a halo exchange of one field over a mesh. One entry per mesh axis.
struct HaloTraffic {
  std::vector<index_t> grid;  ///< global extents of the dimensions that the axes shard
  std::vector<std::array<index_t, 2>> halo;  ///< widths {low, high}
  std::vector<bool> periodic;                ///< which axes wrap round
  index_t bytes = 1;  ///< of one point: value size times the unsharded extents

  /// Square shards (equal extents along each axis) with a halo of one point on each side.
  static HaloTraffic of_square_shards(const std::vector<int>& shape,
                                      const std::vector<bool>& periodic = {});
};

/// Bytes of halo faces that cross from one node to another in one exchange: each face between
/// neighbouring ranks of different nodes, both directions. `order[i]` is the rank at place i
/// (empty: i), `nodes[r]` the node of rank r. Shards are balanced. Throws ArgumentError where
/// lengths don't match the shape, something is negative, or the bytes don't fit an index_t.
index_t bytes_across_nodes(const std::vector<int>& shape, const std::vector<int>& order,
                           const std::vector<int>& nodes, const HaloTraffic& traffic);

/// An order of the ranks with a small bytes_across_nodes(), never larger than in rank order. Each
/// node takes a block of the mesh, of the best shape. If the nodes' sizes don't allow blocks, each
/// takes a section of the best of many walks through the mesh. Ranks of a node keep their order.
/// Errors as above.
std::vector<int> place_by_node(const std::vector<int>& shape, const std::vector<int>& nodes,
                               const HaloTraffic& traffic);

}  // namespace shard

#endif
