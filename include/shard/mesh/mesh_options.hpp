// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MESH_MESH_OPTIONS_HPP
#define SHARD_MESH_MESH_OPTIONS_HPP

#include <optional>
#include <vector>

#include "shard/base/types.hpp"
#include "shard/mesh/devices.hpp"
#include "shard/mesh/rank_placement.hpp"

namespace shard {

/// What a Mesh may be told beside its shape.
struct MeshOptions {
  /// Which rank of the communicator stands at each place of the mesh, places counted row-major;
  /// empty: rank i at place i. For RankPlacement::as_given alone.
  std::vector<int> order = {};
  /// Extents of the grid that will be cut, one per mesh axis: a shape with zeros is chosen, and
  /// ranks are placed by node, so that its halos are the smallest. Empty: as even as can be.
  std::vector<index_t> grid = {};
  /// Which rank stands where.
  RankPlacement placement = RankPlacement::as_given;
  /// Which mesh axes wrap round, for the placement by node; empty: none.
  std::vector<bool> periodic = {};
  /// What is known of the ranks, one entry each, in any order: granules for the placement by node,
  /// coordinates for that by torus. Empty: nodes are found by MPI; for a torus it must be given.
  std::vector<DeviceAttributes> devices = {};
  /// How many plans of each kind the mesh keeps for calls that come again: of exchanges, of
  /// redistributions, and memory for operands that are brought to one partition. One more, and the
  /// one that was used least recently goes: a later call makes it anew. At least 1. Not set:
  /// `SHARD_KEPT_PLANS`, or 64.
  std::optional<int> kept_plans = {};
};

}  // namespace shard

#endif
