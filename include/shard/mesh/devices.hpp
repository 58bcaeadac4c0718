// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MESH_DEVICES_HPP
#define SHARD_MESH_DEVICES_HPP

#include <mpi.h>

#include <optional>
#include <vector>

#include "shard/mesh/op_sharding.hpp"

namespace shard {

/// Properties of a device, as a value; the machine need not exist. If a mesh is bound to a
/// communicator, the devices are its ranks.
struct DeviceAttributes {
  int id                       = 0;   ///< its number, 0 to devices - 1
  std::vector<int> coordinates = {};  ///< on the torus within its granule; none: not known
  std::optional<int> granule   = {};  ///< the node (or pod, slice) that it is in
  int core                     = 0;   ///< which of the cores of one chip it is
};

/// The ranks of a communicator as devices: id is the rank, granule the node, found by
/// MPI_Comm_split_type and numbered by the lowest rank on it. If all ranks share one node, no
/// granule is set. Collective. Throws ArgumentError on a rank that passes MPI_COMM_NULL or an
/// intercommunicator.
std::vector<DeviceAttributes> devices_of(MPI_Comm comm);

/// The devices of one granule as an array of the torus they form: extents from the smallest
/// coordinate to the largest, and one more axis for the cores of a chip if there are several.
/// Without coordinates it is one axis, by number. Throws ArgumentError for a missing place or two
/// devices at one place.
DeviceArray physical_mesh(const std::vector<DeviceAttributes>& devices);

}  // namespace shard

#endif
