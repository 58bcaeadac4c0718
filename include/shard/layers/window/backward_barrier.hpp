// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_WINDOW_BACKWARD_BARRIER_HPP
#define SHARD_LAYERS_WINDOW_BACKWARD_BARRIER_HPP

#include <utility>

#include "shard/layers/parameters.hpp"

namespace shard {

/// A layer whose backward pass ends before the next one's begins: its parameters' gradients live
/// only while it runs. What `backward_barrier` makes. apply and the rest are the layer's own;
/// parameters are as make_parameters or an arena gives them.
///
/// Without it a chain's gradients are all alive at the end of the backward pass; with it as many
/// bytes as the largest layer's. The price is an allocation, a deallocation and a wait per layer
/// and pass, so it is for models whose gradients don't fit otherwise.
template <class Layer>
struct BackwardBarrier : Layer {
  /// The layer's pullback with gradients made for it: set to zero, given to `flush(space,
  /// gradients)` when they are complete (to be summed over ranks, added to a bucket, given to an
  /// optimiser), and freed when `space` has done all of it. `arguments` are those of the layer's
  /// pullback after the gradients. Local or collective as the layer's.
  template <class Space, class P, class Flush, class... Arguments>
  void pullback(const Space& space, const P& parameters, const Flush& flush,
                const Arguments&... arguments) const {
    with_gradients<P>(space, flush, [&](const auto& gradients) {
      Layer::pullback(space, parameters, gradients, arguments...);
    });
  }
  /// The same of a layer whose pullback takes a state before the parameters (GroupNorm).
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

/// The layer as one whose backward pass ends, and whose gradients are freed, before the next one's
/// begins.
template <class Layer>
BackwardBarrier<Layer> backward_barrier(const Layer& layer) {
  return {layer};
}

}  // namespace shard

#endif
