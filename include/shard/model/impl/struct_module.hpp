// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_IMPL_STRUCT_MODULE_HPP
#define SHARD_MODEL_IMPL_STRUCT_MODULE_HPP

#include <array>
#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/model/impl/members.hpp"
#include "shard/model/impl/model_fields.hpp"
#include "shard/model/module.hpp"

/// \file
/// Models that are structs: the modules of their members.

namespace shard {

/// The module of a struct.
template <class S, class List>
struct StructModule {
  std::shared_ptr<const S> self;  ///< the struct, whose function calls its members
  List inner;                     ///< of its members that are layers, blocks or structs
};
/// The modules of a member that is a std::vector or a std::array.
template <class M>
struct ModuleArray {
  std::vector<M> items;  ///< in order
};

namespace impl {

template <class X>
inline constexpr bool is_layer_v = requires {
  sharding_rule<X>::value;
}
|| requires { typename X::template Parameters<double, Kokkos::HostSpace>; };
/// Whether a type declares itself an operation: see autodiff/operation.hpp.
template <class X>
inline constexpr bool is_operation_v = requires {
  X::takes_not_wanted;
}
|| requires { X::remembers; };
template <class X>
inline constexpr bool is_block_v = false;
template <class... Layers>
inline constexpr bool is_block_v<Sequence<Layers...>> = true;
template <class... Layers>
inline constexpr bool is_block_v<Residual<Layers...>> = true;
template <class... Layers>
inline constexpr bool is_block_v<Concat<Layers...>> = true;

template <class X>
struct ArrayItem {
  using type = void;
};
template <class X>
struct ArrayItem<std::vector<X>> {
  using type = X;
};
template <class X, std::size_t N>
struct ArrayItem<std::array<X, N>> {
  using type = X;
};

/// Whether a member of a struct is a module, or an array of modules.
template <class X>
constexpr bool is_node();
/// Whether it is a struct of modules.
template <class X>
constexpr bool is_struct_of_modules() {
  if constexpr (!std::is_class_v<X> || !std::is_aggregate_v<X> || std::is_empty_v<X> ||
                is_layer_v<X> || is_operation_v<X> || is_block_v<X> ||
                !std::is_void_v<typename ArrayItem<X>::type>)
    return false;
  else
    return []<std::size_t... I>(std::index_sequence<I...>) {
      using Members = decltype(members(std::declval<X&>()));
      return (is_node<std::remove_cvref_t<std::tuple_element_t<I, Members>>>() || ...);
    }
  (std::make_index_sequence<member_count_v<X>>{});
}
template <class X>
constexpr bool is_node() {
  if constexpr (std::is_void_v<X>)
    return false;
  else if constexpr (!std::is_void_v<typename ArrayItem<X>::type>)
    return is_node<typename ArrayItem<X>::type>();
  else
    return is_layer_v<X> || is_block_v<X> || is_struct_of_modules<X>();
}

template <class S, class List>
const List& children_of(const StructModule<S, List>& m) {
  return m.inner;
}

/// Calls use(index, member) for the members of a struct that are nodes, with the number of the
/// member as a std::integral_constant.
template <std::size_t I = 0, class S, class Use>
void for_each_node(const S& self, const Use& use) {
  if constexpr (I < member_count_v<S>) {
    const auto& member = std::get<I>(members(self));
    if constexpr (is_node<std::remove_cvref_t<decltype(member)>>())
      use(std::integral_constant<std::size_t, I>{}, member);
    for_each_node<I + 1>(self, use);
  }
}

}  // namespace impl
}  // namespace shard

#endif
