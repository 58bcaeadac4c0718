// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_POINTWISE_SOFTMAX_HPP
#define SHARD_LAYERS_POINTWISE_SOFTMAX_HPP

#include <vector>

#include "shard/layers/impl/activation_kernels.hpp"
#include "shard/layers/impl/channel_kernels.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"

namespace shard {

/// y = exp(x - m) / sum of exp(x - m) over the channels of each point, m their maximum (PyTorch's
/// Softmax(dim=1)). Fields are [batch, channel, space...]; batch and space may be sharded. Local,
/// and bitwise the same for any number of ranks: the sum is in double, over ascending channels.
struct Softmax {
  static constexpr LayerSharding sharding = LayerSharding::local;  ///< sends nothing

  /// No parameters.
  std::vector<ParameterShape> parameter_shapes() const { return {}; }

  /// Computes y's owned points; y may be x.
  template <class Space, class Y, class X>
  void apply(const Space& space, const Y& y, const X& x) const {
    require(x, y);
    impl::ChannelKernels<Space, typename Y::non_const_value_type>::softmax(
        space, impl::owned_block(impl::local(y)), impl::owned_input(x));
    mark_written(space, y);
  }
  /// The tangent of y for the tangent tx of x, y (tx - sum of y tx); ty may be tx.
  template <class Space, class TY, class TX, class X>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const X& x) const {
    derive(space, ty, tx, x);
    mark_written(space, ty);
  }
  /// Sets dx = dJ/dx = y (dy - sum of y dy) from dy = dJ/dy and x; dx may be dy, or not_wanted.
  template <class Space, class DX, class DY, class X>
  void pullback(const Space& space, const DX& dx, const DY& dy, const X& x) const {
    if constexpr (is_wanted_v<DX>) derive(space, dx, dy, x);
  }

 private:
  template <class X, class Y>
  void require(const X& x, const Y& y) const {
    static_assert(!impl::is_cut_v<X, 1>,
                  "a Softmax's channels can't be sharded: redistribute before it");
    impl::require_same_owners("Softmax", x, y);
  }
  template <class Space, class B, class A, class X>
  void derive(const Space& space, const B& b, const A& a, const X& x) const {
    require(x, a);
    require(x, b);
    impl::ChannelKernels<Space, typename B::non_const_value_type>::softmax_derivative(
        space, impl::owned_block(impl::local(b)), impl::owned_input(a), impl::owned_input(x));
  }
};

}  // namespace shard

#endif
