// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_IMPL_ZEROED_VIEW_HPP
#define SHARD_VIEW_IMPL_ZEROED_VIEW_HPP

#include <Kokkos_Core.hpp>

#include <string>
#include <type_traits>

namespace shard::impl {

/// float, 3 gives float***
template <class T, int Rank>
struct Pointers {
  using type = typename Pointers<T*, Rank - 1>::type;
};
template <class T>
struct Pointers<T, 0> {
  using type = T;
};

/// A new View, set to zero, that the library allocates: see zeroed_view.
template <class View>
View usual_view(const std::string& label, const Kokkos::LayoutRight& layout);

/// Whether the library has usual_view for this type.
template <class View>
inline constexpr bool is_usual_view_v = false;
template <class Data>
inline constexpr bool is_usual_view_v<Kokkos::View<Data, Kokkos::LayoutRight>> = [] {
  using View  = Kokkos::View<Data, Kokkos::LayoutRight>;
  using Value = typename View::value_type;
  return (std::is_same_v<Value, float> || std::is_same_v<Value, double>)&&View::rank() >= 1 &&
         View::rank() <= 5 && View::rank_dynamic() == View::rank();
}();
template <class T>
inline constexpr bool is_usual_view_v<
    Kokkos::View<T*, Kokkos::LayoutRight, Kokkos::DefaultExecutionSpace::memory_space>> =
    std::is_same_v<T, float> || std::is_same_v<T, double>;

/// A new View, set to zero. The library allocates the usual ones: an allocation is a hundred
/// functions of Kokkos', which each program would compile for each type of View.
template <class View>
View zeroed_view(const std::string& label, const typename View::array_layout& layout) {
  if constexpr (is_usual_view_v<View>)
    return usual_view<View>(label, layout);
  else
    return View(Kokkos::view_alloc(label), layout);
}

}  // namespace shard::impl

#endif
