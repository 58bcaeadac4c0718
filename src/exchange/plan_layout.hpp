// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_PLAN_LAYOUT_HPP
#define SHARD_SRC_EXCHANGE_PLAN_LAYOUT_HPP

#include <cstddef>
#include <vector>

#include "shard/comm/impl/channel.hpp"
#include "shard/exchange/impl/route.hpp"
#include "shard/exchange/tuning.hpp"

namespace shard::impl {

inline constexpr std::size_t value_alignment   = 16;  // of the widest value
inline constexpr std::size_t message_alignment = 64;  // messages begin at a cache line

/// A message and its place among the plan's messages.
struct PeerMessage {
  int peer            = 0;
  std::size_t channel = 0;      ///< in the plan's list
  std::size_t index   = 0;      ///< among the channel's messages
  bool mapped         = false;  ///< in mapped memory of the channel, not in the plan's buffer
  std::size_t first   = 0;      ///< bytes from the start of the plan's buffer
  std::size_t bytes   = 0;
};

/// The messages of one channel.
std::vector<Message> messages_of(const std::vector<PeerMessage>& messages, std::size_t channel);

/// A piece and its place in a message.
struct PackedPiece {
  const Piece* piece  = nullptr;
  std::size_t message = 0;      ///< among the sends or receives
  index_t offset      = 0;      ///< bytes from the start of the message
  bool direct         = false;  ///< read from the peer's field where the peer publishes it
};

/// A route's messages.
struct PlanLayout {
  /// What a rank sends, or what it receives.
  struct Side {
    std::vector<PeerMessage> messages;
    std::vector<PackedPiece> pieces;
  };
  Side send, receive;

  /// Local. The first channel that serves a peer gets the messages to and from it. In the plan's
  /// buffer the messages of a channel are consecutive. The route must live as long.
  PlanLayout(const Route& route, const Channels& channels, const Tuning& tuning);
};

}  // namespace shard::impl

#endif
