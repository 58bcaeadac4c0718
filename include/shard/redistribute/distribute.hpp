// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDISTRIBUTE_DISTRIBUTE_HPP
#define SHARD_REDISTRIBUTE_DISTRIBUTE_HPP

#include <Kokkos_Core.hpp>

#include <concepts>
#include <type_traits>

#include "shard/redistribute/redistribute.hpp"
#include "shard/view/placements.hpp"
#include "shard/view/region.hpp"

namespace shard {

namespace impl {

/// field(i, j, ...) = function(global indices of i, j, ...), or zero.
template <class Field, class Function>
struct FillByIndexKernel {
  Field field;
  Function function;
  bool contributes;

  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    using T = typename Field::non_const_value_type;
    int d   = 0;
    index_t global[Field::rank];
    ((global[d] = field.to_global(d, static_cast<index_t>(i)), ++d), ...);
    field(i...) = contributes
                      ? static_cast<T>(call(global, std::make_integer_sequence<int, Field::rank>{}))
                      : T{};
  }

 private:
  template <int... D>
  KOKKOS_FUNCTION auto call(const index_t* global, std::integer_sequence<int, D...>) const {
    return function(global[D]...);
  }
};

template <class View>
inline constexpr bool is_view_v = Kokkos::is_view<View>::value;

template <class Space, class Field, class View>
constexpr void check_array() {
  static_assert(
      static_cast<int>(View::rank()) == Field::rank &&
          std::is_same_v<typename View::non_const_value_type, typename Field::non_const_value_type>,
      "the array on the root has the field's rank and value type");
  static_assert(Kokkos::SpaceAccessibility<Space, typename View::memory_space>::accessible &&
                    Kokkos::SpaceAccessibility<Space, typename Field::memory_space>::accessible,
                "the execution space can't reach the memory of the field and of the array");
  static_assert(std::is_trivially_copyable_v<typename Field::value_type>,
                "fields are moved as bytes: they need a value type that is trivially copyable");
}

template <class Field, class View>
RedistributionSide array_side(const char* function, const Field& field, const View& view,
                              int root) {
  index_t extents[Field::rank];
  RedistributionSide side;
  side.data =
      reinterpret_cast<std::byte*>(const_cast<typename View::non_const_value_type*>(view.data()));
  side.left = std::is_same_v<typename View::array_layout, Kokkos::LayoutLeft>;
  for (int d = 0; d < Field::rank; ++d) {
    extents[d]                   = static_cast<index_t>(view.extent(static_cast<std::size_t>(d)));
    side.stride[Geometry::at(d)] = static_cast<index_t>(view.stride(static_cast<std::size_t>(d))) *
                                   static_cast<index_t>(sizeof(typename View::value_type));
  }
  require_array(function, field.any_geometry(), root, extents);
  return side;
}

}  // namespace impl

/// Fills the owned points of a field from a View on one rank, `root` in the mesh's communicator,
/// which has the field's global extents; the Views of other ranks are ignored and may be empty. For
/// a Partial field see `redistribute`. Collective over the mesh; blocking. Throws ArgumentError on
/// every rank if the root's View has other extents or there is no such rank.
template <class Space, AnyShardedView Field, class View>
requires(impl::is_view_v<View>) void distribute(const Space& space, const Field& field,
                                                const View& view, int root = 0) {
  impl::check_array<Space, Field, View>();
  static_assert(!std::is_const_v<typename Field::value_type>,
                "distribute writes the field: it needs a value type that isn't const");
  const auto array = impl::array_side("distribute", field, view, root);
  auto redistribution =
      impl::redistribution_of<typename Field::value_type>("distribute", field.any_geometry());
  redistribution.to   = impl::side_of(field);
  redistribution.from = array;
  redistribution.root = root;
  impl::Redistributions<Space>::run(space, redistribution);
  impl::mark_moved(space, field);
}

/// Fills the owned points of a field with function(g0, g1, ...) of their global indices (index_t),
/// on the device. In a Partial sum coordinate 0 gets the values, the others zeros. Local.
template <class Space, AnyShardedView Field, class Function>
requires(!impl::is_view_v<Function> &&
         !AnyShardedView<Function>) void distribute(const Space& space, const Field& field,
                                                    const Function& function) {
  if (!impl::FieldAccess::is_made(field)) return;
  parallel_for("shard::distribute", space, owned_region(field),
               impl::FillByIndexKernel<Field, Function>{field, function,
                                                        impl::holds_values(field.any_geometry())});
  impl::mark_moved(space, field);
}

/// Copies the owned points of a field into a View on one rank, the inverse of `distribute`.
/// Combines the contributions of a Partial field. Collective over the mesh; blocking.
template <class Space, class View, AnyShardedView Field>
requires(impl::is_view_v<View>) void gather(const Space& space, const View& view,
                                            const Field& field, int root = 0) {
  impl::check_array<Space, Field, View>();
  static_assert(!std::is_const_v<typename View::value_type>,
                "gather writes its array: it needs a value type that isn't const");
  const auto array = impl::array_side("gather", field, view, root);
  auto redistribution =
      impl::redistribution_of<typename Field::non_const_value_type>("gather", field.any_geometry());
  redistribution.to   = array;
  redistribution.from = impl::side_of(field);
  redistribution.op   = field.any_geometry().partials.reduction;
  redistribution.root = root;
  impl::Redistributions<Space>::run(space, redistribution);
}

/// Copies the owned points of the ranks at coordinate `root` of an axis to all others along it. The
/// axis must replicate the field. Collective over the mesh; blocking. Throws ArgumentError on every
/// rank if the mesh has no such axis or coordinate.
template <class Axis, class Space, AnyShardedView Field>
void broadcast(const Space& space, const Field& field, int root = 0) {
  static_assert(std::is_same_v<placement_along<Field, Axis>, Replicate>,
                "broadcast is along an axis that neither shards the field nor is Partial");
  impl::check_redistribution<Field, Field>();
  impl::check_reach<Space, Field>();
  auto redistribution = impl::redistribution_between("broadcast", field, field);
  impl::append_positions(*redistribution.mesh, impl::AxisList<Axis>{}, &redistribution.pinned_axis);
  impl::require_coordinate("broadcast", *redistribution.mesh, redistribution.pinned_axis, root);
  redistribution.pinned_to = root;
  impl::Redistributions<Space>::run(space, redistribution);
  impl::mark_moved(space, field);
}

}  // namespace shard

#endif
