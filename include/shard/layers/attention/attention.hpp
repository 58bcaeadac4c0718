// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_ATTENTION_ATTENTION_HPP
#define SHARD_LAYERS_ATTENTION_ATTENTION_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>

#include "shard/layers/impl/grouped_attention.hpp"
#include "shard/layers/per_dim.hpp"
#include "shard/redistribute/impl/common_partition.hpp"

namespace shard {

/// Attention within windows of `Sizes...` points, one size for each spatial dimension, that tile
/// the domain from point 0: `WindowAttention<8, 8>{.heads = 4}`. Fields q, k, v and y are [batch,
/// heads x features, space...], sharded in any way (channels between heads); the last windows are
/// smaller if the extent isn't a multiple.
///
///   y[i] = sum over j in i's window of softmax over j of (scale q[i] . k[j]) v[j]
///
/// With a `shift` s windows begin at point s and wrap round, as in Swin transformers (Liu et al.
/// 2021). `masked` excludes pairs of points across the seam.
///
/// If the extent n isn't a multiple of the size w, the last windows are smaller. With `centred` the
/// first ones are too, as in Aurora (Bodnar et al. 2025): after the shift, of the points that are
/// missing, half (rounded down) are missing in front. And in a shifted dimension, masked or not,
/// pairs of one of the last w points after the shift and one before them are excluded.
///
/// `key_heads` is the number of heads of the keys and values, a divisor of `heads` (0: as many).
/// Neighbouring heads of the queries share one of them: grouped-query attention (Ainslie et al.
/// 2023), or multi-query attention for 1.
///
/// Local if there is no shift and windows don't cross shards; else q, k and v are redistributed so
/// that each window is on one rank, and y back.
template <int... Sizes>
struct WindowAttention
    : impl::GroupedAttention<WindowAttention<Sizes...>, static_cast<int>(sizeof...(Sizes))> {
  static_assert(sizeof...(Sizes) >= 1 && sizeof...(Sizes) <= 3 && ((Sizes >= 1) && ...),
                "a WindowAttention has one to three positive sizes");
  /// The windows' sizes.
  static constexpr std::array<index_t, sizeof...(Sizes)> sizes{Sizes...};

  index_t heads = 1;    ///< number of heads: equal ranges of channels
  double scale  = 0.0;  ///< of the scores; 0: 1 / sqrt(features of a head)
  PerDim<index_t, static_cast<int>(sizeof...(Sizes))> shift{};  ///< points; any number
  PerDim<bool, static_cast<int>(sizeof...(Sizes))> masked{};    ///< excludes pairs across the seam
  /// Windows end beyond both ends of the domain.
  PerDim<bool, static_cast<int>(sizeof...(Sizes))> centred{};
  index_t key_heads = 0;  ///< heads of keys and values; 0: as many as of queries

 private:
  friend impl::GroupedAttention<WindowAttention, static_cast<int>(sizeof...(Sizes))>;
  static constexpr const char* name = "WindowAttention";

  static constexpr index_t size(int d) { return sizes[static_cast<std::size_t>(d)]; }
  double masks() const {  // as one number: a bit for each dimension
    int bits = 0;
    for (int d = 0; d < static_cast<int>(sizeof...(Sizes)); ++d)
      bits |= (masked[d] ? 1 << d : 0) | (centred[d] ? 8 << d : 0);
    return bits;
  }
  /// The points that the first window lacks.
  index_t before(int d, index_t n) const {
    return centred[d] ? (size(d) - n % size(d)) % size(d) / 2 : 0;
  }
  index_t turn(int d, index_t n) const { return n > 0 ? (shift[d] % n + n) % n : 0; }
  void require_extent(int, index_t) const {}
  bool moves(int d, const Partition& p) const {
    return turn(d, p.size()) != 0 || !impl::fits_windows(p, size(d), before(d, p.size()));
  }
  Partition home(int d, const Partition& p) const {
    return impl::window_partition(p, size(d), turn(d, p.size()), before(d, p.size()));
  }
  impl::Reindexing reindexing(int d, const Partition& to) const {
    const int s = static_cast<int>(turn(d, to.size()));
    return {-s, s, {BoundaryKind::periodic}, {BoundaryKind::periodic}};
  }
  impl::TokenDim tokens(int d, index_t extent, index_t begin, index_t n) const {
    const index_t lacks = begin == 0 && extent > 0 ? before(d, n) : 0;
    impl::TokenDim t{(extent + lacks + size(d) - 1) / size(d), size(d), size(d), 1, extent};
    t.before = lacks;
    if (turn(d, n) == 0) return t;
    if (masked[d]) t.first_apart = n - turn(d, n) - begin;
    if (centred[d]) t.second_apart = n - size(d) - begin;
    return t;
  }
};

/// Attention within groups of points spread over the domain ("long" or grid attention): with N
/// points along a dimension and `Sizes` tokens in a group, group j is {j, j + N / Sizes, j + 2 N /
/// Sizes, ...}, for any shards. Everything else as WindowAttention.
///
/// `Sizes` divide the extents (else ArgumentError). Local if no dimension is sharded; else q, k and
/// v are redistributed so that each group is on one rank, with one message for each pair of ranks,
/// and y back.
template <int... Sizes>
struct GridAttention
    : impl::GroupedAttention<GridAttention<Sizes...>, static_cast<int>(sizeof...(Sizes))> {
  static_assert(sizeof...(Sizes) >= 1 && sizeof...(Sizes) <= 3 && ((Sizes >= 1) && ...),
                "a GridAttention has one to three positive sizes");
  /// Tokens of a group along each dimension.
  static constexpr std::array<index_t, sizeof...(Sizes)> sizes{Sizes...};

  index_t heads     = 1;    ///< number of heads: equal ranges of channels
  double scale      = 0.0;  ///< of the scores; 0: 1 / sqrt(features of a head)
  index_t key_heads = 0;    ///< heads of keys and values; 0: as many as of queries

 private:
  friend impl::GroupedAttention<GridAttention, static_cast<int>(sizeof...(Sizes))>;
  static constexpr const char* name = "GridAttention";

  static constexpr double masks() { return 0.0; }

  static constexpr index_t size(int d) { return sizes[static_cast<std::size_t>(d)]; }
  void require_extent(int d, index_t n) const {
    if (n % size(d) != 0)
      impl::throw_argument(name, {"dimension ", impl::text(d), " in space has ", impl::text(n),
                                  " cells, which aren't a multiple of the ", impl::text(size(d)),
                                  " tokens of a group"});
  }
  bool moves(int, const Partition& p) const { return !impl::is_whole(p); }
  Partition home(int d, const Partition& p) const { return impl::comb_partition(p, size(d)); }
  impl::Reindexing reindexing(int d, const Partition& to) const {
    return {0, 0, {}, {}, impl::comb_ranges(to, size(d))};
  }
  impl::TokenDim tokens(int d, index_t extent, index_t, index_t) const {
    return {extent / size(d), size(d), 1, extent / size(d), extent};
  }
};

}  // namespace shard

#endif
