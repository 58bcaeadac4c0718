// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MESH_HYBRID_MESH_HPP
#define SHARD_MESH_HYBRID_MESH_HPP

#include <mpi.h>

#include <optional>
#include <string>
#include <vector>

#include "shard/mesh/logical_mesh.hpp"
#include "shard/mesh/torus.hpp"

namespace shard {

/// What is known of a device, as a value: it may be one of a machine that isn't here.
struct DeviceAttributes {
  int id                       = 0;   ///< its number, 0 to devices - 1
  std::vector<int> coordinates = {};  ///< on the torus within its granule; none: not known
  std::optional<int> granule   = {};  ///< the node (or pod, slice) that it is in
  int core                     = 0;   ///< which of the cores of one chip it is
};

/// What a HybridMesh is made from, by name:
/// `HybridMesh({.inner = {2, 2}, .outer = {2, 1}, .devices = devices})`.
struct HybridMeshArguments {
  std::vector<int> inner;                      ///< shape within a granule, where links are fast
  std::vector<int> outer                = {};  ///< shape of granules; empty: ones
  std::vector<std::string> axis_names   = {};  ///< of the product; empty: none
  std::vector<DeviceAttributes> devices = {};  ///< all of them, in any order
  SplitAxes split = SplitAxes::if_needed;      ///< how inner axes may lie on a granule's torus
};

/// A mesh over two kinds of links: axis a has outer[a] blocks, each on other granules, of inner[a]
/// devices each; its extent is the product. Within a granule the devices lie by their torus'
/// coordinates (see assign_torus) or, where those aren't known, by their numbers.
class HybridMesh : public LogicalMesh {
 public:
  /// Throws ArgumentError for shapes of different lengths; granules where `outer` has none and the
  /// other way round; a number of granules that isn't the product of `outer`; a granule whose
  /// number of devices isn't the product of `inner`; coordinates that are no full cuboid (a hole,
  /// or two devices at one place); numbers that aren't 0 to devices - 1.
  explicit HybridMesh(HybridMeshArguments arguments);

  /// Shape within a granule.
  const std::vector<int>& inner_shape() const { return inner_; }
  /// Shape of granules.
  const std::vector<int>& outer_shape() const { return outer_; }

 private:
  std::vector<int> inner_, outer_;
};

/// The ranks of a communicator as devices: id is the rank, granule the node, found by
/// MPI_Comm_split_type and numbered by the lowest rank on it. Where all ranks share one node no
/// granule is set, since there is nothing outer. Collective.
std::vector<DeviceAttributes> devices_of(MPI_Comm comm);

/// The devices of one granule as an array of the torus they form: extents from the smallest
/// coordinate to the largest, and the cores of a chip as one axis more where there are several.
/// Without coordinates one axis, by number. Throws ArgumentError for a hole or two devices at one
/// place.
DeviceArray physical_mesh(const std::vector<DeviceAttributes>& devices);

}  // namespace shard

#endif
