// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MESH_AXIS_HPP
#define SHARD_MESH_AXIS_HPP

#include <type_traits>

namespace shard {

/// The axis of a dimension that has a halo and is not cut.
struct Unsharded {};

/// Several mesh axes that cut one dimension together, the first the slowest: ranks along (A, B) own
/// consecutive pieces.
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

/// Whether the mesh that makes a field has the axes that cut it.
template <class Axis, class... MeshAxes>
inline constexpr bool mesh_has_axis_v = (std::is_same_v<Axis, MeshAxes> || ...);

/// What tells one axis from another where types are gone: an address.
template <class Axis>
inline char axis_mark = 0;
template <class Axis>
const void* axis_id() {
  return &axis_mark<Axis>;
}

template <class Axis, class... All>
struct Position {
  static_assert(mesh_has_axis_v<Axis, All...>, "the mesh has no such axis");
  static constexpr int value = position<Axis, All...>();
};

/// Position of `Axis` in `All`; a sentence if it isn't there.
template <class Axis, class... All>
inline constexpr int position_v = Position<Axis, All...>::value;

}  // namespace impl
}  // namespace shard

#endif
