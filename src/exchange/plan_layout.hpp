// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_PLAN_LAYOUT_HPP
#define SHARD_SRC_EXCHANGE_PLAN_LAYOUT_HPP

#include <cstddef>
#include <vector>

#include "shard/comm/impl/shared_pool.hpp"
#include "shard/comm/impl/transport.hpp"
#include "shard/exchange/impl/route.hpp"
#include "shard/exchange/tuning.hpp"

namespace shard::impl {

inline constexpr std::size_t value_alignment   = 16;  // what the widest value needs
inline constexpr std::size_t message_alignment = 64;  // messages begin at a cache line

/// One peer's part of a plan.
struct PeerMessage {
  int peer          = 0;
  bool shared       = false;  ///< carried by shared memory, else by MPI or NCCL
  std::size_t index = 0;      ///< among those of its kind
  std::size_t first = 0;      ///< bytes from the start of the buffer; not of shared ones
  std::size_t bytes = 0;
};

/// Those of the messages that shared memory carries, or the others.
std::vector<Message> messages_of(const std::vector<PeerMessage>& messages, bool shared);

/// A piece and its place in a message.
struct PackedPiece {
  const Piece* piece  = nullptr;
  std::size_t message = 0;      ///< among the sends or receives
  index_t offset      = 0;      ///< bytes from the start of the message
  bool direct         = false;  ///< read straight from the peer's field where that is offered
};

/// A route's messages.
struct PlanLayout {
  std::vector<PeerMessage> sends, receives;  ///< messages
  std::vector<PackedPiece> sent, received;   ///< pieces

  /// Local. `pool`: carries what goes to and comes from the ranks that share it, if not null. The
  /// route must live as long.
  PlanLayout(const Route& route, const SharedPool* pool, const Tuning& tuning);
};

}  // namespace shard::impl

#endif
