// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_COPY_HPP
#define SHARD_VIEW_COPY_HPP

#include <Kokkos_Core.hpp>

#include <type_traits>

#include "shard/base/error.hpp"
#include "shard/view/impl/host_points.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

namespace impl {

template <class Field>
struct MirrorOf;
template <class T, class Layout, class... Options>
struct MirrorOf<ShardedView<T, Layout, Options...>> {
  using Field                = ShardedView<T, Layout, Options...>;
  static constexpr bool same = std::is_same_v<typename Field::memory_space, Kokkos::HostSpace>;

  template <class... Kept>
  struct List {};
  template <class Done, class... Rest>
  struct WithoutDevice;
  template <class... Done>
  struct WithoutDevice<List<Done...>> {
    using type = ShardedView<typename Field::view_type::non_const_data_type, Layout, Done...,
                             Kokkos::HostSpace>;
  };
  template <class... Done, class First, class... Rest>
  struct WithoutDevice<List<Done...>, First, Rest...>
      : std::conditional_t<is_placement_v<First>, WithoutDevice<List<Done..., First>, Rest...>,
                           WithoutDevice<List<Done...>, Rest...>> {};

  using type = std::conditional_t<same, Field, typename WithoutDevice<List<>, Options...>::type>;
};

/// Whether the allocation has exactly the field's points and halo. False for a field converted from
/// one with a wider halo.
template <class Field>
bool is_whole_allocation(const Field& field) {
  bool whole = true;
  for (int d = 0; d < Field::rank; ++d)
    whole = whole && static_cast<index_t>(field.view().extent(static_cast<std::size_t>(d))) ==
                         field.extent(d) + Field::halo_lo(d) + Field::halo_hi(d);
  return whole;
}

/// A contiguous array of a View's extents in another memory.
template <class Memory, class View>
auto contiguous_like(const View& view) {
  using Layout = std::conditional_t<std::is_same_v<typename View::array_layout, Kokkos::LayoutLeft>,
                                    Kokkos::LayoutLeft, Kokkos::LayoutRight>;
  Layout layout;
  for (std::size_t d = 0; d < View::rank(); ++d) layout.dimension[d] = view.extent(d);
  return Kokkos::View<typename View::non_const_data_type, Layout, Memory>(
      Kokkos::view_alloc(Kokkos::WithoutInitializing, "shard: to be copied"), layout);
}

/// Whether two memories differ and the host can access one of them.
template <class A, class B>
inline constexpr bool is_copy_of_host_v =
    !std::is_same_v<A, B> && (Kokkos::SpaceAccessibility<Kokkos::HostSpace, A>::accessible ||
                              Kokkos::SpaceAccessibility<Kokkos::HostSpace, B>::accessible);

/// Kokkos::deep_copy, extended to non-contiguous Views and other layouts in different memories,
/// which are copied through contiguous arrays. Between a device and a host it ends with a fence:
/// Kokkos only enqueues the copy, and how far that blocks the host depends on the memory.
template <class Space, class To, class From>
void copy_views(const Space& space, const To& to, const From& from) {
  using ToMemory           = typename To::memory_space;
  using FromMemory         = typename From::memory_space;
  constexpr bool reachable = Kokkos::SpaceAccessibility<Space, ToMemory>::accessible &&
                             Kokkos::SpaceAccessibility<Space, FromMemory>::accessible;
  constexpr bool same_values =
      std::is_same_v<typename To::non_const_value_type, typename From::non_const_value_type>;
  constexpr bool alike =
      std::is_same_v<typename To::array_layout, typename From::array_layout> && same_values;
  [[maybe_unused]] constexpr const char* fence = "shard::deep_copy: between a device and a host";
  if constexpr (same_values && has_host_points_v<Space, To> && has_host_points_v<Space, From>) {
    copy_points(space, HostPoints::of(to), HostPoints::of(from));
  } else if constexpr (reachable || std::is_same_v<ToMemory, FromMemory>) {
    Kokkos::deep_copy(space, to, from);
    if constexpr (is_copy_of_host_v<ToMemory, FromMemory>) space.fence(fence);
  } else {
    if constexpr (alike)
      if (to.span_is_contiguous() && from.span_is_contiguous()) {
        Kokkos::deep_copy(space, to, from);
        space.fence(fence);
        return;
      }
    const auto here = contiguous_like<FromMemory>(from);
    const auto there =
        Kokkos::create_mirror(Kokkos::view_alloc(ToMemory(), Kokkos::WithoutInitializing), here);
    Kokkos::deep_copy(space, here, from);
    Kokkos::deep_copy(space, there, here);
    Kokkos::deep_copy(space, to, there);
    space.fence(fence);
  }
}

}  // namespace impl

/// The type of a field's mirror on the host.
template <class Field>
using host_mirror_t = typename impl::MirrorOf<Field>::type;

/// A field of the same geometry in host-accessible memory: the field itself if the host can access
/// it, else a new one (deep_copy copies the values). Local.
template <AnyShardedView Field>
host_mirror_t<Field> create_mirror_view(const Field& field) {
  if constexpr (impl::MirrorOf<Field>::same)
    return field;
  else if (impl::FieldAccess::is_made(field))
    return impl::FieldAccess::mirror<host_mirror_t<Field>>(field,
                                                           Kokkos::create_mirror(field.view()));
  else
    return {};
}

/// Wraps `view` as a field with the same type, mesh, partitions and label as another field. The
/// View's extents must be the owned points and the halo; its strides may differ. Local, without a
/// copy, so a host code can wrap its scratch arrays cheaply. Throws ArgumentError if an extent
/// differs, or for a default-constructed field.
template <AnyShardedView Field>
[[nodiscard]] Field rebind(const Field& field, const typename Field::view_type& view) {
  using Type = impl::FieldTypeOf<Field>;
  impl::require_own_extents(field.any_geometry(), Type::types.data(),
                            Type::extents_of(view).data());
  return impl::FieldAccess::wrap<Field>(field.any_geometry(), view);
}

/// Copies all points, halos too, from a field of the same geometry in any memory. Local, ordered on
/// `space`. Between a device and a host, also if the host's memory is pinned, it blocks until the
/// copy is complete, and copies non-contiguous parts through a contiguous array. Throws
/// ArgumentError if the local extents differ. Default-constructed fields are empty.
template <class Space, AnyShardedView To, AnyShardedView From>
void deep_copy(const Space& space, const To& to, const From& from) {
  static_assert(To::rank == From::rank, "deep_copy is between fields of the same rank");
  static_assert(std::is_same_v<typename To::partial_axes, typename From::partial_axes> &&
                    std::is_same_v<typename To::reduction, typename From::reduction>,
                "deep_copy is between fields of the same Partials; use redistribute");
  if (impl::FieldAccess::is_made(to) != impl::FieldAccess::is_made(from)) impl::throw_no_field();
  for (int d = 0; d < To::rank; ++d)
    if (to.extent(d) != from.extent(d) || To::halo_lo(d) != From::halo_lo(d) ||
        To::halo_hi(d) != From::halo_hi(d))
      impl::throw_argument(
          "deep_copy",
          {"dimension ", impl::text(d), " of \"", to.label(), "\" has ", impl::text(to.extent(d)),
           " cells and a halo of ", impl::text(To::halo_lo(d)), " + ", impl::text(To::halo_hi(d)),
           ", that of \"", from.label(), "\" has ", impl::text(from.extent(d)), " and ",
           impl::text(From::halo_lo(d)), " + ", impl::text(From::halo_hi(d))});
  if (impl::is_whole_allocation(to) && impl::is_whole_allocation(from))
    impl::copy_views(space, to.view(), from.view());
  else
    impl::copy_views(space, to.haloed(), from.haloed());
}

/// Sets all points, halos too; -0.0 may become +0.0, as with Kokkos::deep_copy. Local, ordered on
/// `space`.
template <class Space, AnyShardedView To>
void deep_copy(const Space& space, const To& to, const typename To::non_const_value_type& value) {
  if (impl::is_whole_allocation(to))
    impl::fill_view(space, to.view(), value);
  else
    impl::fill_view(space, to.haloed(), value);
}

/// A subview without the first `before` and last `after` rows of dimension `Dim`. Throws
/// ArgumentError if it has fewer rows.
template <int Dim, class T, class... Properties>
auto trim(const Kokkos::View<T, Properties...>& view, index_t before, index_t after) {
  static_assert(Dim >= 0 && Dim < static_cast<int>(Kokkos::View<T, Properties...>::rank),
                "trim names a dimension that the View does not have");
  const auto rows = static_cast<index_t>(view.extent(Dim));
  if (before < 0 || after < 0 || before + after > rows)
    impl::throw_argument("trim",
                         {"can't take ", impl::text(before), " rows before and ", impl::text(after),
                          " after from the ", impl::text(rows), " of dimension ", impl::text(Dim)});
  const auto range = [&](int d) {
    const auto n = static_cast<index_t>(view.extent(static_cast<std::size_t>(d)));
    return d == Dim ? std::pair<index_t, index_t>(before, n - after)
                    : std::pair<index_t, index_t>(0, n);
  };
  return [&]<int... D>(std::integer_sequence<int, D...>) {
    return Kokkos::subview(view, range(D)...);
  }
  (std::make_integer_sequence<int, static_cast<int>(Kokkos::View<T, Properties...>::rank)>{});
}

}  // namespace shard

#endif
