// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/collectives/zigzag_partition.hpp"

#include <string>
#include <vector>

#include "collective.hpp"
#include "shard/collectives/impl/zigzag_call.hpp"

namespace shard {

namespace {

std::vector<int> list_of(const char* function, int chunks, int (*entry)(int, int)) {
  if (chunks < 0)
    impl::throw_argument(function,
                         {"a sequence of ", impl::text(chunks), " chunks; give 0 or more"});
  std::vector<int> list(static_cast<std::size_t>(chunks));
  for (int i = 0; i < chunks; ++i) list[static_cast<std::size_t>(i)] = entry(i, chunks);
  return list;
}

}  // namespace

std::vector<int> zigzag_order(int chunks) { return list_of("zigzag_order", chunks, zigzag_chunk); }

std::vector<int> zigzag_inverse(int chunks) {
  if (chunks % 2 != 0)
    impl::throw_argument("zigzag_inverse", {"a sequence of ", impl::text(chunks),
                                            " chunks; each rank has two, so give an even number"});
  return list_of("zigzag_inverse", chunks, zigzag_place);
}

namespace impl {

void throw_no_zigzag(index_t size, int ranks) {
  throw_argument(
      "ZigzagPartition",
      {"a sequence of ", text(size), " doesn't make ", text(2 * index_t{ranks}),
       " chunks, two for each of ", text(ranks),
       " ranks: with equal chunks, rounded up, the last would be empty; pad the sequence "
       "to a multiple"});
}

namespace {

template <class Space>
std::string where(const Collective<Space>& all, int dim, index_t length) {
  return "dimension " + text(dim) + " is a sequence of " + text(length) + " over " +
         text(all.size()) + " ranks";
}

/// Collective: the partition of a sequence along call.dim. `full` has all of it and `shard` two
/// chunks; one is read and the other written. Throws on every rank if they don't fit. Sets `dim` to
/// the dimension counted from 0.
template <class Space>
ZigzagPartition agree_on_split(Collective<Space>& all, const CollectiveCall& call,
                               const PlainView& full, const PlainView& shard, int& dim) {
  const int d       = call.dim < 0 ? call.dim + call.rank : call.dim;
  const bool is_dim = d >= 0 && d < call.rank;
  const index_t n   = is_dim ? full.extent[Geometry::at(d)] : 0;
  const bool even   = n % (2 * index_t{all.size()}) == 0;
  all.agree(", dimension " + text(call.dim) + ", a sequence of " + text(n), even ? -1 : d);
  dim = all.dim("the dimension", call.dim);
  if (!ZigzagPartition::exists(n, all.size()))
    throw_argument(call.function,
                   {where(all, dim, n), ", which doesn't make ", text(2 * index_t{all.size()}),
                    " chunks, two a rank: the last would be empty"});
  const ZigzagPartition part(n, all.size());
  all.check(!even, [&] {
    all.require_same(dim);
    const index_t mine = part.count(all.coordinate()), is = shard.extent[Geometry::at(dim)];
    if (is != mine)
      throw_argument(call.function, {where(all, dim, n), ", of which rank ", text(all.coordinate()),
                                     " has ", text(mine), "; its View has extent ", text(is)});
  });
  return part;
}

/// Calls use(range, begin) for a rank's ranges of a sequence in the order of local indices; `begin`
/// is the range's first local index.
template <class Use>
void for_ranges(const ZigzagPartition& part, int rank, const Use& use) {
  index_t begin = 0;
  for (const ZigzagPartition::Range& range : part.ranges(rank)) {
    use(range, begin);
    begin += range.size();
  }
}

/// Runs an operation between a `whole` sequence and a rank's `chunks` of it, one of which is read
/// and the other written, by the boxes that boxes(all, partition, dim, route) appends.
template <class Space, class Boxes>
void with_chunks(const Space& space, const CollectiveCall& call, const PlainView& whole,
                 const PlainView& chunks, bool combines, const Boxes& boxes) {
  Collective all(space, call);
  int dim = 0;
  ZigzagPartition part(0, 1);
  const auto check = [&] { part = agree_on_split(all, call, whole, chunks, dim); };
  all.run(check, [&] {
    BoxRoute route = combines ? all.combining(all.reduction()) : all.copying();
    boxes(all, part, dim, route);
    return one_step(std::move(route));
  });
}

/// Gathers the chunks of all ranks on each, or adds all ranks' chunks at their owners.
template <class Space>
void share_chunks(const Space& space, const CollectiveCall& call, bool gathers) {
  const PlainView &whole = gathers ? call.to : call.from, &chunks = gathers ? call.from : call.to;
  with_chunks(space, call, whole, chunks, !gathers,
              [&](const auto& all, const ZigzagPartition& part, int dim, BoxRoute& route) {
                const int me = all.coordinate();
                for (int r = 0; r < all.size(); ++r) {
                  for_ranges(part, me, [&](const auto& range, index_t begin) {
                    const PieceBox mine  = all.slice(chunks, dim, begin, range.size()),
                                   there = all.slice(whole, dim, range.begin, range.size());
                    if (r == me)
                      gathers ? route.keep(mine, there) : route.keep(there, mine, r);
                    else
                      gathers ? route.send(r, mine) : route.receive(r, mine, r);
                  });
                  if (r == me) continue;
                  for_ranges(part, r, [&](const auto& range, index_t) {
                    const PieceBox there = all.slice(whole, dim, range.begin, range.size());
                    gathers ? route.receive(r, there) : route.send(r, there);
                  });
                }
              });
}

}  // namespace

template <class Space>
void Sequences<Space>::all_to_all(const Space& space, const ZigzagCall& sequence) {
  constexpr int channel = 1, dim = 2;
  const CollectiveCall& call = sequence.base;
  Collective all(space, call);
  all.add_to_key(std::string_view(sequence.type));
  all.add_to_key(sequence.zigzag);
  const bool named_split_to_full = sequence.type == "split_to_full",
             is_named            = named_split_to_full || sequence.type == "full_to_split",
             split_to_full       = named_split_to_full != sequence.reverse;
  const index_t p = all.size(), chunks = sequence.zigzag ? 2 * p : p;
  // Check lengths on the Views with the whole sequence: if a length can't be divided equally, the
  // shares differ by rank, and comparing these would only report a disagreement.
  const PlainView &whole    = split_to_full ? call.to : call.from,
                  &parts    = split_to_full ? call.from : call.to;
  const index_t n           = whole.extent[dim];
  const auto require_shares = [&] {
    if (!is_named || call.rank < 3 || call.rank > 5) return;  // reported below
    all.require_divides(channel, parts);
    if (n % chunks != 0)
      throw_argument(call.function, {where(all, dim, n), ", which ", text(chunks), " chunks, ",
                                     sequence.zigzag ? "two" : "one", " a rank, don't divide"});
  };
  const auto check = [&] {
    all.agree(", \"" + sequence.type + (sequence.zigzag ? "\", zigzag" : "\", contiguous"), -1,
              all.wrong_in(require_shares));
    if (call.rank < 3 || call.rank > 5)
      throw_argument(call.function, {"Views of rank ", text(call.rank),
                                     "; an all-to-all of sequences needs [batch, channel, 1 to 3 "
                                     "spatial dimensions]"});
    if (!is_named)
      throw_argument(call.function, {"the type is \"", sequence.type,
                                     "\"; it is \"split_to_full\" or \"full_to_split\""});
    const index_t c = call.from.extent[channel];
    all.require_same(channel, dim);
    all.require_extent(channel, split_to_full ? c / p : c * p, ", which over these ranks");
    all.require_extent(dim, split_to_full ? call.from.extent[dim] * p : n / p,
                       ", which over these ranks");
  };
  all.run(check, [&] {
    const index_t c = parts.extent[channel] / p, share = n / p;
    const int me   = all.coordinate();
    BoxRoute route = all.copying();
    // calls use(part, whole) with the boxes, in both Views, of rank `sharer`'s part of the sequence
    // and rank `channels`' channels
    const auto for_boxes = [&](int sharer, int channels, const auto& use) {
      const auto boxes = [&](const ZigzagPartition::Range& range, index_t begin) {
        use(all.slice(all.slice(parts, channel, channels * c, c), dim, begin, range.size()),
            all.slice(whole, dim, range.begin, range.size()));
      };
      if (sequence.zigzag)
        for_ranges(ZigzagPartition(n, all.size()), sharer, boxes);
      else
        boxes({sharer * share, (sharer + 1) * share}, 0);
    };
    for (int r = 0; r < all.size(); ++r) {
      for_boxes(me, r, [&](const PieceBox& part, const PieceBox& full) {
        if (r == me)
          split_to_full ? route.keep(part, full) : route.keep(full, part);
        else if (split_to_full)
          route.send(r, part);
        else
          route.receive(r, part);
      });
      if (r == me) continue;
      for_boxes(r, me, [&](const PieceBox&, const PieceBox& full) {
        if (split_to_full)
          route.receive(r, full);
        else
          route.send(r, full);
      });
    }
    return one_step(std::move(route));
  });
}

template <class Space>
void Sequences<Space>::split(const Space& space, const ZigzagCall& sequence) {
  const CollectiveCall& call = sequence.base;
  with_chunks(space, call, call.from, call.to, false,
              [&](const auto& all, const ZigzagPartition& part, int dim, BoxRoute& route) {
                for_ranges(part, all.coordinate(), [&](const auto& range, index_t begin) {
                  route.keep(all.slice(call.from, dim, range.begin, range.size()),
                             all.slice(call.to, dim, begin, range.size()));
                });
              });
}

template <class Space>
void Sequences<Space>::spread(const Space& space, const ZigzagCall& sequence) {
  const CollectiveCall& call = sequence.base;
  with_chunks(space, call, call.to, call.from, false,
              [&](const auto& all, const ZigzagPartition& part, int dim, BoxRoute& route) {
                index_t end = 0;
                for_ranges(part, all.coordinate(), [&](const auto& range, index_t begin) {
                  route.clear(all.slice(call.to, dim, end, range.begin - end));
                  route.keep(all.slice(call.from, dim, begin, range.size()),
                             all.slice(call.to, dim, range.begin, range.size()));
                  end = range.end;
                });
                route.clear(all.slice(call.to, dim, end, part.size() - end));
              });
}

template <class Space>
void Sequences<Space>::gather(const Space& space, const ZigzagCall& sequence) {
  share_chunks(space, sequence.base, true);
}

template <class Space>
void Sequences<Space>::sum_split(const Space& space, const ZigzagCall& sequence) {
  share_chunks(space, sequence.base, false);
}

#define SHARD_STRUCT(Memory, Space) template struct Sequences<Space>;
SHARD_FOR_EACH_SPACE(SHARD_STRUCT)
#undef SHARD_STRUCT

}  // namespace impl
}  // namespace shard
