// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_IMPL_RUN_NODE_HPP
#define SHARD_MODEL_IMPL_RUN_NODE_HPP

#include <cstddef>
#include <tuple>
#include <vector>

#include "shard/model/impl/layer_call.hpp"
#include "shard/model/impl/model_fields.hpp"
#include "shard/model/impl/skips.hpp"
#include "shard/model/module.hpp"

/// \file
/// Records a model's modules. `meet` are the partitions of a finer level, which an upsampling
/// layer's output takes, or null.

namespace shard::impl {

/// The halo and boundary that a node needs of its input.
template <class Cuts, class Node>
struct NodeWants {
  using type = NoWants<Cuts::dims>;
};
template <class Cuts, class T, class Memory, class Layer>
struct NodeWants<Cuts, Module<T, Memory, Layer>> {
  using type = LayerWants<Layer, Cuts>;
};
template <class Cuts, class First, class... Children>
struct NodeWants<Cuts, ModuleList<First, Children...>> : NodeWants<Cuts, decltype(First::module)> {
};
template <class Cuts, class List>
struct NodeWants<Cuts, ResidualModule<List>> : NodeWants<Cuts, List> {};
template <class Cuts, class List>
struct NodeWants<Cuts, ConcatModule<List>> : NodeWants<Cuts, List> {};

/// The last of a list's children that can take a finer level's partitions, or -1.
template <class... Children>
constexpr int meeting_child() {
  constexpr bool can[] = {node_can_meet_v<decltype(Children::module)>...};
  int at               = -1;
  for (int i = 0; i < static_cast<int>(sizeof...(Children)); ++i)
    if (can[i]) at = i;
  return at;
}

template <class Recorder, class T, class Memory, class Layer>
int run_node(Recorder& recorder, const Module<T, Memory, Layer>& module, int x,
             const typename Recorder::Partitions* meet) {
  auto out = recorder.partitions_after(module.layer(), x);
  if constexpr (can_meet_v<Layer>)
    if (meet != nullptr)
      for (std::size_t d = 2; d < out.size(); ++d) out[d] = (*meet)[d];
  return recorder.run(module, out, x);
}
template <class Recorder, class... Children>
int run_node(Recorder& recorder, const ModuleList<Children...>& list, int x,
             const typename Recorder::Partitions* meet);

/// y = x + f(x).
template <class Recorder, class List>
int run_node(Recorder& recorder, const ResidualModule<List>& node, int x,
             const typename Recorder::Partitions*) {
  const auto in = recorder.partitions(x);
  const int f   = run_node(recorder, node.inner, x, &in);
  return recorder.run_operation(AddSkip{}, typename Recorder::Partitions(recorder.partitions(f)), f,
                                x);
}
/// y's channels are x's, then f(x)'s.
template <class Recorder, class List>
int run_node(Recorder& recorder, const ConcatModule<List>& node, int x,
             const typename Recorder::Partitions*) {
  const auto in = recorder.partitions(x);
  const int f   = run_node(recorder, node.inner, x, &in);
  return recorder.run_joined(shard::Concatenate{1}, x, f);
}

/// Modules in sequence. An upsampling that doesn't have to match a level outside of the list takes
/// the partitions of the level in the list with the same extents, to save later redistribution.
template <class Recorder, class... Children>
int run_node(Recorder& recorder, const ModuleList<Children...>& list, int x,
             const typename Recorder::Partitions* meet) {
  using Partitions      = typename Recorder::Partitions;
  constexpr int meeting = meeting_child<Children...>();
  std::vector<Partitions> levels;  // inputs of the children so far
  int number        = 0;
  const auto record = [&](const auto& child) {
    const auto& node        = child.module;
    using Node              = std::remove_cvref_t<decltype(node)>;
    const Partitions* meets = number == meeting ? meet : nullptr;
    if constexpr (node_can_meet_v<Node>)
      if (meets == nullptr) {
        const Partitions out = partitions_after(node.layer(), recorder.partitions(x));
        for (auto level = levels.rbegin(); level != levels.rend() && meets == nullptr; ++level) {
          bool same = true;
          for (std::size_t d = 2; d < out.size(); ++d)
            same = same && (*level)[d].size() == out[d].size();
          if (same) meets = &*level;
        }
      }
    levels.push_back(recorder.partitions(x));
    // after the search: meets may be in levels
    const Partitions met = meets != nullptr ? *meets : Partitions{};
    x                    = run_node(recorder, node, x, meets != nullptr ? &met : nullptr);
    ++number;
  };
  std::apply([&](const auto&... child) { (record(child), ...); }, list.children);
  return x;
}

}  // namespace shard::impl

#endif
