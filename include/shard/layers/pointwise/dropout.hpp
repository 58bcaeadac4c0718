// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_POINTWISE_DROPOUT_HPP
#define SHARD_LAYERS_POINTWISE_DROPOUT_HPP

#include <cstdint>
#include <vector>

#include "shard/layers/impl/activation_kernels.hpp"
#include "shard/layers/impl/dropout_kernels.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/pointwise/pointwise.hpp"
#include "shard/layers/sharding_rule.hpp"

namespace shard {

/// In training y = x / (1 - p) with probability 1 - p, else 0, value by value (Srivastava et al.
/// 2014; PyTorch's Dropout); else y = x. The mask depends only on the seed, the step and the
/// value's global index, so it is the same for every mesh, partition and number of threads. It
/// isn't stored: pullback and pushforward compute it again. Fields may be sharded in every
/// dimension. Local.
struct Dropout {
  double p           = 0.5;   ///< the probability of a zero
  std::uint64_t seed = 0;     ///< use another seed for each Dropout of a model
  bool training      = true;  ///< whether anything is dropped

  static constexpr LayerSharding sharding = LayerSharding::local;  ///< sends nothing

  /// The number of masks drawn by `apply`; pullback and pushforward use the last one. Set it to
  /// restart a run or to repeat an earlier step.
  struct State {
    std::uint64_t step = 0;  ///< of the last apply, from 1 on
  };

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
    impl::require_probability(p);
    impl::require_same_owners("Dropout", x, y);
    if (training) ++state.step;
    masked(space, state, y, x);
    mark_written(space, y);
  }
  /// The tangent of y for the tangent tx of x; ty may be tx.
  template <class Space, class TY, class TX, class X>
  void pushforward(const Space& space, const State& state, const TY& ty, const TX& tx,
                   const X& x) const {
    impl::require_same_owners("Dropout", x, ty);
    impl::require_same_owners("Dropout", x, tx);
    masked(space, state, ty, tx);
    mark_written(space, ty);
  }
  /// Sets dx = dJ/dx from dy = dJ/dy; dx may be dy, or not_wanted.
  template <class Space, class DX, class DY, class X>
  void pullback(const Space& space, const State& state, const DX& dx, const DY& dy,
                const X& x) const {
    if constexpr (is_wanted_v<DX>) {
      impl::require_same_owners("Dropout", x, dx);
      impl::require_same_owners("Dropout", x, dy);
      masked(space, state, dx, dy);
    }
  }

 private:
  template <class Space, class Y, class X>
  void masked(const Space& space, const State& state, const Y& y, const X& x) const {
    impl::DropoutMask mask;
    mask.p    = training ? p : 0.0;
    mask.seed = seed;
    mask.step = state.step;
    for (int d = 0; d < X::rank; ++d) {
      const int to    = d < 2 ? d : d + 5 - X::rank;
      mask.begin[to]  = x.begin(d);
      mask.extent[to] = x.global_extent(d);
    }
    impl::DropoutKernels<Space, typename Y::non_const_value_type>::apply(
        space, impl::owned_block(impl::local(y)), impl::owned_input(x), mask);
  }
};

}  // namespace shard

#endif
