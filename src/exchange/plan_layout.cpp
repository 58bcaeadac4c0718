// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "plan_layout.hpp"

#include <algorithm>

#include "job_builder.hpp"

namespace shard::impl {

namespace {

std::size_t aligned(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

/// The alignment of a value: the largest power of two that divides its size, at most
/// value_alignment.
std::size_t alignment_of(const RouteField& field) {
  const auto size = static_cast<std::size_t>(field.value_size);
  return std::min(size & (~size + 1), value_alignment);
}

/// Puts pieces, which are sorted by peer and field, into messages.
class Packer {
 public:
  Packer(const Route& route, const Channels& channels, MessageLayout layout, PlanLayout::Side& side)
      : route_(route),
        channels_(channels),
        layout_(layout),
        messages_(side.messages),
        pieces_(side.pieces),
        count_(channels.size() + 1) {}

  void pack(const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) put(piece);
    std::size_t first = 0;
    for (std::size_t c = 0; c < count_.size(); ++c)
      for (PeerMessage& m : messages_) {
        if (m.channel != c) continue;
        m.bytes = aligned(m.bytes, message_alignment);
        m.first = first;
        if (!m.mapped) first += m.bytes;
      }
  }

 private:
  void put(const Piece& piece) {
    const RouteField& field = route_.fields[static_cast<std::size_t>(piece.field)];
    const std::size_t bytes = static_cast<std::size_t>(count_of(field, piece)) *
                              static_cast<std::size_t>(field.value_size);
    const Piece* before   = pieces_.empty() ? nullptr : pieces_.back().piece;
    const bool same_peer  = before != nullptr && before->peer == piece.peer;
    const bool same_field = same_peer && before->field == piece.field;
    if (!same_peer || begins_message(same_field, bytes)) begin(piece.peer);
    PeerMessage& m = messages_.back();
    if (!same_field) m.bytes = aligned(m.bytes, alignment_of(field));
    pieces_.push_back({&piece, messages_.size() - 1, static_cast<index_t>(m.bytes)});
    m.bytes += bytes;
  }

  /// Whether the layout wants a piece in another message than the one before it to the same peer.
  bool begins_message(bool same_field, std::size_t bytes) const {
    const PeerMessage& m = messages_.back();
    if (m.mapped) return false;
    switch (layout_) {
      case MessageLayout::one_per_box: return true;
      case MessageLayout::one_per_field: return !same_field;
      case MessageLayout::by_size: return m.bytes + bytes > short_message;
      default: return false;
    }
  }

  void begin(int peer) {
    PeerMessage m;
    m.peer = peer;
    while (m.channel < channels_.size() && !channels_[m.channel]->serves(peer)) ++m.channel;
    m.index  = count_[m.channel]++;
    m.mapped = m.channel < channels_.size() && channels_[m.channel]->properties().mapped;
    messages_.push_back(m);
  }

  const Route& route_;
  const Channels& channels_;
  MessageLayout layout_;
  std::vector<PeerMessage>& messages_;
  std::vector<PackedPiece>& pieces_;
  std::vector<std::size_t> count_;  // messages of each channel, and of none
};

}  // namespace

std::vector<Message> messages_of(const std::vector<PeerMessage>& messages, std::size_t channel) {
  std::vector<Message> list;
  for (const PeerMessage& m : messages)
    if (m.channel == channel) list.push_back({m.peer, m.bytes});
  return list;
}

PlanLayout::PlanLayout(const Route& route, const Channels& channels, const Tuning& tuning) {
  Packer(route, channels, tuning.messages, send).pack(route.sends);
  Packer(route, channels, tuning.messages, receive).pack(route.receives);
}

}  // namespace shard::impl
