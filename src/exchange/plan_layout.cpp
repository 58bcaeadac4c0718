// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "plan_layout.hpp"

#include <algorithm>

#include "job_builder.hpp"

namespace shard::impl {

namespace {

std::size_t aligned(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

/// What a value needs: the largest power of two in its size, but no more than the widest needs.
std::size_t alignment_of(const RouteField& field) {
  const auto size = static_cast<std::size_t>(field.value_size);
  return std::min(size & (~size + 1), value_alignment);
}

/// Puts pieces, which are sorted by peer and field, into messages.
class Packer {
 public:
  Packer(const Route& route, const SharedPool* pool, MessageLayout layout,
         std::vector<PeerMessage>& messages, std::vector<PackedPiece>& packed)
      : route_(route), pool_(pool), layout_(layout), messages_(messages), packed_(packed) {}

  void pack(const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) put(piece);
    if (!messages_.empty()) close();
  }

 private:
  void put(const Piece& piece) {
    const RouteField& field = route_.fields[static_cast<std::size_t>(piece.field)];
    const std::size_t bytes = static_cast<std::size_t>(elements_of(field, piece)) *
                              static_cast<std::size_t>(field.value_size);
    const Piece* before   = packed_.empty() ? nullptr : packed_.back().piece;
    const bool same_peer  = before != nullptr && before->peer == piece.peer;
    const bool same_field = same_peer && before->field == piece.field;
    if (!same_peer || begins_message(same_field, bytes)) begin(piece.peer);
    PeerMessage& m = messages_.back();
    if (!same_field) m.bytes = aligned(m.bytes, alignment_of(field));
    packed_.push_back({&piece, messages_.size() - 1, static_cast<index_t>(m.bytes)});
    m.bytes += bytes;
  }

  /// Whether the layout wants a piece in another message than the one before it to the same peer.
  bool begins_message(bool same_field, std::size_t bytes) const {
    const PeerMessage& m = messages_.back();
    if (m.shared) return false;
    switch (layout_) {
      case MessageLayout::one_per_box: return true;
      case MessageLayout::one_per_field: return !same_field;
      case MessageLayout::by_size: return m.bytes + bytes > short_message;
      default: return false;
    }
  }

  void begin(int peer) {
    if (!messages_.empty()) close();
    PeerMessage m;
    m.peer   = peer;
    m.shared = pool_ != nullptr && pool_->place_of(peer) >= 0;
    m.index  = count_[m.shared ? 1 : 0]++;
    m.first  = first_;
    messages_.push_back(m);
  }
  void close() {
    PeerMessage& m = messages_.back();
    m.bytes        = aligned(m.bytes, message_alignment);
    if (!m.shared) first_ += m.bytes;
  }

  const Route& route_;
  const SharedPool* pool_;
  MessageLayout layout_;
  std::vector<PeerMessage>& messages_;
  std::vector<PackedPiece>& packed_;
  std::size_t count_[2] = {}, first_ = 0;
};

}  // namespace

std::vector<Message> messages_of(const std::vector<PeerMessage>& messages, bool shared) {
  std::vector<Message> list;
  for (const PeerMessage& m : messages)
    if (m.shared == shared) list.push_back({m.peer, m.bytes});
  return list;
}

PlanLayout::PlanLayout(const Route& route, const SharedPool* pool, const Tuning& tuning) {
  Packer(route, pool, tuning.messages, sends, sent).pack(route.sends);
  Packer(route, pool, tuning.messages, receives, received).pack(route.receives);
}

}  // namespace shard::impl
