// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MESH_SHARDING_TYPE_HPP
#define SHARD_MESH_SHARDING_TYPE_HPP

namespace shard {

/// The type of a sharding. The numbers are XLA's.
enum class ShardingType : int {
  replicated = 0,  ///< every device has everything
  maximal    = 1,  ///< there is one device
  tuple      = 2,  ///< shardings of several tensors
  tiled      = 3,  ///< every device has another tile
  manual     = 4,  ///< the program takes care of the shards itself
  partial    = 5,  ///< groups of devices have the same tile
  unknown    = 6   ///< to be found out
};

/// XLA's name of the type: "TILED".
constexpr const char* name_of(ShardingType type) {
  constexpr const char* names[] = {"REPLICATED", "MAXIMAL", "TUPLE",  "TILED",
                                   "MANUAL",     "PARTIAL", "UNKNOWN"};
  return names[static_cast<int>(type)];
}

}  // namespace shard

#endif
