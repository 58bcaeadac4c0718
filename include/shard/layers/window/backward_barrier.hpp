// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_WINDOW_BACKWARD_BARRIER_HPP
#define SHARD_LAYERS_WINDOW_BACKWARD_BARRIER_HPP

#include <utility>

#include "shard/layers/parameters.hpp"

namespace shard {

/// A layer whose parameters' gradients exist only during its pullback. Made by `backward_barrier`.
/// The other functions are the layer's own; parameters come from make_parameters or an arena.
///
/// It reduces the memory of gradients to that of the largest layer, at the cost of an allocation, a
/// deallocation and a fence per layer and pass. Use it for models whose gradients don't fit
/// otherwise.
template <class Layer>
struct BackwardBarrier : Layer {
  /// The layer's pullback with temporary gradients: allocated and zeroed, passed to
  /// `flush(space, gradients)` when complete (to sum over ranks, to update), and freed after a
  /// fence of `space`. `arguments` are those of the layer's pullback after the gradients. Local or
  /// collective as the layer's.
  template <class Space, class P, class Flush, class... Arguments>
  void pullback(const Space& space, const P& parameters, const Flush& flush,
                const Arguments&... arguments) const {
    with_gradients<P>(space, flush, [&](const auto& gradients) {
      Layer::pullback(space, parameters, gradients, arguments...);
    });
  }
  /// The same for a layer whose pullback takes a state before the parameters (GroupNorm).
  template <class Space, class S, class P, class Flush, class... Arguments>
  void pullback_with_state(const Space& space, S& state, const P& parameters, const Flush& flush,
                           const Arguments&... arguments) const {
    with_gradients<P>(space, flush, [&](const auto& gradients) {
      Layer::pullback(space, state, parameters, gradients, arguments...);
    });
  }

 private:
  template <class P, class Space, class Flush, class Pullback>
  void with_gradients(const Space& space, const Flush& flush, const Pullback& pullback) const {
    const auto gradients =
        make_parameters<typename P::value_type,
                        typename decltype(std::declval<P>().weight)::memory_space>(
            static_cast<const Layer&>(*this), "shard::gradients");
    pullback(gradients);
    flush(space, gradients);
    space.fence("shard::backward_barrier: gradients are complete");
  }
};

/// The layer with gradients that exist only during its pullback.
template <class Layer>
BackwardBarrier<Layer> backward_barrier(const Layer& layer) {
  return {layer};
}

}  // namespace shard

#endif
