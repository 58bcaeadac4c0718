// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_POINTWISE_LAYER_SCALE_HPP
#define SHARD_LAYERS_POINTWISE_LAYER_SCALE_HPP

#include <Kokkos_Core.hpp>

#include <vector>

#include "shard/layers/impl/activation_kernels.hpp"
#include "shard/layers/impl/broadcast.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"

namespace shard {

/// y = weight[c] x, a learned factor for each channel (Touvron et al. 2021; ConvNeXt's gamma).
/// Fields are [batch, channel, space...], sharded in any way. Local; y and the input's gradient are
/// bitwise the same for any number of ranks.
struct LayerScale {
  index_t channels = 1;     ///< channels
  double value     = 1e-5;  ///< the initial factor

  static constexpr LayerSharding sharding = LayerSharding::local;  ///< sends nothing

  /// A weight per channel; of the owned channels where channels are sharded (see OwnedChannels).
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = impl::WeightAndBias<T, 1, Memory>;

  /// The weight. It has no bias.
  std::vector<ParameterShape> parameter_shapes() const {
    return {{"weight", {channels}, 0.0, value}};
  }
  /// That of the owned channels.
  std::vector<ParameterShape> parameter_shapes(const OwnedChannels& owned) const {
    return impl::owned_shapes(parameter_shapes(), owned);
  }

  /// Computes y's owned points; y may be x.
  template <class Space, class P, class Y, class X>
  void apply(const Space& space, const P& parameters, const Y& y, const X& x) const {
    require(x, y);
    scale(space, y, product(x, parameters, x));
    mark_written(space, y);
  }
  /// The tangent of y for the tangents of x and of the weight, either of which may be not_wanted
  /// (zero). ty may be tx.
  template <class Space, class P, class TP, class TY, class TX, class X>
  void pushforward(const Space& space, const P& parameters, const TP& parameter_tangents,
                   const TY& ty, const TX& tx, const X& x) const {
    require(x, ty);
    impl::Products<typename X::non_const_value_type> terms;
    if constexpr (is_wanted_v<TX>) {
      require(x, tx);
      terms.a = impl::owned_input(tx);
      terms.z = factors(parameters, x);
    }
    if constexpr (is_wanted_v<TP>) {
      terms.b = impl::owned_input(x);
      terms.w = factors(parameter_tangents, x);
    }
    scale(space, ty, terms);
    mark_written(space, ty);
  }
  /// From dy = dJ/dy: adds this rank's part to the weight's gradient and sets dx = dJ/dx. Either
  /// may be not_wanted; dx may be dy. Local.
  template <class Space, class P, class G, class DX, class DY, class X>
  void pullback(const Space& space, const P& parameters, const G& gradients, const DX& dx,
                const DY& dy, const X& x) const {
    using T = typename X::non_const_value_type;
    require(x, dy);
    if constexpr (is_wanted_v<G>) {
      impl::SumPlaces places;
      places.keeps[1] = true;
      places.step[1]  = 1;
      places.count    = x.extent(1);
      const auto sums = impl::BroadcastSums<typename X::memory_space>::of(x, ~2U, 0U, places.count);
      impl::Block<T> to;
      to.origin    = gradients.weight.data();
      to.batch     = 1;
      to.channels  = places.count;
      to.stride[1] = 1;
      impl::BroadcastKernels<Space, T>::store(
          space, to,
          sums->template run<Space, T>(space, places, impl::owned_input(dy), impl::owned_input(x)),
          true);
    }
    if constexpr (is_wanted_v<DX>) {
      require(x, dx);
      scale(space, dx, product(dy, parameters, x));
    }
  }

 private:
  template <class X, class Y>
  void require(const X& x, const Y& y) const {
    impl::require_extent("LayerScale", x.label(), "channels", x.global_extent(1), channels);
    impl::require_same_owners("LayerScale", x, y);
  }
  /// The weight beside x's points.
  template <class P, class X>
  static auto factors(const P& parameters, const X& x) {
    auto b   = impl::owned_input(x);
    b.origin = parameters.weight.data();
    for (int d = 0; d < 5; ++d) b.stride[d] = d == 1 ? 1 : 0;
    return b;
  }
  /// The terms of weight a.
  template <class A, class P, class X>
  static impl::Products<typename X::non_const_value_type> product(const A& a, const P& parameters,
                                                                  const X& x) {
    return {impl::owned_input(a), factors(parameters, x), {}, {}, {}, 0.0};
  }
  template <class Space, class Y, class T>
  static void scale(const Space& space, const Y& y, const impl::Products<T>& terms) {
    impl::BroadcastKernels<Space, T>::combine(space, impl::owned_block(impl::local(y)), terms);
  }
};

}  // namespace shard

#endif
