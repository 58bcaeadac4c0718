// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_COMM_MPI_CHANNEL_HPP
#define SHARD_SRC_COMM_MPI_CHANNEL_HPP

#include <cstddef>
#include <limits>
#include <string>

#include "shard/mesh/impl/mesh_state.hpp"

namespace shard::impl {

/// Bytes below the eager limit of MPIs over TCP, with room for their headers.
inline constexpr std::size_t eager_part = 32000;
/// Tuning::message_part for messages that are never cut.
inline constexpr std::size_t no_parts = std::numeric_limits<std::size_t>::max();

/// Whether this host has a network device that moves long messages without its processor. `classes`
/// is the folder of the kernel's device classes.
bool has_rdma_device(const std::string& classes = "/sys/class");

/// Whether messages between hosts go in parts by default: the mesh has ranks on several hosts, one
/// of them without such a device. Collective over the mesh in its first call; the same on every
/// rank.
bool sends_in_parts(MeshState& mesh);

}  // namespace shard::impl

#endif
