// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MESH_HYBRID_MESH_HPP
#define SHARD_MESH_HYBRID_MESH_HPP

#include <string>
#include <vector>

#include "shard/mesh/devices.hpp"
#include "shard/mesh/logical_mesh.hpp"
#include "shard/mesh/torus.hpp"

namespace shard {

/// Arguments of a HybridMesh, by name:
/// `HybridMesh({.inner = {2, 2}, .outer = {2, 1}, .devices = devices})`.
struct HybridMeshArguments {
  std::vector<int> inner;                      ///< shape within a granule, where links are fast
  std::vector<int> outer                = {};  ///< shape of granules; empty: ones
  std::vector<std::string> axis_names   = {};  ///< of the product; empty: none
  std::vector<DeviceAttributes> devices = {};  ///< all of them, in any order
  SplitAxes split = SplitAxes::if_needed;      ///< whether a torus axis of a granule may be split
};

/// A mesh over two kinds of links, fast within a granule and slower between granules. Axis a has
/// outer[a] blocks of inner[a] devices each, and each block is in one granule. Within a granule the
/// devices are placed by their torus coordinates (see assign_torus) or, without coordinates, by
/// their numbers.
class HybridMesh : public LogicalMesh {
 public:
  /// Throws ArgumentError for shapes of different lengths; granules without `outer` or `outer`
  /// without granules; a number of granules that isn't the product of `outer`; a granule whose
  /// number of devices isn't the product of `inner`; coordinates that don't form a full cuboid;
  /// numbers that aren't 0 to devices - 1.
  explicit HybridMesh(HybridMeshArguments arguments);

  /// Shape within a granule.
  const std::vector<int>& inner_shape() const { return inner_; }
  /// Shape of granules.
  const std::vector<int>& outer_shape() const { return outer_; }

 private:
  std::vector<int> inner_, outer_;
};

}  // namespace shard

#endif
