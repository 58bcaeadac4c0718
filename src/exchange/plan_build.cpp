// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Making a plan of a route: messages, copy jobs.
#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "for_each_space.hpp"
#include "plan.hpp"
#include "upload.hpp"
#include "shard/base/error.hpp"
#include "shard/view/region.hpp"

namespace shard::impl {

namespace {

struct StoreConstant {
  BoundaryValue value;
  std::byte* to;

  template <class T>
  void operator()() const {
    const T typed = value.as<T>();
    std::memcpy(to, &typed, sizeof(T));
  }
};

/// The sides of the owned elements, as in region.hpp, whose halos come in messages. For a corner
/// one of its sides is enough, because a stencil that reads the corner is near both: the side that
/// is awaited anyway, or the one whose elements are farthest apart in memory.
unsigned awaited_sides(const Route& route) {
  for (const Piece& piece : route.receives)
    if (route.fields[static_cast<std::size_t>(piece.field)].shares_points) return all_sides;
  unsigned awaited = 0;
  for (const bool faces : {true, false})
    for (const Piece& piece : route.receives) {
      const RouteField& field = route.fields[static_cast<std::size_t>(piece.field)];
      unsigned crossed = 0, outermost = 0;
      int count = 0;
      for (int k = 0; k < field.rank; ++k) {
        const int d          = message_dim(field, k);
        const index_t target = piece.target[Geometry::at(d)];
        if (target >= 0 && target < field.owned[Geometry::at(d)]) continue;
        outermost = target < 0 ? low_side(d) : high_side(d);
        crossed |= outermost;
        ++count;
      }
      if ((count == 1) == faces && (crossed & awaited) == 0) awaited |= outermost;
    }
  return awaited;
}

/// The channels of a plan for fields in this memory. Collective.
template <class Memory>
Channels channels_for(MeshState& mesh, const Tuning& tuning) {
  ChannelRequest request{.mesh                    = mesh,
                         .only                    = name_of(tuning.transport),
                         .mpi_takes_device_memory = tuning.mpi_takes_device_memory,
                         .message_part            = tuning.message_part,
                         .joins_hosts             = tuning.messages == MessageLayout::one_per_host};
  if constexpr (!std::is_same_v<Memory, Kokkos::HostSpace>) request.device = device_kind_of<Memory>;
  return open_channels(request);
}

}  // namespace

template <class Memory>
std::shared_ptr<Plan<Memory>> Plan<Memory>::make(MeshState& mesh, const Route& route,
                                                 const std::vector<FieldStrides>& strides,
                                                 const Tuning& tuning, std::uint32_t number) {
  Channels channels = channels_for<Memory>(mesh, tuning);
  std::optional<PlanLayout> layout;
  std::string wrong;  // on this rank alone: a message too large, no memory
  const auto attempt = [&](const auto& what) {
    try {
      if (wrong.empty()) what();
    } catch (const std::exception& e) {
      wrong = e.what();
    }
  };
  attempt([&] { layout.emplace(route, channels, tuning); });
  for (std::size_t c = 0; c < channels.size(); ++c) {
    ChannelMessages messages{.comm = mesh.comm(), .fields = static_cast<int>(route.fields.size())};
    if (layout) {
      messages.sends    = messages_of(layout->send.messages, c);
      messages.receives = messages_of(layout->receive.messages, c);
    }
    if (!channels[c]->reserve(messages)) channels[c].reset();
  }
  if (std::erase(channels, nullptr) > 0) attempt([&] { layout.emplace(route, channels, tuning); });
  require_no_error(mesh.comm(), "Exchange", wrong);  // before peers wait for this rank
  std::shared_ptr<Plan> plan;
  attempt([&] {
    auto messages = std::make_shared<PlanMessages<Memory>>(mesh, route, strides, tuning, number,
                                                           std::move(channels), *layout);
    plan.reset(new Plan(std::move(messages), *layout, route, strides));
  });
  require_no_error(mesh.comm(), "Exchange", wrong);
  return plan;
}

template <class Memory>
std::shared_ptr<Plan<Memory>> Plan<Memory>::sibling(
    const Route& route, const std::vector<FieldStrides>& strides) const {
  PlanLayout layout(route, messages_->channels, messages_->tuning);
  messages_->mark(layout);
  return std::shared_ptr<Plan>(new Plan(messages_, layout, route, strides));
}

template <class Memory>
Plan<Memory>::Plan(std::shared_ptr<PlanMessages<Memory>> messages, const PlanLayout& layout,
                   const Route& route, const std::vector<FieldStrides>& strides)
    : messages_(std::move(messages)),
      awaited_(awaited_sides(route)),
      strides_are_sent_(messages_->strides == strides) {
  build(layout, route, strides);
}

template <class Memory>
std::size_t Plan<Memory>::bytes_sent() const {
  std::size_t bytes = 0;
  for (const PeerMessage& m : messages_->sends) bytes += m.bytes;
  return bytes;
}

template <class Memory>
void Plan<Memory>::build(const PlanLayout& layout, const Route& route,
                         const std::vector<FieldStrides>& strides) {
  const Entries& entry = messages_->entries;
  const auto field_of  = [&](const Piece& piece) -> const RouteField& {
    return route.fields[static_cast<std::size_t>(piece.field)];
  };
  const auto source = [&](const Piece& piece) {
    return source_elements(field_of(piece), piece, entry.from(piece.source_field()),
                           strides[static_cast<std::size_t>(piece.source_field())].read);
  };
  const auto target = [&](const Piece& piece) {
    return target_elements(field_of(piece), piece, entry.to(piece.field),
                           strides[static_cast<std::size_t>(piece.field)].written);
  };
  const auto packed = [&](const Piece& piece, int table, index_t first) {
    return packed_elements(field_of(piece), piece, table, first);
  };
  // `unpack` and `sums` begin with what needs no message; what is received follows
  CopyJobList pack, unpack, received, pack_halo, read, returned;
  SumJobList sums, received_sums;
  constexpr bool host = std::is_same_v<Memory, Kokkos::HostSpace>;
  for (CopyJobList* list : {&pack, &unpack, &received, &pack_halo}) list->interleaves = host;
  for (SumJobList* list : {&sums, &received_sums}) list->interleaves = host;
  std::vector<std::vector<Summand>> summands(route.fields.size());

  // this rank's own halo first, then what peers send in ascending order: the order of every sum
  for (const Piece& piece : route.locals) {
    const Elements to = target(piece);
    add_copy(field_of(piece), piece, source(piece), to, unpack, {.negative = piece.negative});
    // `to` is direct too, because the adjoint zeroes a halo that it reads directly
    summands[static_cast<std::size_t>(piece.source_field())].push_back({&piece, to, to, true});
  }
  for (const PackedPiece& p : layout.send.pieces) {
    const Piece& piece   = *p.piece;
    const PeerMessage& m = layout.send.messages[p.message];
    const auto f         = static_cast<std::size_t>(piece.field);
    read_directly_[0]    = read_directly_[0] || p.direct;
    // A mapped message has an entry of its own in the address table, so its offset counts from the
    // message; that of another message counts from the buffer.
    const auto first = m.mapped ? p.offset : static_cast<index_t>(m.first) + p.offset;
    const int out    = m.mapped ? entry.outgoing(true, m.index) : entry.send(),
              back   = m.mapped ? entry.incoming(false, m.index) : entry.send();
    add_copy(field_of(piece), piece, source(piece), packed(piece, out, first), pack,
             {.unless = p.direct ? entry.published() : -1});
    Elements direct;
    if (p.direct)
      direct =
          target_elements(field_of(piece), piece, entry.peer_field(false, m.index, piece.field),
                          messages_->readers[m.index][f].written);
    summands[static_cast<std::size_t>(piece.source_field())].push_back(
        {&piece, packed(piece, back, first), direct, false});
  }
  for (const PackedPiece& p : layout.receive.pieces) {
    const Piece& piece   = *p.piece;
    const PeerMessage& m = layout.receive.messages[p.message];
    const auto f         = static_cast<std::size_t>(piece.source_field());
    read_directly_[1]    = read_directly_[1] || p.direct;
    const auto first     = m.mapped ? p.offset : static_cast<index_t>(m.first) + p.offset;
    const int in         = m.mapped ? entry.incoming(true, m.index) : entry.receive(),
              back       = m.mapped ? entry.outgoing(false, m.index) : entry.receive();
    Elements direct;
    if (p.direct)
      direct = source_elements(field_of(piece), piece,
                               entry.peer_field(true, m.index, piece.source_field()),
                               messages_->senders[m.index][f].read);
    add_copy(field_of(piece), piece, packed(piece, in, first), target(piece), received,
             {.direct = direct, .negative = piece.negative});
    add_copy(field_of(piece), piece, target(piece), packed(piece, back, first), pack_halo,
             {.unless = p.direct ? entry.published() : -1, .clear = !field_of(piece).move});
  }

  if (messages_->check) {
    const auto add = [&](const Piece& piece, const Elements& elements, CopyJobList& list) {
      add_copy(field_of(piece), piece, elements, {entry.constants()}, list);
    };
    // what a move reads may change when it has been packed
    for (const auto* pieces : {&route.locals, &route.sends})
      for (const Piece& piece : *pieces)
        if (!field_of(piece).move) add(piece, source(piece), read);
    for (const auto* pieces : {&route.locals, &route.receives})
      for (const Piece& piece : *pieces)
        if (!field_of(piece).move) add(piece, target(piece), returned);
  }

  // zero first, as wide as the widest value: what the adjoint leaves where a constant was
  std::size_t widest = value_alignment;
  for (const RouteField& field : route.fields)
    widest = std::max(widest, static_cast<std::size_t>(field.value_size));
  std::vector<std::byte> values(widest, std::byte{0});
  for (const Piece& piece : route.fills) {
    const RouteField& field = field_of(piece);
    index_t first           = 0;
    if (!piece.value.is_zero()) {
      first = static_cast<index_t>((values.size() + value_alignment - 1) / value_alignment *
                                   value_alignment);
      values.resize(static_cast<std::size_t>(first) + value_alignment, std::byte{0});
      if (field.kind == ValueKind::boolean)
        values[static_cast<std::size_t>(first)] = std::byte{piece.value.as<bool>()};
      else
        visit_arithmetic(field.kind, StoreConstant{piece.value, values.data() + first});
    }
    add_copy(field, piece, {entry.constants(), first}, target(piece), unpack);
    if (!field.move) add_copy(field, piece, {entry.constants()}, target(piece), pack_halo);
  }

  for (std::size_t f = 0; f < route.fields.size(); ++f)
    add_sums(route.fields[f], summands[f], entry.from(static_cast<int>(f)), strides[f].read,
             received_sums, sums);

  for (CopyJobList* list : {&pack, &unpack, &received, &pack_halo}) list_equal_boxes(*list);
  if constexpr (host) {
    for (CopyJobList* list : {&pack, &unpack, &received, &pack_halo}) list->interleave();
    for (SumJobList* list : {&sums, &received_sums}) list->interleave();
  }
  const auto local_copies = static_cast<index_t>(unpack.chunks.size()), local_cells = unpack.cells,
             local_sums = static_cast<index_t>(sums.chunks.size());
  unpack.append(received);
  sums.append(received_sums);

  Tables tables;
  tables.add(pack, pack_owned_);
  tables.add(unpack, unpack_);
  tables.add(pack_halo, pack_halo_);
  tables.add(read, read_);
  tables.add(returned, returned_);
  tables.add(sums, sum_);
  const std::size_t constants = tables.add(values);
  tables_                     = tables.upload<Memory>("shard::plan");
  constants_                  = tables_.data() + constants;
  unpack_.local_chunks        = local_copies;
  unpack_.local_cells         = local_cells;
  sum_.local_chunks           = local_sums;
}

// members, not the class: those of plan.cpp are compiled there
#define SHARD_PLAN(Memory)                                                                       \
  template std::shared_ptr<Plan<Memory>> Plan<Memory>::make(                                     \
      MeshState&, const Route&, const std::vector<FieldStrides>&, const Tuning&, std::uint32_t); \
  template std::shared_ptr<Plan<Memory>> Plan<Memory>::sibling(                                  \
      const Route&, const std::vector<FieldStrides>&) const;                                     \
  template std::size_t Plan<Memory>::bytes_sent() const;
SHARD_FOR_EACH_MEMORY(SHARD_PLAN)
#undef SHARD_PLAN

}  // namespace shard::impl
