// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_IMPL_FLAT_LIST_HPP
#define SHARD_MODEL_IMPL_FLAT_LIST_HPP

#include <cstddef>
#include <type_traits>

#include "shard/model/module.hpp"
#include "shard/model/impl/layer_call.hpp"

namespace shard::impl {

/// Whether a block in a list may be flattened: no layer of it takes the partition of a finer level,
/// because that is defined by its own list.
template <class Node>
inline constexpr bool joins_list_v = false;
template <class... Children>
inline constexpr bool joins_list_v<ModuleList<Children...>> =
    (!node_can_meet_v<decltype(Children::module)> && ...);

/// The children of a list, with blocks flattened.
template <class Done, class... Rest>
struct FlattenInto {
  using type = Done;
};
template <class Done, class Node, class... Rest>
struct FlattenChild;
template <class... Done, class First, class... Rest>
struct FlattenInto<ModuleList<Done...>, First, Rest...>
    : FlattenChild<ModuleList<Done...>, decltype(First::module), First, Rest...> {};
template <class... Done, class Node, class First, class... Rest>
struct FlattenChild<ModuleList<Done...>, Node, First, Rest...>
    : FlattenInto<ModuleList<Done..., First>, Rest...> {};
template <class... Done, class... Inner, class First, class... Rest>
requires joins_list_v<ModuleList<Inner...>>
struct FlattenChild<ModuleList<Done...>, ModuleList<Inner...>, First, Rest...>
    : FlattenInto<ModuleList<Done...>, Inner..., Rest...> {
};

template <class List>
struct Flattened;
template <class... Children>
struct Flattened<ModuleList<Children...>> : FlattenInto<ModuleList<>, Children...> {};

/// The number of modules of a node after flattening.
template <class Node>
constexpr std::size_t modules_in_list() {
  if constexpr (joins_list_v<Node>)
    return []<class... C>(std::type_identity<ModuleList<C...>>) {
      return sizeof...(C);
    }(std::type_identity<typename Flattened<Node>::type>{});
  else
    return 1;
}

}  // namespace shard::impl

#endif
