// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_IMPL_HOST_POINTS_HPP
#define SHARD_VIEW_IMPL_HOST_POINTS_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <type_traits>

#include "shard/base/types.hpp"

namespace shard::impl {

/// The points of a View in the host's memory, without its type: the library has the loops over them
/// once, where each program would compile its own for each type of View.
struct HostPoints {
  static constexpr int max_rank = 8;
  std::byte* origin             = nullptr;
  std::size_t size              = 0;  ///< bytes of a value
  int rank                      = 0;
  index_t extent[max_rank] = {}, stride[max_rank] = {};  ///< strides in values

  template <class View>
  static HostPoints of(const View& view) {
    HostPoints p;
    p.origin =
        reinterpret_cast<std::byte*>(const_cast<typename View::non_const_value_type*>(view.data()));
    p.size = sizeof(typename View::value_type);
    p.rank = static_cast<int>(View::rank());
    for (std::size_t d = 0; d < View::rank(); ++d) {
      p.extent[d] = static_cast<index_t>(view.extent(d));
      p.stride[d] = static_cast<index_t>(view.stride(d));
    }
    return p;
  }
};

/// Copies values. The extents are the same, and the memory doesn't overlap, or is the same.
void copy_points(const Kokkos::DefaultHostExecutionSpace& space, const HostPoints& to,
                 const HostPoints& from);
/// Sets all values to the one at `value`.
void fill_points(const Kokkos::DefaultHostExecutionSpace& space, const HostPoints& to,
                 const void* value);

/// Whether `Space` may fill a View by fill_points.
template <class Space, class View>
inline constexpr bool has_host_points_v =
    std::is_same_v<Space, Kokkos::DefaultHostExecutionSpace>&&
        std::is_same_v<typename View::memory_space, Kokkos::HostSpace>&&
            std::is_trivially_copyable_v<typename View::value_type> &&
    (sizeof(typename View::value_type) == 1 || sizeof(typename View::value_type) == 2 ||
     sizeof(typename View::value_type) == 4 || sizeof(typename View::value_type) == 8 ||
     sizeof(typename View::value_type) == 16);

/// to(...) = value, as by Kokkos::deep_copy.
template <class Space, class View>
void fill_view(const Space& space, const View& to,
               const typename View::non_const_value_type& value) {
  if constexpr (has_host_points_v<Space, View>)
    fill_points(space, HostPoints::of(to), &value);
  else
    Kokkos::deep_copy(space, to, value);
}

}  // namespace shard::impl

#endif
