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

/// Global indices of one chunk that stand in the context of a later one: of what two ranks say to
/// each other both make the same list, ordered by context and index.
struct Segment {
  int peer      = 0;  ///< the rank that has the context (of a source), or the chunk
  int context   = 0;  ///< of which chunk
  index_t begin = 0, end = 0;
  index_t offset = 0;  ///< in the buffer, in bytes

  index_t size() const { return end - begin; }
};

using Segments = std::vector<Segment>;

/// What stands in the contexts of a rank's chunks, of `width` indices each.
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

/// What of a rank's chunks stands in contexts.
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

/// Orders the segments by peer and gives those of other ranks their place in a buffer, one message
/// a peer.
std::vector<RankMessage> place(Segments& segments, int rank, index_t bytes_of_index) {
  std::sort(segments.begin(), segments.end(), [](const Segment& a, const Segment& b) {
    return std::tie(a.peer, a.context, a.begin) < std::tie(b.peer, b.context, b.begin);
  });
  std::vector<RankMessage> messages;
  index_t offset = 0;
  for (Segment& segment : segments) {
    if (segment.peer == rank) continue;
    segment.offset = offset;
    if (messages.empty() || messages.back().peer != segment.peer)
      messages.push_back({segment.peer, offset, 0});
    messages.back().bytes += segment.size() * bytes_of_index;
    offset += segment.size() * bytes_of_index;
  }
  return messages;
}

/// The exchange of contexts, either way, after its checks.
template <class Space>
struct Contexts {
  Collective<Space>& all;
  const ZigzagPartition part;
  const PlainView &x, &first, &second;
  const int dim, rank;
  const index_t width;
  Segments needs, lends;
  std::vector<RankMessage> of_needs, of_lends;

  /// Collective.
  Contexts(Collective<Space>& collective, const ZigzagCall& call, const PlainView& sequence,
           const PlainView& of_first)
      : Contexts(collective, agree(collective, call, sequence, of_first), call, sequence,
                 of_first) {}

  const PlainView& context(const Segment& s) const { return s.context == rank ? first : second; }
  /// Where a segment stands in its context.
  index_t at(const Segment& s) const { return s.begin - part.chunk(s.context).begin + width; }
  ViewBlocks in_context(const Segment& s) const { return piece(s, at(s)); }
  ViewBlocks in_chunk(const Segment& s) const { return piece(s, part.local_index(s.begin)); }

 private:
  Contexts(Collective<Space>& collective, const ZigzagPartition& partition, const ZigzagCall& call,
           const PlainView& sequence, const PlainView& of_first)
      : all(collective),
        part(partition),
        x(sequence),
        first(of_first),
        second(call.second),
        dim(collective.dim("the dimension", call.base.dim)),
        rank(collective.coordinate()),
        width(of_first.extent[Geometry::at(dim)]) {
    index_t bytes = call.base.value_size;
    for (int d = 0; d < call.base.rank; ++d)
      if (d != dim) bytes *= x.extent[Geometry::at(d)];
    if (part.size() > 0) {
      needs = needed(part, rank, width);
      lends = lent(part, rank, width);
    }
    of_needs = place(needs, rank, bytes);
    of_lends = place(lends, rank, bytes);
    // no rank sends or receives more: each index of two chunks is in ceil(width / chunk) contexts
    const index_t most = 2 * (std::min(width, part.size()) + part.chunk_size()) * bytes;
    all.reserve(most, most);
  }

  /// Collective: the partition, if everything fits.
  static ZigzagPartition agree(Collective<Space>& all, const ZigzagCall& sequence,
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
  ViewBlocks piece(const Segment& s, index_t begin) const {
    return {.dim = dim, .extent = s.size(), .length = s.size(), .begin = begin, .offset = s.offset};
  }
};

}  // namespace

template <class Space>
void Sequences<Space>::contexts(const Space& space, const ZigzagCall& call) {
  Collective all(space, call.base);
  const Contexts<Space> c(all, call, call.base.from, call.base.to);
  for (const Segment& s : c.lends)
    if (s.peer != c.rank) all.pack(c.x, c.in_chunk(s));
  all.to_peers(c.of_lends, c.of_needs);
  const int chunks[] = {c.rank,
                        c.part.chunks() - 1 - c.rank};  // a list in the loop is lost by nvcc
  for (const int chunk : chunks)
    all.clear(chunk == c.rank ? c.first : c.second, c.dim,
              std::max(c.width - c.part.chunk(chunk).begin, index_t{0}), 0);
  for (const Segment& s : c.needs)
    if (s.peer == c.rank)
      all.copy(c.x, c.context(s), c.dim, s.size(), c.part.local_index(s.begin), c.at(s));
    else
      all.unpack(c.context(s), c.in_context(s), true);
  all.fence();
}

template <class Space>
void Sequences<Space>::sum_contexts(const Space& space, const ZigzagCall& call) {
  Collective all(space, call.base);
  Contexts<Space> c(all, call, call.base.to, call.base.from);
  for (const Segment& s : c.needs)
    if (s.peer != c.rank) all.pack(c.context(s), c.in_context(s));
  all.to_peers(c.of_needs, c.of_lends);
  all.clear(c.x, c.dim, c.x.extent[Geometry::at(c.dim)], 0);
  std::sort(c.lends.begin(), c.lends.end(), [](const Segment& a, const Segment& b) {
    return std::tie(a.context, a.begin) < std::tie(b.context, b.begin);
  });
  for (const Segment& s : c.lends)
    if (s.peer == c.rank)
      all.add(c.context(s), c.x, c.dim, s.size(), c.at(s), c.part.local_index(s.begin));
    else
      all.add(c.x, c.in_chunk(s));
  all.fence();
}

#if defined(KOKKOS_ENABLE_SERIAL)
template void Sequences<Kokkos::Serial>::contexts(const Kokkos::Serial&, const ZigzagCall&);
template void Sequences<Kokkos::Serial>::sum_contexts(const Kokkos::Serial&, const ZigzagCall&);
#endif
#if defined(KOKKOS_ENABLE_OPENMP)
template void Sequences<Kokkos::OpenMP>::contexts(const Kokkos::OpenMP&, const ZigzagCall&);
template void Sequences<Kokkos::OpenMP>::sum_contexts(const Kokkos::OpenMP&, const ZigzagCall&);
#endif
#if defined(KOKKOS_ENABLE_THREADS)
template void Sequences<Kokkos::Threads>::contexts(const Kokkos::Threads&, const ZigzagCall&);
template void Sequences<Kokkos::Threads>::sum_contexts(const Kokkos::Threads&, const ZigzagCall&);
#endif
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template void Sequences<Kokkos::DefaultExecutionSpace>::contexts(
    const Kokkos::DefaultExecutionSpace&, const ZigzagCall&);
template void Sequences<Kokkos::DefaultExecutionSpace>::sum_contexts(
    const Kokkos::DefaultExecutionSpace&, const ZigzagCall&);
#endif

}  // namespace shard::impl
