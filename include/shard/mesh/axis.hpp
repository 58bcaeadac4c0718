// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MESH_AXIS_HPP
#define SHARD_MESH_AXIS_HPP

#include <string_view>
#include <type_traits>

namespace shard {

template <class... Axes>
class Mesh;

/// The axis of a dimension that has a halo and is not sharded.
struct Unsharded {};

/// Several mesh axes that shard one dimension together, the first the slowest: ranks along (A, B)
/// own consecutive pieces.
template <class... A>
struct Axes {
  static_assert(sizeof...(A) >= 1, "Axes<...> names at least one mesh axis");
};

namespace impl {

template <class...>
inline constexpr bool all_different_v = true;
template <class First, class... Rest>
inline constexpr bool all_different_v<First, Rest...> =
    (!std::is_same_v<First, Rest> && ...) && all_different_v<Rest...>;

template <class Axis, class... All>
constexpr int position() {
  constexpr bool same[] = {std::is_same_v<Axis, All>..., false};
  for (int i = 0; i < static_cast<int>(sizeof...(All)); ++i)
    if (same[i]) return i;
  return -1;
}

/// Whether a type is among others.
template <class Axis, class... All>
inline constexpr bool is_among_v = (std::is_same_v<Axis, All> || ...);

/// Whether a mesh has an axis. A failed check shows both names.
template <class Axis, class MeshType>
struct mesh_has_axis;
template <class Axis, class... MeshAxes>
struct mesh_has_axis<Axis, Mesh<MeshAxes...>> {
  static constexpr bool value = is_among_v<Axis, MeshAxes...>;
};

/// The name of a type, as the compiler spells it.
template <class T>
constexpr std::string_view type_name() {
  const std::string_view here = __PRETTY_FUNCTION__;  // "... [with T = X; ...]", "... [T = X]"
  const std::size_t begin     = here.find("T = ") + 4;
  return here.substr(begin, here.find_first_of(";]", begin) - begin);
}

/// A type-erased axis: its address identifies the axis.
struct AxisMark {
  std::string_view name;
};
using AxisId = const AxisMark*;
template <class Axis>
inline constexpr AxisMark axis_mark{type_name<Axis>()};
template <class Axis>
AxisId axis_id() {
  return &axis_mark<Axis>;
}

template <class Axis, class... All>
struct Position {
  static_assert(mesh_has_axis<Axis, Mesh<All...>>::value,
                "the mesh has no such axis; it has those of its type, Mesh<Axes...>");
  static constexpr int value = position<Axis, All...>();
};

/// Position of `Axis` in `All`; a compile-time message if it isn't there.
template <class Axis, class... All>
inline constexpr int position_v = Position<Axis, All...>::value;

}  // namespace impl
}  // namespace shard

#endif
