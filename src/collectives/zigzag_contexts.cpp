// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "collective.hpp"
#include "shard/collectives/impl/zigzag_call.hpp"
#include "shard/collectives/zigzag_partition.hpp"

namespace shard::impl {

namespace {

/// Global indices of one chunk that belong to the context of a later one.
struct Segment {
  int peer      = 0;  ///< the rank that has the context (of a source), or the chunk
  int context   = 0;  ///< of which chunk
  index_t begin = 0, end = 0;

  index_t size() const { return end - begin; }
};

using Segments = std::vector<Segment>;

/// The segments in the contexts of a rank's chunks, of `width` indices each.
Segments needed(const ZigzagPartition& part, int rank, index_t width) {
  Segments all;
  for (const int context : {rank, part.chunks() - 1 - rank}) {
    const index_t end = part.chunk(context).begin, begin = std::max(end - width, index_t{0});
    if (begin == end) continue;
    for (int c = part.chunk_of(begin); c < context; ++c)
      all.push_back({part.rank_of_chunk(c), context, std::max(begin, part.chunk(c).begin),
                     part.chunk(c).end});
  }
  return all;
}

/// The segments of a rank's chunks that belong to contexts.
Segments lent(const ZigzagPartition& part, int rank, index_t width) {
  Segments all;
  for (const int c : {rank, part.chunks() - 1 - rank})
    for (int context = c + 1; context < part.chunks(); ++context) {
      const index_t begin = std::max(part.chunk(context).begin - width, part.chunk(c).begin);
      if (begin >= part.chunk(c).end) break;
      all.push_back({part.rank_of_chunk(context), context, begin, part.chunk(c).end});
    }
  return all;
}

/// Both ends list the segments of a message by context and index.
Segments sorted(Segments segments) {
  std::sort(segments.begin(), segments.end(), [](const Segment& a, const Segment& b) {
    return std::tie(a.peer, a.context, a.begin) < std::tie(b.peer, b.context, b.begin);
  });
  return segments;
}

/// Collective: the partition. Throws if the arguments don't fit.
template <class Space>
ZigzagPartition agree_on_contexts(Collective<Space>& all, const ZigzagCall& sequence,
                                  const PlainView& x, const PlainView& first) {
  const CollectiveCall& call = sequence.base;
  const int given            = call.dim < 0 ? call.dim + call.rank : call.dim;
  const auto d               = Geometry::at(given < 0 || given >= call.rank ? 0 : given);
  const index_t p = all.size(), chunks = 2 * p;
  const bool by_rank = sequence.size % chunks != 0;
  all.agree(", dimension " + text(call.dim) + ", a sequence of " + text(sequence.size) +
                ", contexts " + dims_of(call, first) + " and " + dims_of(call, sequence.second),
            by_rank ? given : -1);
  const int dim      = all.dim("the dimension", call.dim);
  const index_t mine = x.extent[d];
  if (sequence.size == 0 && mine % 2 != 0)
    throw_argument(call.function,
                   {"dimension ", text(dim), " has extent ", text(mine), " on each of ", text(p),
                    " ranks, which isn't two equal chunks; say the "
                    "sequence's size if it is uneven"});
  const index_t n = sequence.size == 0 ? mine * p : sequence.size;
  if (!ZigzagPartition::exists(n, all.size()))
    throw_argument(
        call.function,
        {"dimension ", text(dim), " is a sequence of ", text(n), ", which doesn't make ",
         text(chunks), " chunks, two for each of ", text(p), " ranks: the last would be empty"});
  for (int e = 0; e < call.rank; ++e) {
    const auto i = Geometry::at(e);
    if (first.extent[i] != sequence.second.extent[i] ||
        (e != dim && first.extent[i] != x.extent[i]))
      throw_argument(call.function, {"contexts are ", dims_of(call, first), " and ",
                                     dims_of(call, sequence.second), ", the sequence's shard is ",
                                     dims_of(call, x), "; they differ in dimension ", text(e)});
  }
  const ZigzagPartition part(n, all.size());
  all.check(by_rank, [&] {
    const index_t wanted = part.count(all.coordinate());
    if (mine != wanted)
      throw_argument(call.function, {"dimension ", text(dim), " is a sequence of ", text(n),
                                     ", of which rank ", text(all.coordinate()), " has ",
                                     text(wanted), "; its View has extent ", text(mine)});
  });
  return part;
}

/// Boxes of segments in the sequence's shard and in contexts. Field 0 is the context of the first
/// chunk, field 1 that of the second.
template <class Space>
struct ContextBoxes {
  const Collective<Space>& all;
  const ZigzagPartition& part;
  const PlainView &x, &context;
  int dim, rank;
  index_t width;
  Segments needs, lends;

  ContextBoxes(const Collective<Space>& collective, const ZigzagPartition& of,
               const PlainView& shard, const PlainView& of_context, int along)
      : all(collective),
        part(of),
        x(shard),
        context(of_context),
        dim(along),
        rank(collective.coordinate()),
        width(of_context.extent[Geometry::at(along)]) {
    if (part.size() == 0) return;
    needs = sorted(needed(part, rank, width));
    lends = sorted(lent(part, rank, width));
  }
  int field(const Segment& s) const { return s.context < part.ranks() ? 0 : 1; }
  PieceBox in_chunk(const Segment& s) const {
    return all.slice(x, dim, part.local_index(s.begin), s.size());
  }
  PieceBox in_context(const Segment& s) const {
    return all.slice(context, dim, s.begin - part.chunk(s.context).begin + width, s.size());
  }
  /// The part of a context before the sequence's first index.
  PieceBox before(int chunk) const {
    return all.slice(context, dim, 0, std::max(width - part.chunk(chunk).begin, index_t{0}));
  }
};

/// Runs an operation between a sequence's shard `x` and its contexts, of which `first` and
/// call.second are the Views, by the boxes that append(boxes, all) gives.
template <class Space, class Append>
void with_contexts(const Space& space, const ZigzagCall& call, const PlainView& x,
                   const PlainView& first, bool sums, const Append& append) {
  Collective all(space, call.base);
  all.add_to_key(call.second);
  all.add_to_key(call.size);
  int dim = 0;
  ZigzagPartition part(0, 1);
  const auto check = [&] {
    part = agree_on_contexts(all, call, x, first);
    dim  = all.dim("the dimension", call.base.dim);
  };
  const auto between = [&](const PlainView& context) {
    return sums ? all.between(context, x) : all.between(x, context);
  };
  const TransferField fields[] = {between(first), between(call.second)};
  all.run(fields, check, [&] {
    BoxRoute route = sums ? all.combining(Reduction{}, 2) : all.copying(2);
    append(ContextBoxes<Space>(all, part, x, first, dim), route);
    return one_step(std::move(route));
  });
}

}  // namespace

template <class Space>
void Sequences<Space>::contexts(const Space& space, const ZigzagCall& call) {
  with_contexts(space, call, call.base.from, call.base.to, false,
                [](const ContextBoxes<Space>& boxes, BoxRoute& route) {
                  route.clear(boxes.before(boxes.rank), 0);
                  route.clear(boxes.before(boxes.part.chunks() - 1 - boxes.rank), 1);
                  for (const Segment& s : boxes.lends)
                    if (s.peer != boxes.rank) route.send(s.peer, boxes.in_chunk(s), boxes.field(s));
                  for (const Segment& s : boxes.needs)
                    if (s.peer == boxes.rank)
                      route.keep(boxes.in_chunk(s), boxes.in_context(s), 0, boxes.field(s));
                    else
                      route.receive(s.peer, boxes.in_context(s), 0, boxes.field(s));
                });
}

template <class Space>
void Sequences<Space>::sum_contexts(const Space& space, const ZigzagCall& call) {
  with_contexts(space, call, call.base.to, call.base.from, true,
                [](const ContextBoxes<Space>& boxes, BoxRoute& route) {
                  route.clear(boxes.all.whole(boxes.x));
                  for (const Segment& s : boxes.needs)
                    if (s.peer != boxes.rank)
                      route.send(s.peer, boxes.in_context(s), boxes.field(s));
                  for (const Segment& s : boxes.lends)  // contexts in the order of their chunks
                    if (s.peer == boxes.rank)
                      route.keep(boxes.in_context(s), boxes.in_chunk(s), s.context, boxes.field(s));
                    else
                      route.receive(s.peer, boxes.in_chunk(s), s.context, boxes.field(s));
                });
}

#define SHARD_CONTEXTS(Memory, Space)                                        \
  template void Sequences<Space>::contexts(const Space&, const ZigzagCall&); \
  template void Sequences<Space>::sum_contexts(const Space&, const ZigzagCall&);
SHARD_FOR_EACH_SPACE(SHARD_CONTEXTS)
#undef SHARD_CONTEXTS

}  // namespace shard::impl
