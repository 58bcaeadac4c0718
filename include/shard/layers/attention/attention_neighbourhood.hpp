// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_ATTENTION_ATTENTION_NEIGHBOURHOOD_HPP
#define SHARD_LAYERS_ATTENTION_ATTENTION_NEIGHBOURHOOD_HPP

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/base/impl/same_options.hpp"
#include "shard/base/wanted.hpp"
#include "shard/exchange/exchange.hpp"
#include "shard/exchange/exchange_tangent.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/layers/attention/attention_bias.hpp"
#include "shard/layers/impl/attention_fields.hpp"
#include "shard/layers/impl/neighbourhood_kernels.hpp"
#include "shard/layers/impl/window_checks.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"
#include "shard/layers/window/window_options.hpp"

namespace shard {

/// Attention of each point to the points around it (Hassani et al. 2023, NATTEN):
/// `NeighbourhoodAttention<Kernel<7, 7>>{.heads = 4}`.
///
///   y[i] = sum over j in i's window of softmax over j of (scale q[i] . k[j]) v[j]
///
/// The window has as many points as the kernel, an odd number in each dimension. It is centred at
/// i; near an end of the domain it is shifted inwards, so that it has all of its points. In a
/// dimension whose boundary is Periodic it wraps round instead. With a Dilation d the points of a
/// window are d apart, and windows are shifted within the points i, i + d, i + 2d, ... of the
/// domain.
///
/// Options: Dilation; PaddingMode of Zero (windows end at the domain's ends) and Periodic, which
/// checks the fields' boundary, and which models need for Periodic. Fields are [batch, heads x
/// features, space...]; space, batch and channels (by whole heads) may be sharded. k and v (and
/// their tangents and gradients) have halos. Half a window on each side is enough for Periodic, and
/// where each shard at an end of the domain has more than half a window; required_halo_t, a window
/// less one point, for all partitions. One message per neighbour brings both, and brings both
/// gradients back. The output and q's gradient are bitwise the same on every mesh.
template <class KernelSize, class... Options>
struct NeighbourhoodAttention {
  static constexpr int dims = impl::KernelDims<KernelSize>::value;  ///< spatial dimensions

  index_t heads     = 1;    ///< number of heads: equal ranges of channels
  double scale      = 0.0;  ///< of the scores; 0: 1 / sqrt(features of a head)
  index_t key_heads = 0;    ///< heads of keys and values, see WindowAttention; 0: as many

  using takes_queries_keys_values          = void;                   ///< three inputs
  static constexpr LayerSharding sharding  = LayerSharding::window;  ///< a halo of k and v
  static constexpr bool transposed         = false;                  ///< not a transposed window
  static constexpr bool zero_needs_no_halo = true;  ///< windows don't leave the domain

  /// The padding mode among the options, void if none is given.
  using padding_mode = typename impl::FindMode<Options...>::type;
  /// Its boundary in spatial dimension `D`; Zero without one.
  template <int D>
  using boundary = typename impl::BoundaryOf<padding_mode, D, dims>::type;

  /// The window of spatial dimension `d`, away from the ends of the domain.
  static constexpr Window window(int d) {
    Window w     = windows[static_cast<std::size_t>(d)];
    w.padding_lo = w.padding_hi = w.reach() / 2;
    return w;
  }
  /// The output has the input's extents.
  static constexpr index_t output_extent(int, index_t n) { return n; }
  /// The widest halo over all partitions (see required_halo_t).
  static constexpr LowHigh halo_bound(int d) {
    const int widest = window(d).reach() / (is_periodic_mode(d) ? 2 : 1);
    return {widest, widest};
  }
  /// That of shards with more than half a window.
  static constexpr LowHigh aligned_halo_bound(int d) {
    return {window(d).padding_lo, window(d).padding_hi};
  }
  /// The halo in an unsharded dimension (see unsharded_halo_t).
  static constexpr LowHigh unsharded_halo_bound(int d) {
    return is_periodic_mode(d) ? aligned_halo_bound(d) : LowHigh{0, 0};
  }

  /// No parameters.
  std::vector<ParameterShape> parameter_shapes() const { return {}; }

  /// Collective over the mesh: the state for fields with q's mesh and partitions. Throws
  /// ArgumentError, on every rank, if heads don't fit.
  template <class Q, class... More>
  auto state(const Q& q, const More&...) const {
    using Moved = impl::OwnedOnlyOf<Q>;
    static_assert(Q::rank == dims + 2,
                  "the layer's field is [batch, channel, one dimension for each of the kernel's]");
    impl::require_same_options(q.communicator(), name,
                               {{"heads", heads}, {"key_heads", key_heads}, {"scale", scale}});
    counts().require(name, q);
    impl::AttentionOutput<Moved> s;
    s.out = impl::placed_anew<Moved>(q.geometry(), q.partitions());
    s.allocate_sums(local_heads(q));
    return s;
  }

  /// Fills the halos of k and v, then computes y's owned points. All fields have the same
  /// partitions, k and v with the channels of their heads. Throws ArgumentError, on every rank
  /// before any message, if fields don't fit.
  template <class Space, class S, class Y, class Q, class K, class V>
  void apply(const Space& space, S& state, const Y& y, const Q& q, const K& k, const V& v) const {
    apply_biased(space, state, no_bias<Y>(), y, q, k, v);
  }

  /// ty = the tangent of y for tq, tk and tv, each of which may be `not_wanted` (zero). Fills the
  /// halos of tk and tv. q, k, v, their halos and the state must be unchanged since apply.
  template <class Space, class S, class TY, class TQ, class TK, class TV, class Q, class K, class V>
  void pushforward(const Space& space, S& state, const TY& ty, const TQ& tq, const TK& tk,
                   const TV& tv, const Q& q, const K& k, const V& v) const {
    pushforward_biased(space, state, no_bias<TY>(), no_bias<TY>(), ty, tq, tk, tv, q, k, v);
  }

  /// Sets dq, dk and dv from dy = dJ/dy, and adds the halos of dk and dv to their owners; then
  /// these are zero. Each may be `not_wanted`. q, k, v, their halos and the state must be unchanged
  /// since apply.
  template <class Space, class S, class DQ, class DK, class DV, class DY, class Q, class K, class V>
  void pullback(const Space& space, S& state, const DQ& dq, const DK& dk, const DV& dv,
                const DY& dy, const Q& q, const K& k, const V& v) const {
    pullback_biased(space, state, no_bias<DY>(), nullptr, dq, dk, dv, dy, q, k, v);
  }

 private:
  template <class Attention, class Bias>
  friend struct Biased;
  static constexpr const char* name = "NeighbourhoodAttention";
  static constexpr auto windows     = impl::make_windows<dims, KernelSize, Options...>();
  static_assert(
      [] {
        for (const Window& w : windows)
          if (w.stride != 1 || w.padding_lo + w.padding_hi > 0 || w.kernel % 2 == 0) return false;
        return true;
      }(),
      "a NeighbourhoodAttention has an odd kernel, and the options Dilation and "
      "PaddingMode");

  static constexpr bool is_periodic_mode(int d) {
    return [d]<int... D>(std::integer_sequence<int, D...>) {
      return ((D == d && std::is_same_v<boundary<D>, Periodic>) || ...);
    }
    (std::make_integer_sequence<int, dims>{});
  }
  impl::HeadCounts counts() const { return {heads, key_heads}; }
  template <class Field>
  static const typename Field::non_const_value_type* no_bias() {
    return nullptr;
  }
  template <class Q>
  index_t local_heads(const Q& q) const {
    return q.extent(1) / (q.global_extent(1) / heads);
  }

  /// The global points that those of `outputs` see. The context is a NeighbourhoodDim of all
  /// points.
  static IndexRange reads(const void* context, IndexRange outputs) {
    const auto& d = *static_cast<const impl::NeighbourhoodDim*>(context);
    if (outputs.empty()) return {0, 0};
    IndexRange seen{d.extent, -d.extent};
    const auto see = [&](index_t i) {
      const index_t first = i + d.first_step(i) * d.dilation;
      seen                = {std::min(seen.begin, first),
                             std::max(seen.end, first + (d.kernel - 1) * d.dilation + 1)};
    };
    // each class of points modulo the dilation is in order
    for (index_t i = outputs.begin; i < std::min(outputs.end, outputs.begin + d.dilation); ++i)
      see(i);
    for (index_t i = std::max(outputs.begin, outputs.end - d.dilation); i < outputs.end; ++i)
      see(i);
    return seen;
  }

  /// The neighbourhoods along spatial dimension D of a field of keys, for all points.
  template <int D, class K>
  static impl::NeighbourhoodDim dim_of(const K& k) {
    using Boundary          = typename K::template boundary<D + 2>;
    constexpr bool periodic = std::is_same_v<Boundary, Periodic>;
    static_assert(periodic || std::is_same_v<Boundary, Zero>,
                  "the boundary of a NeighbourhoodAttention's keys and values is Zero (windows end "
                  "at the domain's ends) or Periodic");
    constexpr Window w = window(D);
    using Needed       = std::conditional_t<periodic || impl::is_cut_v<K, D + 2>,
                                      aligned_halo_t<NeighbourhoodAttention, D>, Halo<0>>;
    static_assert(halo_is_wide_enough<NeighbourhoodAttention, Dim<D + 2>, Needs<Needed>,
                                      Has<typename K::template halo<D + 2>>>::value,
                  "the ShardedView's halo is narrower than the layer needs");
    impl::NeighbourhoodDim d;
    d.kernel            = w.kernel;
    d.dilation          = w.dilation;
    d.extent            = k.global_extent(D + 2);
    d.periodic          = periodic;
    const index_t least = periodic ? w.reach() + 1 : w.kernel * w.dilation;
    if (d.extent < least)
      impl::throw_argument(
          name, {"field \"", k.label(), "\" has ", impl::text(d.extent), " cells along dimension ",
                 impl::text(D + 2), ", fewer than the ", impl::text(least), " of a window"});
    impl::require_halo_for(name, k.label(), D + 2, k.partition(D + 2), k.partition(D + 2),
                           K::halo_lo(D + 2), K::halo_hi(D + 2), periodic, reads, &d);
    return d;
  }
  template <class Field>
  static void require_keys(const Field& field) {
    if constexpr (is_wanted_v<Field>) {
      static_assert(
          Field::rank == dims + 2,
          "the layer's field is [batch, channel, one dimension for each of the kernel's]");
      if constexpr (!std::is_void_v<padding_mode>)
        impl::require_padding_modes<NeighbourhoodAttention, Field, false>();
      [&]<int... D>(std::integer_sequence<int, D...>) {
        (static_cast<void>(dim_of<D>(field)), ...);
      }
      (std::make_integer_sequence<int, dims>{});
    }
  }
  /// `more` are fields like k, or not_wanted.
  template <class Q, class K, class V, class Y, class... More>
  void require(const Q& q, const K& k, const V& v, const Y& y, const More&... more) const {
    impl::require_attention(name, counts(), q, k, v, y, more...);
    require_keys(k);
    require_keys(v);
    (require_keys(more), ...);
  }

  template <class Q, class K>
  impl::NeighbourhoodShape shape(const Q& q, const K& k) const {
    impl::NeighbourhoodShape s;
    s.heads         = local_heads(q);
    s.heads_per_key = counts().per_key();
    s.scale =
        scale > 0.0 ? scale : 1.0 / std::sqrt(static_cast<double>(q.global_extent(1) / heads));
    const auto set = [&]<int D>(std::integral_constant<int, D>) {
      impl::NeighbourhoodDim d = dim_of<D>(k);
      const IndexRange seen    = reads(&d, {q.begin(D + 2), q.begin(D + 2) + q.extent(D + 2)});
      d.begin                  = q.begin(D + 2);
      d.owned                  = q.extent(D + 2);
      d.first_key              = d.owned > 0 ? seen.begin - d.begin : 0;
      d.end_key                = d.owned > 0 ? seen.end - d.begin : 0;
      s.dims[D + 3 - dims]     = d;
    };
    [&]<int... D>(std::integer_sequence<int, D...>) {
      (set(std::integral_constant<int, D>{}), ...);
    }
    (std::make_integer_sequence<int, dims>{});
    return s;
  }
  /// The queries as one group, for AttentionKernels.
  template <class Q>
  impl::AttentionShape one_group(const Q& q) const {
    impl::AttentionShape a;
    a.heads = local_heads(q);
    for (int d = 2; d < Q::rank; ++d)
      a.queries.dims[d + 3 - Q::rank] = {1, q.extent(d), 0, 1, q.extent(d)};
    return a;
  }

  template <class... Fields>
  static constexpr bool have_halos() {
    bool any = false;
    for (int d = 2; d < dims + 2; ++d)
      any = any || ((Fields::halo_lo(d) + Fields::halo_hi(d) > 0) || ...);
    return any;
  }
  template <class Space, class K, class V>
  static void fill_halos(const Space& space, const K& k, const V& v) {
    if constexpr (have_halos<K, V>()) {
      if constexpr (std::is_same_v<K, V>)
        if (k.origin() == v.origin()) return exchange(space, k);
      exchange(space, k, v);
    }
  }
  template <class Space, class TK, class TV>
  static void fill_tangents(const Space& space, const TK& tk, const TV& tv) {
    if constexpr (is_wanted_v<TK> && is_wanted_v<TV>)
      fill_halos(space, tk, tv);
    else if constexpr (is_wanted_v<TK>)
      fill_halos(space, tk, tk);
    else if constexpr (is_wanted_v<TV>)
      fill_halos(space, tv, tv);
  }
  template <class Space, class DK, class DV>
  static void add_halos(const Space& space, const DK& dk, const DV& dv) {
    if constexpr (is_wanted_v<DK> && is_wanted_v<DV>) {
      if constexpr (have_halos<DK, DV>()) exchange_adjoint(space, dk, dv);
    } else if constexpr (is_wanted_v<DK>) {
      if constexpr (have_halos<DK>()) exchange_adjoint(space, dk);
    } else if constexpr (is_wanted_v<DV>) {
      if constexpr (have_halos<DV>()) exchange_adjoint(space, dv);
    }
  }
  template <class T, class Field>
  static impl::Block<const T> wanted_input(const Field& field) {
    if constexpr (is_wanted_v<Field>)
      return impl::haloed_input(field);
    else
      return {};
  }
  template <class Space, class T, class Field>
  static impl::Block<T> cleared(const Space& space, const Field& field) {
    if constexpr (is_wanted_v<Field>) {
      const impl::Block<T> block = impl::haloed_block(impl::local(field));
      impl::PaddingKernels<Space, T>::clear(space, block);
      return block;
    } else {
      return {};
    }
  }

  template <class Space, class S, class T, class Y, class Q, class K, class V>
  void apply_biased(const Space& space, S& state, const T* bias, const Y& y, const Q& q, const K& k,
                    const V& v) const {
    require(q, k, v, y);
    fill_halos(space, k, v);
    impl::NeighbourhoodKernels<Space, T>::attend(
        space, impl::owned_block(impl::local(state.out)), state.sums.data(), impl::owned_input(q),
        impl::haloed_input(k), impl::haloed_input(v), shape(q, k), bias);
    impl::PointwiseKernels<Space, T>::copy(space, impl::owned_block(impl::local(y)),
                                           impl::owned_input(state.out));
    mark_written(space, y);
  }
  template <class Space, class S, class T, class TY, class TQ, class TK, class TV, class Q, class K,
            class V>
  void pushforward_biased(const Space& space, S& state, const T* bias, const T* bias_tangent,
                          const TY& ty, const TQ& tq, const TK& tk, const TV& tv, const Q& q,
                          const K& k, const V& v) const {
    require(q, k, v, ty, tk, tv);
    fill_tangents(space, tk, tv);
    const impl::Block<const T> qkv[3]      = {impl::owned_input(q), impl::haloed_input(k),
                                              impl::haloed_input(v)};
    const impl::Block<const T> tangents[3] = {impl::tangent_block<T>(tq), wanted_input<T>(tk),
                                              wanted_input<T>(tv)};
    impl::NeighbourhoodKernels<Space, T>::tangent(space, impl::owned_block(impl::local(ty)),
                                                  state.sums.data(), impl::owned_input(state.out),
                                                  qkv, tangents, shape(q, k), bias, bias_tangent);
    mark_written(space, ty);
  }
  /// `bias_gradient`: null if it isn't wanted.
  template <class Space, class S, class T, class DQ, class DK, class DV, class DY, class Q, class K,
            class V>
  void pullback_biased(const Space& space, S& state, const T* bias,
                       std::type_identity_t<T>* bias_gradient, const DQ& dq, const DK& dk,
                       const DV& dv, const DY& dy, const Q& q, const K& k, const V& v) const {
    constexpr bool keys = is_wanted_v<DK> || is_wanted_v<DV>;
    if (!keys && !is_wanted_v<DQ> && bias_gradient == nullptr) return;
    require(q, k, v, dy, dk, dv);
    using Kernels                     = impl::NeighbourhoodKernels<Space, T>;
    const auto s                      = shape(q, k);
    const impl::Block<const T> of_y   = impl::owned_input(dy);
    const impl::Block<const T> qkv[3] = {impl::owned_input(q), impl::haloed_input(k),
                                         impl::haloed_input(v)};
    impl::AttentionKernels<Space, T>::products(space, state.sums.data(), of_y,
                                               impl::owned_input(state.out), one_group(q));
    if (bias_gradient != nullptr)
      Kernels::pullback_bias(space, bias_gradient, state.sums.data(), of_y, qkv, s, bias);
    if constexpr (is_wanted_v<DQ>)
      Kernels::pullback_queries(space, impl::owned_block(impl::local(dq)), state.sums.data(), of_y,
                                qkv, s, bias);
    if constexpr (keys) {
      Kernels::pullback_keys(space, cleared<Space, T>(space, dk), cleared<Space, T>(space, dv),
                             state.sums.data(), of_y, qkv, s, bias);
      add_halos(space, dk, dv);
    }
  }
};

/// Neighbourhood attention with a learned number for each step from i to j, and each head: the
/// parameter `rpb` [heads, 2 k0 - 1, 2 k1 - 1 ...] of NATTEN. The pair reads the entry (j_d - i_d)
/// / dilation + k_d - 1. Initially uniform with the standard deviation 0.02. Every rank has the
/// parameters of all heads; a gradient is the rank's own part.
template <class KernelSize, class... Options>
struct Biased<NeighbourhoodAttention<KernelSize, Options...>, RelativeBias> {
  /// The attention without the bias.
  using Attention = NeighbourhoodAttention<KernelSize, Options...>;
  Attention attention;  ///< which points attend to which
  RelativeBias bias{};  ///< a number for each step and head

  static constexpr int dims                = Attention::dims;      ///< spatial dimensions
  static constexpr LayerSharding sharding  = Attention::sharding;  ///< the attention's
  static constexpr bool takes_not_wanted   = true;   ///< each gradient may be not_wanted
  static constexpr int inputs              = 3;      ///< queries, keys and values
  static constexpr bool transposed         = false;  ///< not a transposed window
  static constexpr bool zero_needs_no_halo = true;   ///< windows don't leave the domain
  /// See NeighbourhoodAttention.
  template <int D>
  using boundary = typename Attention::template boundary<D>;
  /// See NeighbourhoodAttention.
  static constexpr Window window(int d) { return Attention::window(d); }
  /// See NeighbourhoodAttention.
  static constexpr index_t output_extent(int d, index_t n) {
    return Attention::output_extent(d, n);
  }
  /// See NeighbourhoodAttention.
  static constexpr LowHigh halo_bound(int d) { return Attention::halo_bound(d); }
  /// See NeighbourhoodAttention.
  static constexpr LowHigh aligned_halo_bound(int d) { return Attention::aligned_halo_bound(d); }
  /// See NeighbourhoodAttention.
  static constexpr LowHigh unsharded_halo_bound(int d) {
    return Attention::unsharded_halo_bound(d);
  }

  /// The table.
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = impl::WeightAndBias<T, dims + 1, Memory>;
  /// The table of all heads.
  std::vector<ParameterShape> parameter_shapes() const {
    ParameterShape table{"rpb", {attention.heads}, 0.02 * std::sqrt(3.0)};
    for (int d = 0; d < dims; ++d) table.extents.push_back(2 * window(d).kernel - 1);
    return {table};
  }
  /// The same.
  std::vector<ParameterShape> parameter_shapes(const OwnedChannels&) const {
    return parameter_shapes();
  }

  /// See NeighbourhoodAttention.
  template <class Q, class... More>
  auto state(const Q& q, const More&...) const {
    return attention.state(q);
  }
  /// Fills the halos of k and v, then computes y's owned points.
  template <class Space, class S, class P, class Y, class Q, class K, class V>
  void apply(const Space& space, S& state, const P& parameters, const Y& y, const Q& q, const K& k,
             const V& v) const {
    attention.apply_biased(space, state, of_this_rank(parameters, q), y, q, k, v);
  }
  /// ty = the tangent of y for those of the parameters, q, k and v, each of which may be not_wanted
  /// (zero).
  template <class Space, class S, class P, class TP, class TY, class TQ, class TK, class TV,
            class Q, class K, class V>
  void pushforward(const Space& space, S& state, const P& parameters, const TP& tangents,
                   const TY& ty, const TQ& tq, const TK& tk, const TV& tv, const Q& q, const K& k,
                   const V& v) const {
    attention.pushforward_biased(space, state, of_this_rank(parameters, q),
                                 of_this_rank(tangents, q), ty, tq, tk, tv, q, k, v);
  }
  /// From dy = dJ/dy: adds this rank's part to the parameters' gradients and sets dq, dk and dv.
  /// Each may be not_wanted.
  template <class Space, class S, class P, class G, class DQ, class DK, class DV, class DY, class Q,
            class K, class V>
  void pullback(const Space& space, S& state, const P& parameters, const G& gradients, const DQ& dq,
                const DK& dk, const DV& dv, const DY& dy, const Q& q, const K& k,
                const V& v) const {
    attention.pullback_biased(space, state, of_this_rank(parameters, q), of_this_rank(gradients, q),
                              dq, dk, dv, dy, q, k, v);
  }

 private:
  /// The values of this rank's heads, null for not_wanted.
  template <class P, class Q>
  typename Q::non_const_value_type* of_this_rank(const P& parameters, const Q& q) const {
    if constexpr (is_wanted_v<P>) {
      const index_t first = q.begin(1) / (q.global_extent(1) / attention.heads);
      index_t each        = 1;
      for (int d = 0; d < dims; ++d) each *= 2 * window(d).kernel - 1;
      return parameters.weight.data() + first * each;
    } else {
      return nullptr;
    }
  }
};

}  // namespace shard

#endif
