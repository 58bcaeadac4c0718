// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_ATTENTION_HEAD_NORM_HPP
#define SHARD_LAYERS_ATTENTION_HEAD_NORM_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

#include "shard/base/wanted.hpp"
#include "shard/layers/impl/activation_kernels.hpp"
#include "shard/layers/impl/attention_kernels.hpp"
#include "shard/layers/impl/channel_kernels.hpp"
#include "shard/layers/impl/head_norm_kernels.hpp"
#include "shard/layers/impl/norm_kernels.hpp"
#include "shard/layers/norm/layer_norm.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"

namespace shard {

namespace impl {

/// The state of a norm over the features of each head: data of apply, and scratch memory.
template <class T, class Memory>
struct HeadNormState {
  index_t heads = 1, first_head = 0, features = 1, cells = 0;  ///< of this rank
  Kokkos::View<double*, Memory> statistics, sums, parts;       ///< see ChannelNorm
  Kokkos::View<T*, Memory> factors, tangents;                  ///< of scaled cosine attention
};

/// A weight and a bias of a norm over the features of a head; null: none. `per_head` is the step
/// from a head's weights to the next.
template <class T>
struct HeadWeights {
  const T *weight = nullptr, *bias = nullptr;
  index_t per_head = 0;
};

/// Norms over the features of each head of each point. Every head is a norm over channels.
template <class T>
struct HeadNormSteps {
  bool centred;
  double eps;

  template <class X>
  static auto state(const char* name, const X& x, index_t heads) {
    require_heads(name, x.label().c_str(), x.partition(1), heads);
    using Memory = typename X::memory_space;
    HeadNormState<T, Memory> s;
    s.features   = x.global_extent(1) / heads;
    s.heads      = x.extent(1) / s.features;
    s.first_head = x.begin(1) / s.features;
    s.cells      = 1;
    for (int d = 2; d < X::rank; ++d) s.cells *= x.extent(d);
    const auto doubles = [](const std::string& label, std::size_t count) {
      return Kokkos::View<double*, Memory>(label, count);
    };
    const index_t norms = x.extent(0) * s.heads;
    s.statistics = doubles("shard::norm statistics", static_cast<std::size_t>(2 * norms * s.cells));
    s.sums       = doubles("shard::norm sums", static_cast<std::size_t>(2 * norms * s.features));
    s.parts      = doubles("shard::norm parts", CellPieces::room<Memory>(s.features, s.cells, 2));
    return s;
  }

  template <class Space, class S>
  void apply(const Space& space, const S& s, const Block<T>& y, const Block<const T>& x,
             const HeadWeights<T>& w) const {
    each(s, x.batch, [&](index_t n, index_t h, index_t norm) {
      ChannelKernels<Space, T>::norm(space, head(s, y, n, h), head(s, x, n, h), figures(s, norm),
                                     at(w.weight, h * w.per_head), at(w.bias, h * w.per_head),
                                     {eps, centred});
    });
  }
  template <class Space, class S>
  void push(const Space& space, const S& s, const Block<T>& ty, const Block<const T>& tx,
            bool with_input, const Block<const T>& x, const HeadWeights<T>& w,
            const HeadWeights<T>& tw) const {
    each(s, x.batch, [&](index_t n, index_t h, index_t norm) {
      ChannelKernels<Space, T>::norm_pushforward(
          space, head(s, ty, n, h), head(s, tx, n, h), with_input, head(s, x, n, h),
          figures(s, norm), at(w.weight, h * w.per_head), at(tw.weight, h * tw.per_head),
          at(tw.bias, h * tw.per_head), centred);
    });
  }
  template <class Space, class S>
  void pull(const Space& space, const S& s, const Block<T>& dx, const Block<const T>& dy,
            const Block<const T>& x, const HeadWeights<T>& w) const {
    each(s, x.batch, [&](index_t n, index_t h, index_t norm) {
      ChannelKernels<Space, T>::norm_pullback(space, head(s, dx, n, h), head(s, dy, n, h),
                                              head(s, x, n, h), figures(s, norm),
                                              at(w.weight, h * w.per_head), centred);
    });
  }
  /// Sets `sums`: for each batch entry, head and feature those of dy and dy xhat.
  template <class Space, class S>
  void sum(const Space& space, const S& s, const Block<const T>& dy,
           const Block<const T>& x) const {
    each(s, x.batch, [&](index_t n, index_t h, index_t norm) {
      ChannelKernels<Space, T>::norm_sums(space, s.sums.data() + 2 * norm * s.features,
                                          head(s, dy, n, h), head(s, x, n, h), figures(s, norm),
                                          s.parts.data());
    });
  }

 private:
  template <class S, class Do>
  static void each(const S& s, index_t batch, const Do& run) {
    for (index_t n = 0; n < batch; ++n)
      for (index_t h = 0; h < s.heads; ++h) run(n, h, n * s.heads + h);
  }
  /// One batch entry's features of one head.
  template <class S, class U>
  static Block<U> head(const S& s, Block<U> of, index_t n, index_t h) {
    if (of.origin != nullptr) of.origin += n * of.stride[0] + h * s.features * of.stride[1];
    of.batch    = 1;
    of.channels = s.features;
    return of;
  }
  template <class S>
  static double* figures(const S& s, index_t norm) {
    return s.statistics.data() + 2 * norm * s.cells;
  }
  static const T* at(const T* values, index_t i) {
    return values == nullptr ? nullptr : values + i;
  }
};

}  // namespace impl

/// A norm over the features of each head of each point, with one weight (and bias) for the features
/// of all heads: `HeadNorm<RMSNorm>{{32}, 4}` for 4 heads of 32 features. `Norm` is LayerNorm or
/// RMSNorm. QK norm is this layer on queries and keys (Henry et al. 2020, Dehghani et al. 2023).
///
/// Fields are [batch, heads x features, space...], sharded in any way, channels by whole heads.
/// Local. The output and the input's gradient are bitwise the same on every mesh.
template <class Norm>
struct HeadNorm {
  static_assert(std::is_same_v<Norm, LayerNorm> || std::is_same_v<Norm, RMSNorm>,
                "a HeadNorm is of a LayerNorm or an RMSNorm over the features of a head");
  Norm norm;          ///< of the features of a head
  index_t heads = 1;  ///< number of heads: equal ranges of channels

  static constexpr LayerSharding sharding = LayerSharding::local;  ///< sends nothing

  /// The norm's parameters.
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = typename Norm::template Parameters<T, Memory>;

  /// Those of the norm, one value per feature.
  std::vector<ParameterShape> parameter_shapes() const { return norm.parameter_shapes(); }
  /// The same: all heads have the same.
  std::vector<ParameterShape> parameter_shapes(const OwnedChannels&) const {
    return parameter_shapes();
  }

  /// The state for fields with x's partitions. Throws ArgumentError, on every rank, if heads don't
  /// fit.
  template <class X>
  auto state(const X& x) const {
    using T = typename X::non_const_value_type;
    impl::require_extent(name, x.label(), "channels", x.global_extent(1), heads * norm.channels);
    return impl::HeadNormSteps<T>::state(name, x, heads);
  }

  /// Computes y's owned points; y may be x.
  template <class Space, class S, class P, class Y, class X>
  void apply(const Space& space, S& state, const P& parameters, const Y& y, const X& x) const {
    impl::require_same_owners(name, x, y);
    steps<Y>().apply(space, state, impl::owned_block(impl::local(y)), impl::owned_input(x),
                     weights<Y>(parameters));
    mark_written(space, y);
  }
  /// The tangent of y for those of x and the parameters, either of which may be not_wanted (zero).
  template <class Space, class S, class P, class TP, class TY, class TX, class X>
  void pushforward(const Space& space, S& state, const P& parameters, const TP& parameter_tangents,
                   const TY& ty, const TX& tx, const X& x) const {
    impl::require_same_owners(name, x, ty);
    auto input = impl::owned_input(x);
    impl::HeadWeights<typename TY::non_const_value_type> tangents;
    if constexpr (is_wanted_v<TX>) input = impl::owned_input(tx);
    if constexpr (is_wanted_v<TP>) tangents = weights<TY>(parameter_tangents);
    steps<TY>().push(space, state, impl::owned_block(impl::local(ty)), input, is_wanted_v<TX>,
                     impl::owned_input(x), weights<TY>(parameters), tangents);
    mark_written(space, ty);
  }
  /// From dy = dJ/dy: adds this rank's part to the parameters' gradients and sets dx. Either may be
  /// not_wanted; dx may be dy.
  template <class Space, class S, class P, class G, class DX, class DY, class X>
  void pullback(const Space& space, S& state, const P& parameters, const G& gradients, const DX& dx,
                const DY& dy, const X& x) const {
    using T = typename DY::non_const_value_type;
    impl::require_same_owners(name, x, dy);
    if constexpr (is_wanted_v<G>)
      if (norm.affine) {
        steps<DY>().sum(space, state, impl::owned_input(dy), impl::owned_input(x));
        impl::NormKernels<Space, T>::fold_parameters(space, gradients.weight.data(),
                                                     gradients.bias.data(), state.sums.data(),
                                                     x.extent(0) * state.heads, state.features);
      }
    if constexpr (is_wanted_v<DX>) {
      impl::require_same_owners(name, x, dx);
      steps<DY>().pull(space, state, impl::owned_block(impl::local(dx)), impl::owned_input(dy),
                       impl::owned_input(x), weights<DY>(parameters));
    }
  }

 private:
  static constexpr const char* name = "HeadNorm";

  template <class Field>
  auto steps() const {
    using T = typename Field::non_const_value_type;
    return impl::HeadNormSteps<T>{
        std::is_same_v<Norm, LayerNorm>,
        norm.eps < 0.0 ? static_cast<double>(Kokkos::Experimental::epsilon_v<T>) : norm.eps};
  }
  template <class Field, class P>
  auto weights(const P& parameters) const {
    impl::HeadWeights<typename Field::non_const_value_type> w;
    if (norm.affine) {
      w.weight = parameters.weight.data();
      w.bias   = parameters.bias.data();
    }
    return w;
  }
};

/// Scaled cosine attention (Liu et al. 2022, Swin transformers v2) by any attention with scale 1:
/// queries through `CosineNorm{.heads = 4}`, keys through `CosineNorm{.heads = 4, .scaled =
/// false}`. The features of each head of each point are divided by their length, and multiplied by
/// exp(min(t, ln 100)) if `scaled`, with the parameter t = `logit_scale` [heads, 1, 1] (initially
/// ln 10, as timm's).
///
///   y = exp(min(t[head], ln 100)) x / sqrt(|x|^2 + 1e-24)
///
/// Fields are [batch, heads x features, space...], sharded in any way, channels by whole heads.
/// Every rank has all heads' parameters. Local. The output and the input's gradient are bitwise the
/// same on every mesh.
struct CosineNorm {
  index_t heads = 1;     ///< number of heads: equal ranges of channels
  bool scaled   = true;  ///< whether there is a parameter

  static constexpr LayerSharding sharding = LayerSharding::local;  ///< sends nothing

  /// The logarithm of each head's factor.
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = impl::WeightAndBias<T, 3, Memory>;

  /// That of all heads; none unless scaled.
  std::vector<ParameterShape> parameter_shapes() const {
    if (!scaled) return {};
    return {{"logit_scale", {heads, 1, 1}, 0.0, 2.302585092994045684}};
  }
  /// The same.
  std::vector<ParameterShape> parameter_shapes(const OwnedChannels&) const {
    return parameter_shapes();
  }

  /// The state for fields with x's partitions. Throws ArgumentError, on every rank, if heads don't
  /// fit.
  template <class X>
  auto state(const X& x) const {
    using T      = typename X::non_const_value_type;
    auto s       = impl::HeadNormSteps<T>::state(name, x, heads);
    using Values = decltype(s.factors);
    const auto n = static_cast<std::size_t>(s.heads * s.features);
    s.factors    = Values("shard::cosine factors", n);
    s.tangents   = Values("shard::cosine factors", scaled ? n : 0);
    return s;
  }

  /// Computes y's owned points; y may be x.
  template <class Space, class S, class P, class Y, class X>
  void apply(const Space& space, S& state, const P& parameters, const Y& y, const X& x) const {
    using T = typename Y::non_const_value_type;
    impl::require_same_owners(name, x, y);
    impl::HeadNormKernels<Space, T>::factors(
        space, state.factors.data(), logs<T>(state, parameters), state.heads, state.features);
    steps<T>(state).apply(space, state, impl::owned_block(impl::local(y)), impl::owned_input(x),
                          weights<T>(state));
    mark_written(space, y);
  }
  /// The tangent of y for those of x and the parameter, either of which may be not_wanted (zero).
  /// The parameters and x must be unchanged since apply.
  template <class Space, class S, class P, class TP, class TY, class TX, class X>
  void pushforward(const Space& space, S& state, const P& parameters, const TP& parameter_tangents,
                   const TY& ty, const TX& tx, const X& x) const {
    using T = typename TY::non_const_value_type;
    impl::require_same_owners(name, x, ty);
    auto input = impl::owned_input(x);
    impl::HeadWeights<T> tangents;
    if constexpr (is_wanted_v<TX>) input = impl::owned_input(tx);
    if constexpr (is_wanted_v<TP>)
      if (scaled) {
        impl::HeadNormKernels<Space, T>::factor_tangents(
            space, state.tangents.data(), logs<T>(state, parameter_tangents),
            logs<T>(state, parameters), state.heads, state.features);
        tangents = {state.tangents.data(), nullptr, state.features};
      }
    steps<T>(state).push(space, state, impl::owned_block(impl::local(ty)), input, is_wanted_v<TX>,
                         impl::owned_input(x), weights<T>(state), tangents);
    mark_written(space, ty);
  }
  /// From dy = dJ/dy: adds this rank's part to the parameter's gradient and sets dx. Either may be
  /// not_wanted; dx may be dy. The parameters and x must be unchanged since apply.
  template <class Space, class S, class P, class G, class DX, class DY, class X>
  void pullback(const Space& space, S& state, const P& parameters, const G& gradients, const DX& dx,
                const DY& dy, const X& x) const {
    using T = typename DY::non_const_value_type;
    impl::require_same_owners(name, x, dy);
    if constexpr (is_wanted_v<G>)
      if (scaled) {
        steps<T>(state).sum(space, state, impl::owned_input(dy), impl::owned_input(x));
        impl::HeadNormKernels<Space, T>::add_log_gradients(
            space, gradients.weight.data() + state.first_head, state.sums.data(),
            logs<T>(state, parameters), x.extent(0), state.heads, state.features);
      }
    if constexpr (is_wanted_v<DX>) {
      impl::require_same_owners(name, x, dx);
      steps<T>(state).pull(space, state, impl::owned_block(impl::local(dx)), impl::owned_input(dy),
                           impl::owned_input(x), weights<T>(state));
    }
  }

 private:
  static constexpr const char* name = "CosineNorm";

  /// The root mean square is the length over sqrt(features).
  template <class T, class S>
  static impl::HeadNormSteps<T> steps(const S& state) {
    return {false, 1e-24 / static_cast<double>(state.features)};
  }
  template <class T, class S>
  static impl::HeadWeights<T> weights(const S& state) {
    return {state.factors.data(), nullptr, state.features};
  }
  template <class T, class S, class P>
  const T* logs(const S& state, const P& parameters) const {
    return scaled ? parameters.weight.data() + state.first_head : nullptr;
  }
};

}  // namespace shard

#endif
