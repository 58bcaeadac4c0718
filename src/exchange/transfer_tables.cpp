// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "transfer_tables.hpp"

#include <algorithm>

#include "plan_layout.hpp"
#include "upload.hpp"

namespace shard::impl {

namespace {

Elements read_of(const TransferStep& s, const Piece& p, int entry, const Strides& strides) {
  const RouteField& field = s.route.fields[static_cast<std::size_t>(p.field)];
  return s.combines ? target_elements(field, p, entry, strides)
                    : source_elements(field, p, entry, strides);
}
Elements written_of(const TransferStep& s, const Piece& p, int entry, const Strides& strides) {
  const RouteField& field = s.route.fields[static_cast<std::size_t>(p.field)];
  return s.combines ? source_elements(field, p, entry, strides)
                    : target_elements(field, p, entry, strides);
}
/// What a step sends and what it receives: the other way if the route is run backwards.
const PlanLayout::Side& out_of(const TransferStep& s, const PlanLayout& layout) {
  return s.combines ? layout.receive : layout.send;
}
const PlanLayout::Side& in_of(const TransferStep& s, const PlanLayout& layout) {
  return s.combines ? layout.send : layout.receive;
}

/// Marks jobs of contiguous lines for non-temporal stores, if all jobs together are larger than the
/// caches.
void stream_if_large(CopyJobList& list) {
  constexpr index_t more_than_caches = index_t{1} << 25U, short_row = 128;  // bytes
  if (list.bytes < more_than_caches) return;
  for (CopyJob& job : list.jobs) {
    const index_t* const extent = list.numbers.data() + job.first_number;
    const index_t size = job.value_size, line = extent[0] * size;
    job.streams = extent[job.dims] == size && extent[2 * job.dims] == size && line >= short_row;
  }
}

/// One side's messages of a step, in the order of peers, and their places in the buffer from `end`
/// on. For a message of one piece, in_place(piece) returns its elements in a View if it is sent or
/// received there, else nothing.
template <class InPlace>
std::vector<PlacedMessage> place_messages(const TransferStep& s, const PlanLayout::Side& side,
                                          bool sent, int buffer, index_t& end,
                                          const InPlace& in_place) {
  const std::vector<PeerMessage>& messages = side.messages;
  const std::vector<PackedPiece>& pieces   = side.pieces;
  std::vector<PlacedMessage> placed(messages.size());
  std::vector<std::size_t> first_piece(messages.size(), pieces.size()), count(messages.size(), 0);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::size_t m = pieces[i].message;
    first_piece[m]      = std::min(first_piece[m], i);
    ++count[m];
    const RouteField& field = s.route.fields[static_cast<std::size_t>(pieces[i].piece->field)];
    placed[m].peer          = pieces[i].piece->peer;
    placed[m].bytes =
        pieces[i].offset + count_of(field, *pieces[i].piece) * index_t{field.value_size};
  }
  const auto same = [&](std::size_t a, std::size_t b) {
    bool is_same = count[a] == count[b];
    for (std::size_t i = 0; i < count[a] && is_same; ++i) {
      const Piece &p = *pieces[first_piece[a] + i].piece, &q = *pieces[first_piece[b] + i].piece;
      is_same = p.field == q.field && p.extent == q.extent && read_begin(s, p) == read_begin(s, q);
    }
    return is_same;
  };
  for (std::size_t m = 0; m < placed.size(); ++m) {
    PlacedMessage& message = placed[m];
    if (count[m] == 1) {
      const Elements there = in_place(*pieces[first_piece[m]].piece);
      if (there.entry >= 0) {
        message.entry    = there.entry;
        message.first    = there.first;
        message.in_place = true;
        continue;
      }
    }
    message.entry = buffer;
    for (std::size_t e = 0; e < m && sent && !message.repeats; ++e)
      if (!placed[e].in_place && !placed[e].repeats && same(e, m)) {
        message.repeats = true;
        message.first   = placed[e].first;
      }
    if (message.repeats) continue;
    message.first = end;
    end += (message.bytes + index_t{value_alignment} - 1) / index_t{value_alignment} *
           index_t{value_alignment};
  }
  return placed;
}

}  // namespace

TransferSize size_of(const TransferStep& step) {
  const PlanLayout layout(step.route, {}, {});
  const auto nowhere = [](const Piece&) { return Elements{}; };
  TransferSize size;
  const auto sent     = place_messages(step, out_of(step, layout), true, 0, size.buffer, nowhere);
  const auto received = place_messages(step, in_of(step, layout), false, 0, size.buffer, nowhere);
  for (const PlacedMessage& m : sent) size.sent += m.bytes;
  for (const PlacedMessage& m : received) size.received += m.bytes;
  size.messages = static_cast<int>(sent.size());
  return size;
}

template <class Memory>
TransferTables<Memory>::TransferTables(
    const std::vector<TransferStep>& of,
    const std::array<TransferStrides, max_transfer_fields>& fields, int count, bool staged,
    index_t limit)
    : made_for(fields), entries_{count}, staged_(staged) {
  Tables all;
  std::size_t widest = value_alignment;
  steps.resize(of.size());  // the tables refer to them
  auto step = steps.begin();
  for (const TransferStep& s : of) {
    for (int f = 0; f < count; ++f) crosses_[static_cast<std::size_t>(f)] = crosses(s, f);
    for (const RouteField& field : s.route.fields)
      widest = std::max(widest, static_cast<std::size_t>(field.value_size));
    Lists lists;
    build(s, *step, lists);
    if constexpr (std::is_same_v<Memory, Kokkos::HostSpace>)
      for (CopyJobList* list : {&lists.pack, &lists.local, &lists.unpack}) stream_if_large(*list);
    all.add(lists.pack, step->pack);
    all.add(lists.local, step->local);
    all.add(lists.unpack, step->unpack);
    for (std::size_t f = 0; f < max_transfer_fields; ++f) all.add(lists.sums[f], step->sums[f]);
    std::size_t messages = 0;
    for (const auto* list : {&step->sends, &step->receives})
      for (const PlacedMessage& m : *list)
        messages += static_cast<std::size_t>((m.bytes + limit - 1) / limit);
    requests = std::max(requests, messages);
    ++step;
  }
  const std::size_t zeros = all.add(std::vector<std::byte>(widest, std::byte{0}));
  tables                  = all.template upload<Memory>("shard::transfer");
  constants               = tables.data() + zeros;
}

template <class Memory>
void TransferTables<Memory>::enter(const TransferField* fields, std::byte* messages) {
  for (int f = 0; f < entries_.fields; ++f) {
    addresses.entries[entries_.read(f)].bytes    = fields[f].read;
    addresses.entries[entries_.written(f)].bytes = fields[f].written;
  }
  addresses.entries[entries_.buffer()].bytes    = messages;
  addresses.entries[entries_.constants()].bytes = const_cast<std::byte*>(constants);
}

template <class Memory>
Elements TransferTables<Memory>::read(const TransferStep& s, const Piece& p) const {
  return read_of(s, p, entries_.read(p.field), made_for[static_cast<std::size_t>(p.field)].read);
}
template <class Memory>
Elements TransferTables<Memory>::written(const TransferStep& s, const Piece& p) const {
  return written_of(s, p, entries_.written(p.field),
                    made_for[static_cast<std::size_t>(p.field)].written);
}

template <class Memory>
bool TransferTables<Memory>::crosses(const TransferStep& s, int f) const {
  const TransferStrides& field = made_for[static_cast<std::size_t>(f)];
  if (field.distance == TransferStrides::apart ||
      static_cast<std::size_t>(f) >= s.route.fields.size())
    return false;
  const int rank = s.route.fields[static_cast<std::size_t>(f)].rank;
  for (const Piece& p : s.route.locals) {
    if (p.field != f) continue;
    const Elements from = read(s, p), to = written(s, p);
    if (from.first + field.distance != to.first) return true;
    for (int d = 0; d < rank; ++d)
      if (const auto i = Geometry::at(d); p.extent[i] > 1 && from.stride[i] != to.stride[i])
        return true;
  }
  if (s.combines) return false;  // it writes after all messages were sent
  const auto is_kept = [&](const Piece& sent) {
    return std::any_of(s.route.locals.begin(), s.route.locals.end(), [&](const Piece& p) {
      const PieceBox a{sent.source, sent.extent};
      return p.field == f && intersection(a, {p.source, p.extent}, rank) == a;
    });
  };
  const auto of_field = [&](const Piece& p) { return p.field == f; };
  return std::any_of(s.route.receives.begin(), s.route.receives.end(), of_field) &&
         !std::all_of(s.route.sends.begin(), s.route.sends.end(),
                      [&](const Piece& p) { return p.field != f || is_kept(p); });
}

template <class Memory>
void TransferTables<Memory>::build(const TransferStep& s, Step& step, Lists& lists) {
  const PlanLayout layout(s.route, {}, {});
  const PlanLayout::Side &out = out_of(s, layout), &in = in_of(s, layout);
  const auto field_of = [&](const Piece& p) -> const RouteField& {
    return s.route.fields[static_cast<std::size_t>(p.field)];
  };
  const auto place_of = [&](const Piece& p, const Elements& there) {
    const RouteField& field = field_of(p);
    const auto bytes =
        static_cast<std::size_t>(count_of(field, p)) * static_cast<std::size_t>(field.value_size);
    const bool in_place = !staged_ && !crosses_[static_cast<std::size_t>(p.field)] &&
                          run_of(field, p, there, packed_elements(field, p, 0, 0)) == bytes;
    return in_place ? there : Elements{};
  };
  index_t end   = 0;
  step.sends    = place_messages(s, out, true, entries_.buffer(), end,
                                 [&](const Piece& p) { return place_of(p, read(s, p)); });
  step.receives = place_messages(s, in, false, entries_.buffer(), end, [&](const Piece& p) {
    return s.combines ? Elements{} : place_of(p, written(s, p));
  });
  for (const PackedPiece& p : out.pieces) {
    const PlacedMessage& m = step.sends[p.message];
    if (!m.in_place && !m.repeats)
      add_copy(field_of(*p.piece), *p.piece, read(s, *p.piece),
               packed_elements(field_of(*p.piece), *p.piece, m.entry, m.first + p.offset),
               lists.pack);
  }
  for (const Piece& p : s.route.fills)
    add_copy(field_of(p), p, {entries_.constants()}, written(s, p), lists.local);

  std::array<std::vector<Summand>, max_transfer_fields> summands;
  for (const Piece& p : s.route.locals) {
    const RouteField& field = field_of(p);
    const auto f            = static_cast<std::size_t>(p.field);
    Elements from           = read(s, p);
    if (crosses_[f]) {
      const Elements held = packed_elements(field, p, entries_.buffer(), end);
      end += (count_of(field, p) * field.value_size + index_t{value_alignment} - 1) /
             index_t{value_alignment} * index_t{value_alignment};
      add_copy(field, p, from, held, lists.pack);
      from = held;
    }
    if (s.combines)
      summands[f].push_back({&p, from, {}, true});
    else if (crosses_[f])
      add_copy(field, p, from, written(s, p), lists.unpack);
    else if (made_for[f].distance == TransferStrides::apart)
      add_copy(field, p, from, written(s, p), lists.local);
  }
  for (const PackedPiece& p : in.pieces) {
    const PlacedMessage& m = step.receives[p.message];
    if (m.in_place) continue;
    const Elements from =
        packed_elements(field_of(*p.piece), *p.piece, m.entry, m.first + p.offset);
    if (s.combines)
      summands[static_cast<std::size_t>(p.piece->field)].push_back({p.piece, from, {}, false});
    else
      add_copy(field_of(*p.piece), *p.piece, from, written(s, *p.piece), lists.unpack);
  }
  for (int f = 0; f < entries_.fields && s.combines; ++f) {
    const auto i = static_cast<std::size_t>(f);
    if (i >= s.route.fields.size()) break;
    SumJobList received;
    add_sums(s.route.fields[i], summands[i], entries_.written(f), made_for[i].written, received,
             lists.sums[i], &s.reduction);
    lists.sums[i].append(received);
  }
  buffer = std::max(buffer, static_cast<std::size_t>(end));
}

#define SHARD_TRANSFER_TABLES(Memory) template struct TransferTables<Memory>;
SHARD_FOR_EACH_MEMORY(SHARD_TRANSFER_TABLES)
#undef SHARD_TRANSFER_TABLES

}  // namespace shard::impl
