// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_SUBVIEW_HPP
#define SHARD_VIEW_SUBVIEW_HPP

#include <Kokkos_Core.hpp>

#include <concepts>
#include <type_traits>
#include <utility>

#include "shard/base/error.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

namespace impl {

/// Which dimensions a subview keeps: an index drops its dimension, Kokkos::ALL keeps it.
template <class... Args>
struct Kept {
  static constexpr int count    = (static_cast<int>(!std::is_integral_v<Args>) + ... + 0);
  static constexpr bool stays[] = {!std::is_integral_v<Args>...};

  static constexpr int before(int d) {
    int n = 0;
    for (int i = 0; i < d; ++i) n += stays[i] ? 1 : 0;
    return n;
  }
  template <int Dim>
  static constexpr int of = before(Dim);

  /// Whether only the first (or only the last) dimensions are dropped, so that the others keep
  /// their layout.
  static constexpr bool first_go() {
    for (int d = 1; d < static_cast<int>(sizeof...(Args)); ++d)
      if (stays[d - 1] && !stays[d]) return false;
    return true;
  }
  static constexpr bool last_go() {
    for (int d = 1; d < static_cast<int>(sizeof...(Args)); ++d)
      if (!stays[d - 1] && stays[d]) return false;
    return true;
  }
};

template <class V, int Rank>
struct AddPointers : AddPointers<V*, Rank - 1> {};
template <class V>
struct AddPointers<V, 0> {
  using type = V;
};

template <class Option, class K>
struct RenumberDim {
  static constexpr bool goes = false;
  using type                 = Option;
};
template <int Dim, class Axis, class... Options, class K>
struct RenumberDim<ShardDim<Dim, Axis, Options...>, K> {
  using From                 = ShardDim<Dim, Axis, Options...>;
  static constexpr bool goes = !K::stays[Dim];
  static_assert(!goes ||
                    (std::is_same_v<Axis, Unsharded> && From::halo::lo == 0 && From::halo::hi == 0),
                "subview fixes a dimension that is sharded or has a halo; only an unsharded "
                "dimension can be fixed");
  using Boundary = typename RenumberBoundary<typename From::boundary, K>::type;
  static_assert(goes || fold_longitude_v<typename From::boundary> < 0 ||
                    K::stays[fold_longitude_v<typename From::boundary> < 0
                                 ? 0
                                 : fold_longitude_v<typename From::boundary>],
                "subview fixes a dimension that a fold or ByIndex names");
  using type =
      std::conditional_t<std::is_void_v<typename From::indices> &&
                             std::is_void_v<typename From::blocks>,
                         ShardDim<K::template of<Dim>, Axis, typename From::halo, Boundary>,
                         ShardDim<K::template of<Dim>, Axis, Options...>>;
};

template <class Made, class K, class... Options>
struct SubviewOptions;
template <class T, class Layout, class... Made, class K>
struct SubviewOptions<ShardedView<T, Layout, Made...>, K> {
  using type = ShardedView<T, Layout, Made...>;
};
template <class T, class Layout, class... Made, class K, class First, class... Rest>
struct SubviewOptions<ShardedView<T, Layout, Made...>, K, First, Rest...>
    : SubviewOptions<
          std::conditional_t<RenumberDim<First, K>::goes, ShardedView<T, Layout, Made...>,
                             ShardedView<T, Layout, Made..., typename RenumberDim<First, K>::type>>,
          K, Rest...> {};

}  // namespace impl

/// A field of lower rank: one argument per dimension, Kokkos::ALL or a local index, which fixes an
/// unsharded dimension. The same memory; the ShardDims are renumbered. Local. Throws ArgumentError
/// for an index out of range.
template <class T, class Layout, class... Options, class... Args>
requires(
    sizeof...(Args) == static_cast<std::size_t>(ShardedView<T, Layout, Options...>::rank) &&
    ((std::integral<Args> ||
      std::is_same_v<Args, Kokkos::ALL_t>)&&...)) auto subview(const ShardedView<T, Layout,
                                                                                 Options...>& field,
                                                               Args... args) {
  using Field = ShardedView<T, Layout, Options...>;
  using K     = impl::Kept<Args...>;
  static_assert(K::count >= 1, "subview keeps at least one dimension");
  constexpr bool same_layout = (std::is_same_v<Layout, Kokkos::LayoutRight> && K::first_go()) ||
                               (std::is_same_v<Layout, Kokkos::LayoutLeft> && K::last_go());
  using NewLayout = std::conditional_t<same_layout, Layout, Kokkos::LayoutStride>;
  using Data      = typename impl::AddPointers<typename Field::value_type, K::count>::type;
  using Result = typename impl::SubviewOptions<ShardedView<Data, NewLayout>, K, Options...>::type;

  const impl::FieldState& whole = impl::FieldAccess::state_of(field);
  impl::FieldState state        = whole;
  // arguments for Kokkos' subview: the View's indices count from its first point
  const auto in_view = [&](int d, auto arg) {
    if constexpr (std::integral<decltype(arg)>)
      return static_cast<index_t>(arg) + whole.front[impl::Geometry::at(d)];
    else
      return arg;
  };
  const auto consider = [&](int d, auto arg) {
    if constexpr (std::integral<decltype(arg)>) {
      if (static_cast<index_t>(arg) < 0 || static_cast<index_t>(arg) >= field.extent(d))
        impl::throw_argument(
            "subview", {"index ", impl::text(static_cast<index_t>(arg)), " is outside dimension ",
                        impl::text(d), " of \"", field.label(), "\", which has ",
                        impl::text(field.extent(d)), " cells"});
      const index_t fixed[] = {d, static_cast<index_t>(arg)};
      state.geometry.part   = impl::hash_bytes(fixed, sizeof(fixed), state.geometry.part);
    } else {
      const auto to           = impl::Geometry::at(K::before(d));
      state.geometry.dims[to] = whole.geometry.dims[impl::Geometry::at(d)];
      state.front[to]         = whole.front[impl::Geometry::at(d)];
    }
  };
  int d = 0;
  (consider(d++, args), ...);
  state.geometry.rank = K::count;
  return [&]<int... D>(std::integer_sequence<int, D...>) {
    return impl::FieldAccess::part<Result>(
        std::move(state),
        typename Result::view_type(Kokkos::subview(field.view(), in_view(D, args)...)));
  }
  (std::make_integer_sequence<int, Field::rank>{});
}

}  // namespace shard

#endif
