// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_REDISTRIBUTE_COLLECTIVE_MESSAGES_HPP
#define SHARD_SRC_REDISTRIBUTE_COLLECTIVE_MESSAGES_HPP

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "shard/base/types.hpp"

namespace shard::impl {

/// A message to or from a rank, at its place in a buffer.
struct RankMessage {
  int peer       = 0;
  index_t offset = 0, bytes = 0;
};

/// MPI's collectives on blocks of bytes, in steps of at most `limit` bytes a block: MPI's counts
/// are ints, blocks need not fit them. Block p of a buffer begins `bytes` * p from its start.
struct BlockMessages {
  MPI_Comm comm;
  index_t limit;

  /// Block p of `send` to rank p, whose block comes to place p of `receive`.
  void all_to_all(const std::byte* send, std::byte* receive, index_t bytes) const;
  /// `send` of rank p to place p of everyone's `receive`.
  void all_gather(const std::byte* send, std::byte* receive, index_t bytes) const;
  /// `send` of rank p to place p of the root's `receive`.
  void gather(const std::byte* send, std::byte* receive, index_t bytes, int root) const;
  /// The root's buffer to all.
  void broadcast(std::byte* buffer, index_t bytes, int root) const;
  /// Messages between single ranks; no two to the same one.
  void to_peers(const std::byte* send, const std::vector<RankMessage>& sent, std::byte* receive,
                const std::vector<RankMessage>& received) const;
};

/// SHARD_MESSAGE_LIMIT, else 2^30. Throws ArgumentError if that is no number from 1 to 2^31 - 1.
index_t message_limit();

}  // namespace shard::impl

#endif
