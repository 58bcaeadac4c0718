// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <cmath>
#include <vector>

#include "attention_items.hpp"
#include "attend_back_groups.hpp"
#include "attend_back_tiles.hpp"
#include "attend_bias_tiles.hpp"
#include "attend_tiles.hpp"
#include "device_attend.hpp"
#include "device_attend_back.hpp"
#include "launch.hpp"
#include "shard/base/error.hpp"
#include "shard/layers/impl/attention_kernels.hpp"
#include "shard/layers/impl/layer_checks.hpp"

namespace shard::impl {

template <class T>
struct AttendKernel {
  AttentionItem<T> all;
  Block<T> out;
  double* sums;
  Block<const T> q, k, v;
  bool first, last;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto w           = all.who(all.shape.queries, all.shape.heads, item);
    const TokenPlace query = place_of(all.shape.queries, w.group, w.token);
    if (!query.there) return;
    const auto mine      = all.features_of(q, w.n, w.h, query);
    const auto to        = all.features_of(out, w.n, w.h, query);
    const index_t slot   = all.number(w.n, w.h, query);
    const index_t of_key = all.key_head(w.h);
    double largest       = first ? -Kokkos::Experimental::infinity_v<double> : sums[slot];
    double sum           = first ? 0.0 : sums[slot + all.numbers];
    const auto bias      = all.bias.row(w.h, w.group, w.token);
    if (first)
      for (index_t i = 0; i < all.features; ++i) to[i] = T(0);
    for (index_t j = 0; j < all.shape.keys.tokens(); ++j) {
      const TokenPlace key = place_of(all.shape.keys, w.group, j);
      if (!all.sees(query, key)) continue;
      const double score =
          all.shape.scale * all.product(mine, all.features_of(k, w.n, of_key, key)) +
          all.bias_at(bias, key);
      if (score == -Kokkos::Experimental::infinity_v<double>) continue;
      if (score > largest) {
        const double less = Kokkos::exp(largest - score);
        for (index_t i = 0; i < all.features; ++i)
          to[i] = static_cast<T>(less * static_cast<double>(to[i]));
        sum *= less;
        largest = score;
      }
      const double p = Kokkos::exp(score - largest);
      sum += p;
      all.add(to, p, all.features_of(v, w.n, of_key, key));
    }
    if (last) {
      for (index_t i = 0; i < all.features; ++i)
        to[i] = sum == 0.0 ? T(0) : static_cast<T>(static_cast<double>(to[i]) / sum);
      sums[slot] = all.logarithm(largest, sum);
    } else {
      sums[slot]               = largest;
      sums[slot + all.numbers] = sum;
    }
  }
};

template <class T>
struct AttendTangentKernel {
  AttentionItem<T> all;
  Block<T> ty;
  double* sums;
  Block<const T> out, q, k, v, tq, tk, tv;
  ScoreBias<const T> bias_tangent;
  bool first, last;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto w           = all.who(all.shape.queries, all.shape.heads, item);
    const TokenPlace query = place_of(all.shape.queries, w.group, w.token);
    if (!query.there) return;
    const auto mine      = all.features_of(q, w.n, w.h, query),
               moves     = all.features_of(tq, w.n, w.h, query);
    const auto to        = all.features_of(ty, w.n, w.h, query);
    const index_t slot   = all.number(w.n, w.h, query);
    const index_t of_key = all.key_head(w.h);
    double mean          = first ? 0.0 : sums[slot + all.numbers];
    const auto bias      = all.bias.row(w.h, w.group, w.token);
    const auto grows     = bias_tangent.row(w.h, w.group, w.token);
    if (first)
      for (index_t i = 0; i < all.features; ++i) to[i] = T(0);
    for (index_t j = 0; j < all.shape.keys.tokens(); ++j) {
      const TokenPlace key = place_of(all.shape.keys, w.group, j);
      if (!all.sees(query, key)) continue;
      const auto near = all.features_of(k, w.n, of_key, key),
                 far  = all.features_of(tk, w.n, of_key, key);
      const double p  = Kokkos::exp(all.shape.scale * all.product(mine, near) +
                                    all.bias_at(bias, key) - sums[slot]);
      double score    = 0.0;
      if (moves.values != nullptr) score += all.product(moves, near);
      if (far.values != nullptr) score += all.product(mine, far);
      const double share = p * (all.shape.scale * score + all.bias_at(grows, key));
      mean += share;
      all.add(to, share, all.features_of(v, w.n, of_key, key));
      const auto values = all.features_of(tv, w.n, of_key, key);
      if (values.values != nullptr) all.add(to, p, values);
    }
    if (last) all.add(to, -mean, all.features_of(out, w.n, w.h, query));
    sums[slot + all.numbers] = mean;
  }
};

template <class T>
struct AttendProductsKernel {
  AttentionItem<T> all;
  double* sums;
  Block<const T> dy, out;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto w           = all.who(all.shape.queries, all.shape.heads, item);
    const TokenPlace query = place_of(all.shape.queries, w.group, w.token);
    if (!query.there) return;
    sums[all.number(w.n, w.h, query) + all.numbers] =
        all.product(all.features_of(dy, w.n, w.h, query), all.features_of(out, w.n, w.h, query));
  }
};

template <class T>
struct AttendQueriesKernel {
  AttentionItem<T> all;
  Block<T> dq;
  const double* sums;
  Block<const T> dy, q, k, v;
  bool first;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto w           = all.who(all.shape.queries, all.shape.heads, item);
    const TokenPlace query = place_of(all.shape.queries, w.group, w.token);
    if (!query.there) return;
    const auto mine      = all.features_of(q, w.n, w.h, query);
    const auto outer     = all.features_of(dy, w.n, w.h, query);
    const auto to        = all.features_of(dq, w.n, w.h, query);
    const index_t slot   = all.number(w.n, w.h, query);
    const index_t of_key = all.key_head(w.h);
    const auto bias      = all.bias.row(w.h, w.group, w.token);
    if (first)
      for (index_t i = 0; i < all.features; ++i) to[i] = T(0);
    for (index_t j = 0; j < all.shape.keys.tokens(); ++j) {
      const TokenPlace key = place_of(all.shape.keys, w.group, j);
      if (!all.sees(query, key)) continue;
      const auto near = all.features_of(k, w.n, of_key, key);
      const double p  = Kokkos::exp(all.shape.scale * all.product(mine, near) +
                                    all.bias_at(bias, key) - sums[slot]);
      const double dp = all.product(outer, all.features_of(v, w.n, of_key, key));
      all.add(to, all.shape.scale * p * (dp - sums[slot + all.numbers]), near);
    }
  }
};

template <class T>
struct AttendKeysKernel {
  AttentionItem<T> all;
  Block<T> dk, dv;
  const double* sums;
  Block<const T> dy, q, k, v;
  bool first;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto w         = all.who(all.shape.keys, all.shape.key_heads(), item);
    const TokenPlace key = place_of(all.shape.keys, w.group, w.token);
    if (!key.there) return;
    const auto mine   = all.features_of(k, w.n, w.h, key);
    const auto values = all.features_of(v, w.n, w.h, key);
    const auto to_k = all.features_of(dk, w.n, w.h, key), to_v = all.features_of(dv, w.n, w.h, key);
    if (first)
      for (index_t i = 0; i < all.features; ++i) {
        if (to_k.values != nullptr) to_k[i] = T(0);
        if (to_v.values != nullptr) to_v[i] = T(0);
      }
    const index_t shared = all.shape.heads_per_key;
    for (index_t h = w.h * shared; h < (w.h + 1) * shared; ++h)
      for (index_t j = 0; j < all.shape.queries.tokens(); ++j) {
        const TokenPlace query = place_of(all.shape.queries, w.group, j);
        if (!query.there || !all.sees(query, key)) continue;
        const auto asks    = all.features_of(q, w.n, h, query);
        const auto outer   = all.features_of(dy, w.n, h, query);
        const index_t slot = all.number(w.n, h, query);
        const double p     = Kokkos::exp(all.shape.scale * all.product(asks, mine) +
                                         all.bias_at(all.bias.row(h, w.group, j), key) - sums[slot]);
        if (to_v.values != nullptr) all.add(to_v, p, outer);
        if (to_k.values != nullptr)
          all.add(to_k,
                  all.shape.scale * p * (all.product(outer, values) - sums[slot + all.numbers]),
                  asks);
      }
  }
};

/// Sums of the gradients of one pair's scores over a chunk.
template <class T>
struct AttendBiasKernel {
  AttentionItem<T> all;
  BiasSums<T> to;
  const double* sums;
  Block<const T> dy, q, k, v;

  index_t items() const {
    const index_t groups = all.shape.queries.groups();
    return to.chunks * ((groups + to.of_a_type - 1) / to.of_a_type) * all.shape.heads *
           to.per_tokens * to.per_tokens;
  }
  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t groups = all.shape.queries.groups(),
                  types  = (groups + to.of_a_type - 1) / to.of_a_type;
    index_t rest         = item;
    const index_t j      = rest % to.per_tokens;
    rest /= to.per_tokens;
    const index_t i = rest % to.per_tokens;
    rest /= to.per_tokens;
    const index_t h = rest % all.shape.heads;
    rest /= all.shape.heads;
    const index_t type = rest % types, chunk = rest / types, all_groups = all.batch * to.of_a_type;
    double sum = 0.0;
    for (index_t m = chunk * all_groups / to.chunks; m < (chunk + 1) * all_groups / to.chunks;
         ++m) {
      const index_t n = m / to.of_a_type, group = type * to.of_a_type + m % to.of_a_type;
      if (group >= groups) continue;
      const TokenPlace query = place_of(all.shape.queries, group, i),
                       key   = place_of(all.shape.keys, group, j);
      if (!query.there || !all.sees(query, key)) continue;
      const index_t slot = all.number(n, h, query);
      const double score =
          all.shape.scale * all.product(all.features_of(q, n, h, query),
                                        all.features_of(k, n, all.key_head(h), key)) +
          all.bias_at(all.bias.row(h, group, i), key);
      const double dp = all.product(all.features_of(dy, n, h, query),
                                    all.features_of(v, n, all.key_head(h), key));
      sum += Kokkos::exp(score - sums[slot]) * (dp - sums[slot + all.numbers]);
    }
    to.values[item] = static_cast<T>(sum);
  }
};

template <class Space, class T>
void AttentionKernels<Space, T>::attend(const Space& space, const Block<T>& out, double* sums,
                                        const Block<const T>& q, const Block<const T>& k,
                                        const Block<const T>& v, const AttentionShape& shape,
                                        const ScoreBias<const T>& bias, bool first, bool last) {
  const auto all = attention_item(shape, bias, q);
  if constexpr (is_host_v<Space>) {
    const AttendTiles<T> tiles{
        {all, shape.queries, shape.keys, shape.heads}, out, sums, q, k, v, first, last};
    if (tiles.fits()) return launch("shard::attend", space, tiles.items(), tiles);
  } else if (device_attend(space, all, out, sums, q, k, v, first, last)) {
    return;
  }
  launch("shard::attend", space, all.items(shape.queries, shape.heads),
         AttendKernel<T>{all, out, sums, q, k, v, first, last});
}

template <class Space, class T>
void AttentionKernels<Space, T>::tangent(const Space& space, const Block<T>& ty, double* sums,
                                         const Block<const T>& out, const Block<const T> (&qkv)[3],
                                         const Block<const T> (&tangents)[3],
                                         const AttentionShape& shape,
                                         const ScoreBias<const T>& bias,
                                         const ScoreBias<const T>& bias_tangent, bool first,
                                         bool last) {
  const auto all = attention_item(shape, bias, qkv[0]);
  launch("shard::attend_tangent", space, all.items(shape.queries, shape.heads),
         AttendTangentKernel<T>{all, ty, sums, out, qkv[0], qkv[1], qkv[2], tangents[0],
                                tangents[1], tangents[2], bias_tangent, first, last});
}

template <class Space, class T>
void AttentionKernels<Space, T>::products(const Space& space, double* sums,
                                          const Block<const T>& dy, const Block<const T>& out,
                                          const AttentionShape& shape) {
  const auto all = attention_item(shape, {}, out);
  if constexpr (is_host_v<Space>) {
    const AttendProductsRows<T> rows{all, sums, dy, out};
    return launch("shard::attend_products", space, rows.items(), rows);
  }
  launch("shard::attend_products", space, all.items(shape.queries, shape.heads),
         AttendProductsKernel<T>{all, sums, dy, out});
}

template <class Space, class T>
void AttentionKernels<Space, T>::pullback(const Space& space, const Block<T>& dq,
                                          const Block<T>& dk, const Block<T>& dv,
                                          const BiasSums<T>& bias_sums, const double* sums,
                                          const Block<const T>& dy, const Block<const T> (&qkv)[3],
                                          const AttentionShape& shape,
                                          const ScoreBias<const T>& bias) {
  const bool of_queries = dq.origin != nullptr || bias_sums.values != nullptr,
             of_keys    = dk.origin != nullptr || dv.origin != nullptr;
  if constexpr (is_host_v<Space>)
    if (of_queries && of_keys) {
      const auto all = attention_item(shape, bias, qkv[0]);
      const AttendBackGroups<T> groups{{all, shape.queries, shape.keys, shape.key_heads()},
                                       dq,
                                       dk,
                                       dv,
                                       sums,
                                       dy,
                                       qkv[0],
                                       qkv[1],
                                       qkv[2]};
      if (groups.fits()) {
        if (bias_sums.values == nullptr)
          return launch("shard::attend_back", space, groups.items(), groups);
        const AttendBiasTiles<T, AttendBackGroups<T>> both{groups, bias_sums};
        return launch("shard::attend_back", space, both.items(), both);
      }
    }
  if (of_queries) pullback_queries(space, dq, bias_sums, sums, dy, qkv, shape, bias, true);
  if (of_keys) pullback_keys(space, dk, dv, sums, dy, qkv, shape, bias, true);
}

template <class Space, class T>
void AttentionKernels<Space, T>::pullback_queries(const Space& space, const Block<T>& dq,
                                                  const BiasSums<T>& bias_sums, const double* sums,
                                                  const Block<const T>& dy,
                                                  const Block<const T> (&qkv)[3],
                                                  const AttentionShape& shape,
                                                  const ScoreBias<const T>& bias, bool first) {
  const auto all = attention_item(shape, bias, qkv[0]);
  if constexpr (is_host_v<Space>) {
    const AttendBackTiles<T, false> tiles{{all, shape.queries, shape.keys, shape.heads},
                                          dq,
                                          {},
                                          sums,
                                          dy,
                                          qkv[0],
                                          qkv[1],
                                          qkv[2],
                                          first};
    if (tiles.fits()) {
      if (bias_sums.values == nullptr)
        return launch("shard::attend_queries", space, tiles.items(), tiles);
      const AttendBiasTiles<T, AttendBackTiles<T, false>> both{tiles, bias_sums};
      return launch("shard::attend_queries", space, both.items(), both);
    }
  }
  if (bias_sums.values != nullptr) {
    const AttendBiasKernel<T> pairs{all, bias_sums, sums, dy, qkv[0], qkv[1], qkv[2]};
    launch("shard::attend_bias", space, pairs.items(), pairs);
  }
  if (dq.origin == nullptr) return;
  if constexpr (!is_host_v<Space>)
    if (device_attend_back<false>(space, all, dq, Block<T>(), sums, dy, qkv, first)) return;
  launch("shard::attend_queries", space, all.items(shape.queries, shape.heads),
         AttendQueriesKernel<T>{all, dq, sums, dy, qkv[0], qkv[1], qkv[2], first});
}

template <class Space, class T>
void AttentionKernels<Space, T>::pullback_keys(const Space& space, const Block<T>& dk,
                                               const Block<T>& dv, const double* sums,
                                               const Block<const T>& dy,
                                               const Block<const T> (&qkv)[3],
                                               const AttentionShape& shape,
                                               const ScoreBias<const T>& bias, bool first) {
  const auto all = attention_item(shape, bias, qkv[0]);
  if constexpr (is_host_v<Space>) {
    const AttendBackTiles<T, true> tiles{{all, shape.keys, shape.queries, shape.key_heads()},
                                         dk,
                                         dv,
                                         sums,
                                         dy,
                                         qkv[0],
                                         qkv[1],
                                         qkv[2],
                                         first};
    if (tiles.fits()) return launch("shard::attend_keys", space, tiles.items(), tiles);
  } else if (device_attend_back<true>(space, all, dk, dv, sums, dy, qkv, first)) {
    return;
  }
  launch("shard::attend_keys", space, all.items(shape.keys, shape.key_heads()),
         AttendKeysKernel<T>{all, dk, dv, sums, dy, qkv[0], qkv[1], qkv[2], first});
}

SHARD_KERNELS(AttentionKernels)

bool fits_windows(const Partition& cells, index_t w, index_t before) {
  for (int r = 1; r < cells.parts(); ++r) {
    const index_t begin = cells.begin(r);
    if (begin != 0 && (begin + before) % w != 0 && begin != cells.size()) return false;
  }
  return true;
}

Partition window_partition(const Partition& cells, index_t w, index_t shift, index_t before) {
  std::vector<index_t> begins(static_cast<std::size_t>(cells.parts()) + 1, cells.size());
  for (int r = 0; r < cells.parts(); ++r)
    begins[static_cast<std::size_t>(r)] =
        r == 0
            ? 0
            : std::clamp<index_t>(
                  (std::max<index_t>(cells.begin(r) - shift, 0) + before + w / 2) / w * w - before,
                  0, cells.size());
  return Partition::explicit_begins(std::move(begins));
}

Partition comb_partition(const Partition& cells, index_t w) {
  std::vector<index_t> begins(static_cast<std::size_t>(cells.parts()) + 1, cells.size());
  for (int r = 0; r < cells.parts(); ++r)
    begins[static_cast<std::size_t>(r)] = cells.begin(r) - cells.begin(r) % w;
  return Partition::explicit_begins(std::move(begins));
}

std::shared_ptr<const SourceRanges> comb_ranges(const Partition& groups, index_t w) {
  std::vector<SourceRange> ranges;
  for (int r = 0; r < groups.parts(); ++r) {
    const index_t begin = groups.begin(r), count = groups.count(r) / w;
    for (index_t tooth = 0; tooth < w && count > 0; ++tooth)
      ranges.push_back({begin + tooth * count, tooth * (groups.size() / w) + begin / w, count});
  }
  return std::make_shared<SourceRanges>(std::move(ranges));
}

bool is_whole(const Partition& cells) {
  for (int r = 0; r < cells.parts(); ++r)
    if (cells.count(r) == cells.size()) return true;
  return false;
}

void require_heads(const char* function, const char* field, const Partition& channels,
                   index_t heads) {
  if (heads < 1 || channels.size() % heads != 0 || channels.size() == 0)
    throw_argument(function, {"field \"", field, "\" has ", text(channels.size()),
                              " channels, which can't be divided into ", text(heads), " heads"});
  if (!fits_windows(channels, channels.size() / heads, 0))
    throw_argument(function, {"field \"", field, "\" has its channels cut as ", channels.describe(),
                              ", within heads of ", text(channels.size() / heads)});
}

void require_grouped_heads(const char* function, const char* field, const Partition& channels,
                           index_t heads, index_t key_heads) {
  require_heads(function, field, channels, heads);
  if (key_heads < 0 || (key_heads > 0 && heads % key_heads != 0))
    throw_argument(function, {"the field \"", field, "\" has ", text(heads),
                              " heads of queries, which aren't a multiple of the ", text(key_heads),
                              " heads of keys"});
  const index_t together = channels.size() / heads * heads_per_key(heads, key_heads);
  if (!fits_windows(channels, together, 0))
    throw_argument(function,
                   {"field \"", field, "\" has its channels cut as ", channels.describe(),
                    ", within the ", text(together), " channels that share a head of keys"});
}

Partition key_channels(const Partition& channels, index_t heads, index_t key_heads) {
  const index_t features = channels.size() / heads, shared = heads_per_key(heads, key_heads);
  return shared == 1 ? channels : regrouped(channels, shared * features, features);
}

}  // namespace shard::impl
