// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>

#include "plan_channel.hpp"

namespace shard::impl {

namespace {

std::size_t aligned(std::size_t bytes) {
  return (bytes + message_alignment - 1) / message_alignment * message_alignment;
}

std::size_t bytes_of(const std::vector<FieldSpec>& fields, const PlanBox& box) {
  const FieldSpec& spec = fields[static_cast<std::size_t>(box.field)];
  return static_cast<std::size_t>(cells_of(spec, box)) * static_cast<std::size_t>(spec.value_size);
}

/// Places the boxes of all fields in messages, one per peer, in the order of the peers.
void place(const std::vector<FieldSpec>& fields, const std::vector<PlanBoxes>& boxes,
           std::vector<PlanBox> PlanBoxes::*list, const SharedPool* pool, const Tuning& tuning,
           std::vector<PeerMessage>& messages, std::vector<PlacedBox>& placed) {
  std::vector<std::size_t> next(fields.size(), 0);
  std::size_t count[2] = {}, first = 0;
  for (;;) {
    int peer = -1;
    for (std::size_t f = 0; f < fields.size(); ++f) {
      const auto& of_field = boxes[f].*list;
      if (next[f] < of_field.size() && (peer < 0 || of_field[next[f]].peer < peer))
        peer = of_field[next[f]].peer;
    }
    if (peer < 0) return;
    PeerMessage message;
    message.peer   = peer;
    message.shared = pool != nullptr && pool->place_of(peer) >= 0;
    message.index  = count[message.shared ? 1 : 0]++;
    message.first  = first;
    message.bytes  = message.shared ? 0 : sizeof(Header);
    // several messages: the last one that was begun stays empty
    const auto is     = [&](MessageLayout l) { return tuning.messages == l && !message.shared; };
    const bool by_box = is(MessageLayout::one_per_box), by_field = is(MessageLayout::one_per_field),
               by_size = is(MessageLayout::by_size);
    const auto close   = [&] {
      message.bytes = aligned(message.bytes);
      if (!message.shared) first += message.bytes;
      messages.push_back(message);
    };
    const auto close_and_begin = [&] {
      close();
      message.index = count[0]++;
      message.first = first;
      message.bytes = sizeof(Header);
    };
    // the next box of a field to this peer, if there is one
    const auto put = [&](std::size_t f) {
      const auto& of_field = boxes[f].*list;
      if (next[f] == of_field.size() || of_field[next[f]].peer != peer) return false;
      const PlanBox& box      = of_field[next[f]++];
      const std::size_t bytes = bytes_of(fields, box);
      if (by_size && message.bytes > sizeof(Header) && message.bytes + bytes > short_message)
        close_and_begin();
      placed.push_back({&box, messages.size(), static_cast<index_t>(message.bytes)});
      message.bytes += bytes;
      return true;
    };
    for (std::size_t f = 0; f < fields.size(); ++f) {
      bool any      = false;
      message.bytes = aligned(message.bytes);
      while (put(f)) {
        any = true;
        if (by_box) close_and_begin();
      }
      if (by_field && any) close_and_begin();
    }
    if (by_box || by_field)
      --count[0];
    else
      close();
  }
}

}  // namespace

std::vector<Message> messages_of(const std::vector<PeerMessage>& messages, bool shared) {
  std::vector<Message> list;
  for (const PeerMessage& m : messages)
    if (m.shared == shared) list.push_back({m.peer, m.bytes});
  return list;
}

PlanLayout::PlanLayout(const MeshState& mesh, const std::vector<FieldSpec>& fields,
                       const SharedPool* pool, const Tuning& tuning) {
  for (std::size_t f = 0; f < fields.size(); ++f)
    boxes.push_back(boxes_of(mesh, fields[f], static_cast<int>(f)));
  for (const PlanBoxes& b : boxes)
    for (const PlanBox& box : b.locals) local.push_back({&box, 0, 0});
  place(fields, boxes, &PlanBoxes::sends, pool, tuning, sends, sent);
  place(fields, boxes, &PlanBoxes::receives, pool, tuning, receives, received);
}

}  // namespace shard::impl
