// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_LAYER_NORM_HPP
#define SHARD_LAYERS_LAYER_NORM_HPP

#include <Kokkos_Core.hpp>

#include <vector>

#include "shard/layers/channel_kernels.hpp"
#include "shard/layers/norm_layer.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"

namespace shard {

/// Layer normalisation over the channels of each cell (Ba, Kiros and Hinton 2016; PyTorch's
/// LayerNorm([C]) on channels-last data, here with the channels before space, as ConvNeXt has it):
/// y = (x - mean) / sqrt(var + eps) * weight + bias, the variance biased. Fields are [batch,
/// channel, space...]; batch and space may be cut. No message; forward and in the input's gradient
/// the same bits for every number of ranks: sums are in double, channels ascending.
struct LayerNorm {
  index_t channels = 1;     ///< channels
  double eps       = 1e-5;  ///< added to the variance
  bool affine      = true;  ///< whether there are a weight and a bias per channel

  static constexpr LayerSharding sharding = LayerSharding::local;  ///< sends nothing

  /// Weight and bias, one value per channel, as in PyTorch.
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = impl::WeightAndBias<T, 1, Memory>;

  /// Weight (1) and bias (0); none unless affine.
  std::vector<ParameterShape> parameter_shapes() const {
    if (!affine) return {};
    return {{"weight", {channels}, 0.0, 1.0}, {"bias", {channels}, 0.0, 0.0}};
  }

  /// What one use of the layer keeps from apply to pullback, and its scratch memory.
  template <class Memory>
  struct State {
    Kokkos::View<double*, Memory> statistics;  ///< mean and 1 / sqrt(var + eps) of each owned cell
    Kokkos::View<double*, Memory> sums;        ///< two per batch entry and channel
  };

  /// The state for fields with x's partitions. Local.
  template <class X>
  auto state(const X& x) const {
    index_t cells = x.extent(0);
    for (int d = 2; d < X::rank; ++d) cells *= x.extent(d);
    State<typename X::memory_space> s;
    using View   = decltype(s.sums);
    s.statistics = View("shard::norm statistics", static_cast<std::size_t>(2 * cells));
    s.sums       = View("shard::norm sums", static_cast<std::size_t>(2 * x.extent(0) * channels));
    return s;
  }

  /// Computes y's owned cells. Local. y may be x.
  template <class Space, class S, class P, class Y, class X>
  void apply(const Space& space, S& state, const P& parameters, const Y& y, const X& x) const {
    using T = typename Y::non_const_value_type;
    impl::require_norm(figures(), y, x);
    const T *weight = nullptr, *bias = nullptr;
    if (affine) {
      weight = parameters.weight.data();
      bias   = parameters.bias.data();
    }
    impl::ChannelKernels<Space, T>::norm(space, impl::owned_block(impl::local(y)),
                                         impl::owned_input(x), state.statistics.data(), weight,
                                         bias, eps);
    mark_written(space, y);
  }

  /// The tangent of y for the tangents of x and of the parameters, either of them not_wanted where
  /// it is zero. x and the state are as `apply` left them. Local. ty may be tx.
  template <class Space, class S, class P, class TP, class TY, class TX, class X>
  void pushforward(const Space& space, S& state, const P& parameters, const TP& parameter_tangents,
                   const TY& ty, const TX& tx, const X& x) const {
    using T = typename TY::non_const_value_type;
    impl::require_norm(figures(), ty, x);
    const T *weight = nullptr, *weight_tangent = nullptr, *bias_tangent = nullptr;
    if (affine) {
      weight = parameters.weight.data();
      if constexpr (is_wanted_v<TP>) {
        weight_tangent = parameter_tangents.weight.data();
        bias_tangent   = parameter_tangents.bias.data();
      }
    }
    auto input = impl::owned_input(x);
    if constexpr (is_wanted_v<TX>) {
      impl::require_norm(figures(), tx, x);
      input = impl::owned_input(tx);
    }
    impl::ChannelKernels<Space, T>::norm_pushforward(
        space, impl::owned_block(impl::local(ty)), input, is_wanted_v<TX>, impl::owned_input(x),
        state.statistics.data(), weight, weight_tangent, bias_tangent);
    mark_written(space, ty);
  }

  /// From dy = dJ/dy: adds this rank's part to the parameters' gradients and sets dx = dJ/dx,
  /// either of them not_wanted. x is what apply was given, the state as it left it. Local. dx may
  /// be dy.
  template <class Space, class S, class P, class G, class DX, class DY, class X>
  void pullback(const Space& space, S& state, const P& parameters, const G& gradients, const DX& dx,
                const DY& dy, const X& x) const {
    using T = typename DY::non_const_value_type;
    impl::require_norm(figures(), dy, x);
    if constexpr (is_wanted_v<DX>) impl::require_norm(figures(), dx, x);
    if constexpr (is_wanted_v<G>)
      if (affine) {
        impl::ChannelKernels<Space, T>::norm_sums(space, state.sums.data(), impl::owned_input(dy),
                                                  impl::owned_input(x), state.statistics.data());
        impl::NormKernels<Space, T>::fold_parameters(space, gradients.weight.data(),
                                                     gradients.bias.data(), state.sums.data(),
                                                     x.extent(0), channels);
      }
    if constexpr (is_wanted_v<DX>) {
      const T* weight = nullptr;
      if (affine) weight = parameters.weight.data();
      impl::ChannelKernels<Space, T>::norm_pullback(space, impl::owned_block(impl::local(dx)),
                                                    impl::owned_input(dy), impl::owned_input(x),
                                                    state.statistics.data(), weight);
    }
  }
  /// The parameters' part of it alone. Local.
  template <class Space, class S, class G, class DY, class X>
  void pullback_parameters(const Space& space, S& state, const G& gradients, const DY& dy,
                           const X& x) const {
    pullback(space, state, not_wanted, gradients, not_wanted, dy, x);
  }
  /// The input's part of it alone. Local.
  template <class Space, class S, class P, class DX, class DY, class X>
  void pullback_input(const Space& space, S& state, const P& parameters, const DX& dx, const DY& dy,
                      const X& x) const {
    pullback(space, state, parameters, not_wanted, dx, dy, x);
  }

 private:
  impl::NormFigures figures() const { return {"LayerNorm", {1, channels, false}, eps, affine}; }
};

}  // namespace shard

#endif
