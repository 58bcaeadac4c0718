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

/// The pieces of a whole dimension that are blocks of two chunks, one block a rank.
std::vector<ViewBlocks> zigzag_pieces(const ZigzagPartition& part, int dim, index_t block_bytes) {
  const index_t n = part.chunk_size(), p = part.ranks();
  const ViewBlocks chunk{.dim = dim, .blocks = p, .extent = 2 * n, .length = n};
  ViewBlocks first = chunk, second = chunk;
  first.step   = n;
  second.begin = (2 * p - 1) * n;
  second.step  = -n;
  second.at    = n;
  if (part.even()) return {first, second};
  ViewBlocks last = second;  // rank 0's second chunk has fewer
  last.blocks     = 1;
  last.length     = part.chunk(part.chunks() - 1).size();
  second.blocks -= 1;
  second.begin -= n;
  second.offset = block_bytes;
  return {first, second, last};
}

template <class Space>
std::string where(const Collective<Space>& all, int dim, index_t length) {
  return "dimension " + text(dim) + " is a sequence of " + text(length) + " over " +
         text(all.size()) + " ranks";
}

/// Collective: the partition of the sequence that `full` has whole along call.dim and `shard` two
/// chunks of; one is read and the other written. Throws on every rank where they don't fit. The
/// dimension comes back counted from 0.
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

/// Values of a View in one index of a dimension.
index_t values_beside(const CollectiveCall& call, const PlainView& view, int dim) {
  index_t n = 1;
  for (int d = 0; d < call.rank; ++d)
    if (d != dim) n *= view.extent[Geometry::at(d)];
  return n;
}

/// A rank's own two chunks as one block.
ViewBlocks own_piece(const ZigzagPartition& part, int dim, int rank) {
  return {.dim = dim, .extent = 2 * part.chunk_size(), .length = part.count(rank)};
}

}  // namespace

template <class Space>
void Sequences<Space>::all_to_all(const Space& space, const ZigzagCall& sequence) {
  constexpr int channel = 1, dim = 2;
  const CollectiveCall& call = sequence.base;
  Collective all(space, call);
  const bool named_split_to_full = sequence.type == "split_to_full",
             is_named            = named_split_to_full || sequence.type == "full_to_split",
             split_to_full       = named_split_to_full != sequence.reverse;
  const index_t p = all.size(), chunks = sequence.zigzag ? 2 * p : p;
  // Lengths that can't be shared equally are told from the Views that have them whole: the shares
  // then differ by rank, and comparing those would only say that the ranks disagree.
  const PlainView &whole    = split_to_full ? call.to : call.from,
                  &parts    = split_to_full ? call.from : call.to;
  const index_t n           = whole.extent[dim];
  const auto require_shares = [&] {
    if (!is_named || call.rank < 3 || call.rank > 5) return;  // told below
    all.require_divides(channel, parts);
    if (n % chunks != 0)
      throw_argument(call.function, {where(all, dim, n), ", which ", text(chunks), " chunks, ",
                                     sequence.zigzag ? "two" : "one", " a rank, don't divide"});
  };
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

  const index_t bytes = all.values() / p * all.value_size();
  all.reserve(bytes * p, bytes * p);
  const std::vector<ViewBlocks> pieces =
      sequence.zigzag
          ? zigzag_pieces(ZigzagPartition(n, all.size()), dim, bytes)
          : std::vector<ViewBlocks>{all.whole(split_to_full ? call.to : call.from, dim, p)};
  if (split_to_full)
    all.all_to_all({all.whole(call.from, channel, p)}, pieces, bytes);
  else
    all.all_to_all(pieces, {all.whole(call.to, channel, p)}, bytes);
  all.fence();
}

template <class Space>
void Sequences<Space>::split(const Space& space, const ZigzagCall& sequence) {
  const CollectiveCall& call = sequence.base;
  Collective all(space, call);
  int dim         = 0;
  const auto part = agree_on_split(all, call, call.from, call.to, dim);
  if (call.from.data == call.to.data) return;  // a single rank's sequence, in place
  const auto [first, second] = part.ranges(all.coordinate());
  all.copy(call.from, call.to, dim, first.size(), first.begin, 0);
  all.copy(call.from, call.to, dim, second.size(), second.begin, first.size());
  all.fence();
}

template <class Space>
void Sequences<Space>::spread(const Space& space, const ZigzagCall& sequence) {
  const CollectiveCall& call = sequence.base;
  Collective all(space, call);
  int dim         = 0;
  const auto part = agree_on_split(all, call, call.to, call.from, dim);
  if (call.from.data == call.to.data) return;
  const auto [first, second] = part.ranges(all.coordinate());
  all.clear(call.to, dim, first.begin, 0);
  all.copy(call.from, call.to, dim, first.size(), 0, first.begin);
  all.clear(call.to, dim, second.begin - first.end, first.end);
  all.copy(call.from, call.to, dim, second.size(), first.size(), second.begin);
  all.clear(call.to, dim, part.size() - second.end, second.end);
  all.fence();
}

template <class Space>
void Sequences<Space>::gather(const Space& space, const ZigzagCall& sequence) {
  const CollectiveCall& call = sequence.base;
  Collective all(space, call);
  int dim         = 0;
  const auto part = agree_on_split(all, call, call.to, call.from, dim);
  const index_t bytes =
      2 * part.chunk_size() * values_beside(call, call.to, dim) * all.value_size();
  all.reserve(bytes, bytes * all.size());
  if (!part.even() && all.coordinate() == 0) all.clear_sent(0, bytes);  // what no value fills
  all.pack(own_piece(part, dim, all.coordinate()));
  all.all_gather(bytes);
  for (const ViewBlocks& piece : zigzag_pieces(part, dim, bytes)) all.unpack(piece, true);
  all.fence();
}

template <class Space>
void Sequences<Space>::sum_split(const Space& space, const ZigzagCall& sequence) {
  const CollectiveCall& call = sequence.base;
  Collective all(space, call);
  int dim             = 0;
  const auto part     = agree_on_split(all, call, call.from, call.to, dim);
  const index_t count = 2 * part.chunk_size() * values_beside(call, call.from, dim);
  const index_t bytes = count * all.value_size();
  all.reserve(bytes * all.size(), bytes * all.size());
  if (!part.even()) all.clear_sent(0, bytes);
  for (const ViewBlocks& piece : zigzag_pieces(part, dim, bytes)) all.pack(piece);
  if (all.size() > 1) {
    all.all_to_all(bytes);
    all.combine(count, all.size());
  }
  all.unpack(own_piece(part, dim, all.coordinate()), false);
  all.fence();
}

#if defined(KOKKOS_ENABLE_SERIAL)
template struct Sequences<Kokkos::Serial>;
#endif
#if defined(KOKKOS_ENABLE_OPENMP)
template struct Sequences<Kokkos::OpenMP>;
#endif
#if defined(KOKKOS_ENABLE_THREADS)
template struct Sequences<Kokkos::Threads>;
#endif
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct Sequences<Kokkos::DefaultExecutionSpace>;
#endif

}  // namespace impl
}  // namespace shard
