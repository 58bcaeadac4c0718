// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_IMPL_LAYER_CALL_HPP
#define SHARD_MODEL_IMPL_LAYER_CALL_HPP

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/base/wanted.hpp"
#include "shard/model/module.hpp"
#include "shard/view/partition.hpp"

namespace shard::impl {

/// How many inputs a layer has: its `inputs`, or 1.
template <class Layer>
constexpr int layer_inputs() {
  if constexpr (requires { typename Layer::takes_queries_keys_values; })
    return 3;
  else if constexpr (requires { Layer::inputs; })
    return Layer::inputs;
  else
    return 1;
}

/// The state of a layer without state.
struct NoState {};

/// The state of a layer for inputs of one type, `N` of them: it is made from all of them, or from
/// the first.
template <class Layer, class Inputs, std::size_t... I>
auto state_of(const Layer& layer, const Inputs& x, std::index_sequence<I...>) {
  if constexpr (requires { layer.state(x[I]...); })
    return layer.state(x[I]...);
  else if constexpr (requires { layer.state(x[0]); })
    return layer.state(x[0]);
  else
    return NoState{};
}
template <class Layer, class X, int N>
struct StateOf {
  static constexpr auto inputs = static_cast<std::size_t>(N);
  using type =
      decltype(state_of(std::declval<const Layer&>(), std::declval<const std::array<X, inputs>&>(),
                        std::make_index_sequence<inputs>{}));
};

/// Whether a layer takes replicated values beside a sharded one, its first input.
template <class Layer>
inline constexpr bool broadcasts_v = requires {
  requires Layer::broadcasts;
};

/// Whether a layer's output is replicated even if its input is sharded.
template <class Layer>
inline constexpr bool gives_replicated_v = requires {
  requires Layer::gives_replicated;
};

/// A layer's output partitions: from those of all inputs, from the first one's, or those.
template <class Layer, class Partitions, class... More>
Partitions partitions_after(const Layer& layer, const Partitions& input, const More&... more) {
  if constexpr (requires { layer.output_partitions(input, more...); })
    return layer.output_partitions(input, more...);
  else if constexpr (requires { layer.output_partitions(input); })
    return layer.output_partitions(input);
  else
    return input;
}

/// Partitions of which the first rank along each axis owns all points in space.
template <class Partitions>
Partitions owned_by_first(Partitions p) {
  for (std::size_t d = 2; d < p.size(); ++d) {
    std::vector<index_t> counts(static_cast<std::size_t>(p[d].parts()), 0);
    counts.front() = p[d].size();
    p[d]           = Partition::explicit_counts(counts);
  }
  return p;
}

/// Whether a layer's output may have the partitions of a finer level.
template <class Layer>
inline constexpr bool can_meet_v = requires {
  requires Layer::can_meet;
};
template <class Node>
inline constexpr bool node_can_meet_v = false;
template <class T, class Memory, class Layer>
inline constexpr bool node_can_meet_v<Module<T, Memory, Layer>> = can_meet_v<Layer>;

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

template <class M, class State, class Space, class Y, class... X>
void apply_module(const M& m, State& state, const Space& space, const Y& y, const X&... x) {
  const auto& layer = layer_as_run(m);
  if constexpr (requires { layer.take_up(state, 0U, false); })
    layer.take_up(state, m.run()->mark.step, m.run()->mark.again);
  with_own_arguments(m, state, [&](auto&... own) { layer.apply(space, own..., y, x...); });
}

// concepts, because nvcc 13 evaluates the same expressions within a function wrongly
template <class Layer, class... Arguments>
concept LayerPullsBack = requires(const Layer& layer, Arguments&... arguments) {
  layer.pullback(arguments...);
};
template <class Layer, class... Arguments>
concept LayerPushesForward = requires(const Layer& layer, Arguments&... arguments) {
  layer.pushforward(arguments...);
};

/// Whether the pullback or the pushforward of a layer takes its inputs.
template <class M, class State, class Space, class Y, class... X>
inline constexpr bool reads_inputs_v = [] {
  using Layer = typename M::layer_type;
  if constexpr (has_parameters_v<Layer, typename M::value_type, typename M::memory_space>)
    return true;
  else if constexpr (std::is_same_v<State, NoState>)
    return LayerPullsBack<Layer, const Space, const X..., const Y, const X...> ||
           LayerPushesForward<Layer, const Space, const Y, const X..., const X...>;
  else
    return LayerPullsBack<Layer, const Space, State, const X..., const Y, const X...> ||
           LayerPushesForward<Layer, const Space, State, const Y, const X..., const X...>;
}();

/// ty for tuples tx and x; parameters are constants.
template <class M, class State, class Space, class TY, class... TX, class... X>
void push_module(const M& m, State& state, const Space& space, const TY& ty,
                 const std::tuple<TX...>& tx, const std::tuple<X...>& x) {
  const auto& layer = layer_as_run(m);
  with_own_arguments(m, state, [&](auto&... own) {
    const auto both = std::tuple_cat(tx, x);
    if constexpr (sizeof...(own) > (std::is_same_v<State, NoState> ? 0 : 1))
      std::apply([&](auto&... in) { layer.pushforward(space, own..., not_wanted, ty, in...); },
                 both);
    else if constexpr (LayerPushesForward<typename M::layer_type, const Space,
                                          std::remove_reference_t<decltype(own)>..., const TY,
                                          TX..., X...>)
      std::apply([&](auto&... in) { layer.pushforward(space, own..., ty, in...); }, both);
    else
      std::apply([&](auto&... in) { layer.pushforward(space, own..., ty, in...); }, tx);
  });
}

/// A tuple dx from dy; adds to the gradients of parameters that aren't frozen.
template <class M, class State, class Space, class... DX, class DY, class... X>
void pull_module(const M& m, State& state, const Space& space, const std::tuple<DX...>& dx,
                 const DY& dy, const std::tuple<X...>& x) {
  constexpr bool wanted = (is_wanted_v<std::remove_cvref_t<DX>> || ...);
  const auto& layer     = layer_as_run(m);
  with_own_arguments(m, state, [&](auto&... own) {
    const auto both = std::tuple_cat(dx, std::tie(dy), x);
    if constexpr (sizeof...(own) > (std::is_same_v<State, NoState> ? 0 : 1)) {
      if (!m.is_frozen())
        std::apply([&](auto&... in) { layer.pullback(space, own..., m.gradients(), in...); }, both);
      else if constexpr (wanted)
        std::apply([&](auto&... in) { layer.pullback(space, own..., not_wanted, in...); }, both);
    } else if constexpr (wanted) {
      if constexpr (LayerPullsBack<typename M::layer_type, const Space,
                                   std::remove_reference_t<decltype(own)>..., DX..., const DY,
                                   X...>)
        std::apply([&](auto&... in) { layer.pullback(space, own..., in...); }, both);
      else
        std::apply([&](auto&... in) { layer.pullback(space, own..., in...); },
                   std::tuple_cat(dx, std::tie(dy)));
    }
  });
}

}  // namespace shard::impl

#endif
