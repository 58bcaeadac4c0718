// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_COMM_HOST_CHANNEL_HPP
#define SHARD_SRC_COMM_HOST_CHANNEL_HPP

#include <cstddef>

#include "shard/mesh/impl/mesh_state.hpp"

namespace shard::impl {

/// Bytes of the longest message that is joined with those of other ranks: a longer one takes longer
/// to copy than it saves.
inline constexpr std::size_t longest_joined = 2048;

/// Whether joining may pay: the mesh has several hosts, one of them with at least four ranks.
/// Collective over the mesh in its first call; the same on every rank.
bool may_join_hosts(MeshState& mesh);

}  // namespace shard::impl

#endif
