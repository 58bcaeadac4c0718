// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_ATTENTION_ATTENTION_COLUMN_HPP
#define SHARD_LAYERS_ATTENTION_ATTENTION_COLUMN_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "shard/base/wanted.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/layers/impl/attention_fields.hpp"
#include "shard/layers/impl/attention_kernels.hpp"
#include "shard/layers/impl/kernels.hpp"
#include "shard/layers/impl/layer_checks.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"
#include "shard/redistribute/impl/common_partition.hpp"

namespace shard {

/// Attention along the first spatial dimension, which isn't sharded, at each point of the others:
/// over levels, or from latents to levels (Perceiver, Jaegle et al. 2021; Aurora). Queries may have
/// another number of tokens than keys and values:
///
///   y[i] = sum over j of softmax over j of (scale q[i] . k[j]) v[j]
///
/// q and y are [batch, heads x features, queries, space...], k and v [batch, heads x features,
/// keys, space...] with up to two further dimensions of space, sharded in any way and alike, and
/// channels by whole heads. For `key_heads` see WindowAttention. Local; all results are bitwise the
/// same on every mesh. Without keys (an extent of 0) it throws ArgumentError.
struct ColumnAttention {
  index_t heads     = 1;    ///< number of heads: equal ranges of channels
  double scale      = 0.0;  ///< of the scores; 0: 1 / sqrt(features of a head)
  index_t key_heads = 0;    ///< heads of keys and values; 0: as many as of queries

  using takes_queries_keys_values         = void;                  ///< three inputs
  static constexpr LayerSharding sharding = LayerSharding::local;  ///< sends nothing
  /// All dimensions of space but the first.
  static constexpr bool can_be_sharded(int d) { return d != 0; }

  /// No parameters.
  std::vector<ParameterShape> parameter_shapes() const { return {}; }

  /// The state for fields with q's mesh and partitions; further inputs don't matter. Throws
  /// ArgumentError, on every rank, if heads don't fit.
  template <class Q, class... More>
  auto state(const Q& q, const More&...) const {
    using Moved = impl::OwnedOnlyOf<Q>;
    static_assert(!impl::is_cut_v<Q, 2>,
                  "a ColumnAttention's first spatial dimension is unsharded");
    counts().require(name, q);
    impl::AttentionOutput<Moved> s;
    s.out = impl::placed_anew<Moved>(q.geometry(), q.partitions());
    s.allocate_sums(local_heads(q));
    return s;
  }

  /// Computes y's owned points. Throws ArgumentError, on every rank, if fields don't fit.
  template <class Space, class S, class Y, class Q, class K, class V>
  void apply(const Space& space, S& state, const Y& y, const Q& q, const K& k, const V& v) const {
    require(q, k, v, y);
    using T = typename Y::non_const_value_type;
    impl::AttentionKernels<Space, T>::attend(
        space, impl::owned_block(impl::local(state.out)), state.sums.data(), impl::owned_input(q),
        impl::owned_input(k), impl::owned_input(v), shape(q, k), {}, true, true);
    impl::PointwiseKernels<Space, T>::copy(space, impl::owned_block(impl::local(y)),
                                           impl::owned_input(state.out));
    mark_written(space, y);
  }

  /// ty = the tangent of y for tq, tk and tv, each of which may be `not_wanted` (zero). q, k, v and
  /// the state must be unchanged since apply.
  template <class Space, class S, class TY, class TQ, class TK, class TV, class Q, class K, class V>
  void pushforward(const Space& space, S& state, const TY& ty, const TQ& tq, const TK& tk,
                   const TV& tv, const Q& q, const K& k, const V& v) const {
    require(q, k, v, ty, tk, tv);
    using T                                = typename TY::non_const_value_type;
    const impl::Block<const T> tangents[3] = {
        impl::tangent_block<T>(tq), impl::tangent_block<T>(tk), impl::tangent_block<T>(tv)};
    impl::AttentionKernels<Space, T>::tangent(
        space, impl::owned_block(impl::local(ty)), state.sums.data(), impl::owned_input(state.out),
        {impl::owned_input(q), impl::owned_input(k), impl::owned_input(v)}, tangents, shape(q, k),
        {}, {}, true, true);
    mark_written(space, ty);
  }

  /// Sets dq, dk and dv from dy = dJ/dy; each may be `not_wanted`. q, k, v and the state must be
  /// unchanged since apply.
  template <class Space, class S, class DQ, class DK, class DV, class DY, class Q, class K, class V>
  void pullback(const Space& space, S& state, const DQ& dq, const DK& dk, const DV& dv,
                const DY& dy, const Q& q, const K& k, const V& v) const {
    if constexpr (is_wanted_v<DQ> || is_wanted_v<DK> || is_wanted_v<DV>) {
      require(q, k, v, dy, dk, dv);
      using T                           = typename DY::non_const_value_type;
      using Kernels                     = impl::AttentionKernels<Space, T>;
      const auto a                      = shape(q, k);
      const impl::Block<const T> of_y   = impl::owned_input(dy);
      const impl::Block<const T> qkv[3] = {impl::owned_input(q), impl::owned_input(k),
                                           impl::owned_input(v)};
      impl::Block<T> to_q, to_k, to_v;
      if constexpr (is_wanted_v<DQ>) to_q = impl::owned_block(impl::local(dq));
      if constexpr (is_wanted_v<DK>) to_k = impl::owned_block(impl::local(dk));
      if constexpr (is_wanted_v<DV>) to_v = impl::owned_block(impl::local(dv));
      Kernels::products(space, state.sums.data(), of_y, impl::owned_input(state.out), a);
      Kernels::pullback(space, to_q, to_k, to_v, {}, state.sums.data(), of_y, qkv, a, {});
    }
  }

 private:
  static constexpr const char* name = "ColumnAttention";
  impl::HeadCounts counts() const { return {heads, key_heads}; }

  template <class Q>
  index_t local_heads(const Q& q) const {
    return q.extent(1) / (q.global_extent(1) / heads);
  }
  template <class Q, class K>
  impl::AttentionShape shape(const Q& q, const K& k) const {
    impl::AttentionShape a;
    a.heads         = local_heads(q);
    a.heads_per_key = counts().per_key();
    a.scale =
        scale > 0.0 ? scale : 1.0 / std::sqrt(static_cast<double>(q.global_extent(1) / heads));
    for (int d = 3; d < Q::rank; ++d)
      a.queries.dims[d + 3 - Q::rank] = {q.extent(d), 1, 1, 1, q.extent(d)};
    constexpr int column   = 5 - Q::rank;
    a.keys                 = a.queries;
    a.queries.dims[column] = {1, q.extent(2), 0, 1, q.extent(2)};
    a.keys.dims[column]    = {1, k.extent(2), 0, 1, k.extent(2)};
    return a;
  }
  template <class Q, class K, class V, class Y, class... More>
  void require(const Q& q, const K& k, const V& v, const Y& y, const More&... more) const {
    const auto same = [&](const auto& a, const auto& b, int first) {
      impl::require_same_rank_and_value<std::remove_cvref_t<decltype(a)>,
                                        std::remove_cvref_t<decltype(b)>>();
      impl::require_same_cut(name, a.geometry(), b.geometry());
      for (int d = 0; d < Q::rank; ++d)
        if (d == 0 || d >= first)
          impl::require_same_partition(name, b.label(), d, b.partition(d), a.partition(d));
    };
    same(q, y, 2);
    same(q, k, 3);
    same(k, v, 2);
    counts().require_channels(name, q, y, k, v, more...);
    if (k.global_extent(2) == 0)
      impl::throw_argument(name, {"field \"", k.label(),
                                  "\" has no keys: its first dimension in "
                                  "space has extent 0"});
  }
};

}  // namespace shard

#endif
