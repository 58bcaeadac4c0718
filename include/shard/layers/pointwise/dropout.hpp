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
/// 2014; PyTorch's Dropout); else y = x. Whether a value is kept follows from the seed, the step
/// and the value's global index [batch, channel, cells] alone: the mask is the same for every mesh,
/// partition and number of threads. Nothing is stored: pullback and pushforward compute it again.
/// Fields may be sharded in every dimension. No message.
struct Dropout {
  double p           = 0.5;   ///< the probability of a zero
  std::uint64_t seed = 0;     ///< another one for each Dropout of a model
  bool training      = true;  ///< whether anything is dropped

  static constexpr LayerSharding sharding = LayerSharding::local;  ///< sends nothing

  /// How often `apply` has drawn a mask; pullback and pushforward use the last one. To be set when
  /// a run is taken up again, or when an earlier step is computed once more.
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

  /// The next apply is one that comes after so many; where a model takes it up.
  void take_up(State& state, std::uint64_t step, bool) const { state.step = step; }

  /// Goes on to the next step and computes y's owned cells; y may be x. Throws ArgumentError on
  /// every rank unless 0 <= p <= 1.
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
