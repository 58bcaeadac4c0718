// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MESH_MESH_OPTIONS_HPP
#define SHARD_MESH_MESH_OPTIONS_HPP

#include <optional>
#include <vector>

#include "shard/base/types.hpp"
#include "shard/mesh/devices.hpp"
#include "shard/mesh/rank_placement.hpp"

namespace shard {

/// Options of a Mesh.
struct MeshOptions {
  /// The rank of the communicator at each place of the mesh, in row-major order of places; empty:
  /// rank i at place i. Only for RankPlacement::as_given.
  std::vector<int> order = {};
  /// Extents of the grid to be sharded, one per mesh axis. A shape with zeros and a placement by
  /// node are chosen for the smallest halos of this grid. Empty: as even as possible.
  std::vector<index_t> grid = {};
  /// How ranks are placed on the mesh.
  RankPlacement placement = RankPlacement::as_given;
  /// Which mesh axes wrap round, for the placement by node; empty: none.
  std::vector<bool> periodic = {};
  /// Properties of the ranks, one entry each, in any order: granules for the placement by node,
  /// coordinates for that by torus. Empty: MPI finds the nodes; a torus needs coordinates.
  std::vector<DeviceAttributes> devices = {};
  /// Size of each of the mesh's caches: exchange plans, redistribution plans, and memory for
  /// operands that are moved to a common partition. The least recently used is dropped, and made
  /// again when needed. At least 1. Not set: `SHARD_KEPT_PLANS`, or 64.
  std::optional<int> kept_plans = {};
};

}  // namespace shard

#endif
