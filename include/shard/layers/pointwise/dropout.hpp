// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_POINTWISE_DROPOUT_HPP
#define SHARD_LAYERS_POINTWISE_DROPOUT_HPP

#include <cstdint>
#include <vector>

#include "shard/layers/impl/activation_kernels.hpp"
#include "shard/layers/impl/dropout_kernels.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"

namespace shard {

namespace impl {
struct DropoutState {
  std::uint64_t step = 0;  ///< of the last apply, from 1 on
};
}  // namespace impl

/// The layer behind Dropout (OfSamples = false) and DropPath (true).
template <bool OfSamples>
struct DropoutLayer {
  double p           = OfSamples ? 0.1 : 0.5;  ///< the probability of a zero
  std::uint64_t seed = 0;                      ///< use another seed for each layer of a model
  bool training      = true;                   ///< whether anything is dropped

  static constexpr LayerSharding sharding = LayerSharding::local;  ///< sends nothing

  /// The number of masks drawn by `apply`; pullback and pushforward use the last one. Set it to
  /// restart a run or to repeat an earlier step.
  using State = impl::DropoutState;

  /// No parameters.
  std::vector<ParameterShape> parameter_shapes() const { return {}; }

  /// The state before the first step. Local.
  template <class X>
  State state(const X&) const {
    return {};
  }

  /// Sets the step before the next apply, for models.
  void take_up(State& state, std::uint64_t step, bool) const { state.step = step; }

  /// Increments the step and computes y's owned points; y may be x. Throws ArgumentError on every
  /// rank unless 0 <= p <= 1.
  template <class Space, class Y, class X>
  void apply(const Space& space, State& state, const Y& y, const X& x) const {
    impl::require_probability(name, p);
    impl::require_same_owners(name, x, y);
    if (training) ++state.step;
    drop(space, state, y, x);
    mark_written(space, y);
  }
  /// The tangent of y for the tangent tx of x; ty may be tx.
  template <class Space, class TY, class TX, class X>
  void pushforward(const Space& space, const State& state, const TY& ty, const TX& tx,
                   const X& x) const {
    impl::require_same_owners(name, x, ty);
    drop(space, state, ty, tx);
    mark_written(space, ty);
  }
  /// Sets dx = dJ/dx from dy = dJ/dy; dx may be dy, or not_wanted.
  template <class Space, class DX, class DY, class X>
  void pullback(const Space& space, const State& state, const DX& dx, const DY& dy,
                const X& x) const {
    if constexpr (is_wanted_v<DX>) {
      impl::require_same_owners(name, x, dx);
      drop(space, state, dx, dy);
    }
  }

 private:
  static constexpr const char* name = OfSamples ? "DropPath" : "Dropout";

  /// y = x times the mask.
  template <class Space, class Y, class X>
  void drop(const Space& space, const State& state, const Y& y, const X& x) const {
    impl::require_same_owners(name, x, y);
    auto mask       = impl::DropoutMask::of(x, training ? p : 0.0, seed, state.step);
    mask.of_samples = OfSamples;
    impl::DropoutKernels<Space, typename Y::non_const_value_type>::apply(
        space, impl::owned_block(impl::local(y)), impl::owned_input(x), mask);
  }
};

/// In training y = x / (1 - p) with probability 1 - p, else 0, value by value (Srivastava et al.
/// 2014; PyTorch's Dropout); else y = x. The mask depends only on the seed, the step and the
/// value's global index, so it is the same for every mesh, partition and number of threads. It
/// isn't stored: pullback and pushforward compute it again. Fields may be sharded in every
/// dimension. Local.
using Dropout = DropoutLayer<false>;

/// Stochastic depth (Huang et al. 2016; timm's DropPath): in training y = x / (1 - p) for a sample
/// with probability 1 - p, else 0 for all values of the sample; else y = x. Put it before the sum
/// of a residual block. The mask depends only on the seed, the step and the sample's global index
/// in the batch; otherwise as Dropout.
using DropPath = DropoutLayer<true>;

/// Sets y's owned points to independent standard normal numbers (Box and Muller 1958), for noise
/// that ensembles and diffusion models add. They depend only on the seed, the step and each value's
/// global index, so they are the same for every mesh, partition and number of threads. y is a field
/// [batch, channel, space...], sharded in any way. Local.
template <class Space, AnyShardedView Y>
void normal(const Space& space, const Y& y, std::uint64_t seed, std::uint64_t step) {
  impl::DropoutKernels<Space, typename Y::non_const_value_type>::normal(
      space, impl::owned_block(impl::local(y)), impl::DropoutMask::of(y, 0.0, seed, step));
  mark_written(space, y);
}

}  // namespace shard

#endif
