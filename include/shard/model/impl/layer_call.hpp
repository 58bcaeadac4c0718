// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_IMPL_LAYER_CALL_HPP
#define SHARD_MODEL_IMPL_LAYER_CALL_HPP

#include <array>
#include <cstddef>

#include "shard/base/wanted.hpp"
#include "shard/model/module.hpp"
#include "shard/view/partition.hpp"

namespace shard::impl {

/// The state of a layer without state.
struct NoState {};

template <class Layer, class X>
struct StateOf {
  using type = NoState;
};
template <class Layer, class X>
requires requires(const Layer& l, const X& x) { l.state(x); }
struct StateOf<Layer, X> {
  using type = decltype(std::declval<const Layer&>().state(std::declval<const X&>()));
};

/// A layer's output partitions: its own, or the input's.
template <class Layer, std::size_t Rank>
std::array<Partition, Rank> partitions_after(const Layer& layer,
                                             const std::array<Partition, Rank>& input) {
  if constexpr (requires { layer.output_partitions(input); })
    return layer.output_partitions(input);
  else
    return input;
}

/// The layer in the model's training or evaluation mode.
template <class M>
decltype(auto) layer_as_run(const M& m) {
  if constexpr (requires { m.layer().training; }) {
    auto layer     = m.layer();
    layer.training = layer.training && m.run()->training;
    return layer;
  } else {
    return (m.layer());
  }
}

/// Calls a layer's function with its leading arguments: state, then parameters.
template <class M, class State, class Call>
void with_own_arguments(const M& m, State& state, const Call& call) {
  using Layer = typename M::layer_type;
  constexpr bool parameters =
      has_parameters_v<Layer, typename M::value_type, typename M::memory_space>;
  if constexpr (std::is_same_v<State, NoState>) {
    if constexpr (parameters)
      call(m.parameters());
    else
      call();
  } else if constexpr (parameters) {
    call(state, m.parameters());
  } else {
    call(state);
  }
}

template <class M, class State, class Space, class Y, class X>
void apply_module(const M& m, State& state, const Space& space, const Y& y, const X& x) {
  const auto& layer = layer_as_run(m);
  if constexpr (requires { layer.take_up(state, 0U, false); })
    layer.take_up(state, m.run()->mark.step, m.run()->mark.again);
  with_own_arguments(m, state, [&](auto&... own) { layer.apply(space, own..., y, x); });
}

/// ty for tx; parameters are constants.
template <class M, class State, class Space, class TY, class TX, class X>
void push_module(const M& m, State& state, const Space& space, const TY& ty, const TX& tx,
                 const X& x) {
  const auto& layer = layer_as_run(m);
  with_own_arguments(m, state, [&](auto&... own) {
    if constexpr (sizeof...(own) > (std::is_same_v<State, NoState> ? 0 : 1))
      layer.pushforward(space, own..., not_wanted, ty, tx, x);
    else if constexpr (requires { layer.pushforward(space, own..., ty, tx, x); })
      layer.pushforward(space, own..., ty, tx, x);
    else
      layer.pushforward(space, own..., ty, tx);
  });
}

/// dx from dy; adds to the gradients of parameters that aren't frozen.
template <class M, class State, class Space, class DX, class DY, class X>
void pull_module(const M& m, State& state, const Space& space, const DX& dx, const DY& dy,
                 const X& x) {
  const auto& layer = layer_as_run(m);
  with_own_arguments(m, state, [&](auto&... own) {
    if constexpr (sizeof...(own) > (std::is_same_v<State, NoState> ? 0 : 1)) {
      if (!m.is_frozen())
        layer.pullback(space, own..., m.gradients(), dx, dy, x);
      else if constexpr (is_wanted_v<DX>)
        layer.pullback(space, own..., not_wanted, dx, dy, x);
    } else if constexpr (is_wanted_v<DX>) {
      if constexpr (requires { layer.pullback(space, own..., dx, dy, x); })
        layer.pullback(space, own..., dx, dy, x);
      else
        layer.pullback(space, own..., dx, dy);
    }
  });
}

}  // namespace shard::impl

#endif
