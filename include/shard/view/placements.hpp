// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_PLACEMENTS_HPP
#define SHARD_VIEW_PLACEMENTS_HPP

#include <type_traits>
#include <utility>

#include "shard/mesh/mesh.hpp"
#include "shard/view/sharded_view.hpp"

/// \file
/// A field's placements by mesh axis, as in DTensor. (A ShardedView lists them by dimension.)

namespace shard {

/// A mesh axis shards dimension `Dim`. In ShardedFrom, options (a Halo, a boundary) are those of
/// the dimension's ShardDim.
template <int Dim, class... Options>
struct Shard {
  static_assert(Dim >= 0, "dimensions count from 0");
};

/// The ranks along a mesh axis have the same points. (PyTorch's padding mode of this name is
/// Clamp.)
struct Replicate {};

/// One placement for each axis of a mesh, in the order of its axes: Shard, Replicate or Partial.
template <class... P>
struct Placements {};

namespace impl {

template <class Axis, class Field>
struct PlacementAlong {
  template <int D>
  static constexpr int cut_position() {
    return position_in<Axis>(typename AxesOf<typename Field::template axis<D>>::type{});
  }
  static constexpr int dim() {
    return []<int... D>(std::integer_sequence<int, D...>) {
      int found = -1;
      ((cut_position<D>() >= 0 ? void(found = D) : void()), ...);
      return found;
    }
    (std::make_integer_sequence<int, Field::rank>{});
  }
  static constexpr bool is_partial = position_in<Axis>(typename Field::partial_axes{}) >= 0;

  template <int D>
  static auto cut() {
    if constexpr (D >= 0)
      return Shard<D>{};
    else if constexpr (is_partial)
      return Partial<Axis, typename Field::reduction>{};
    else
      return Replicate{};
  }
  using type = decltype(cut<dim()>());
};

/// Whether the axes that shard a dimension together are in the mesh's order.
template <class MeshList, class... A>
constexpr bool in_mesh_order(AxisList<A...>) {
  [[maybe_unused]] int before = -1;
  bool orders                 = true;
  ((orders = orders && position_in<A>(MeshList{}) > before, before = position_in<A>(MeshList{})),
   ...);
  return orders;
}

template <class Field, class MeshType>
struct PlacementsOf;
template <class Field, class... MeshAxes>
struct PlacementsOf<Field, Mesh<MeshAxes...>> {
  template <int... D>
  static constexpr bool all_in_order(std::integer_sequence<int, D...>) {
    return (in_mesh_order<AxisList<MeshAxes...>>(
                typename AxesOf<typename Field::template axis<D>>::type{}) &&
            ...);
  }
  static_assert(Field::template axes_are_among<MeshAxes...>(),
                "the field names an axis that the mesh does not have");
  static_assert(
      all_in_order(std::make_integer_sequence<int, Field::rank>{}),
      "axes that shard one dimension in another order than the mesh's can't be given axis by "
      "axis");
  using type = Placements<typename PlacementAlong<MeshAxes, Field>::type...>;
};

template <int Dim, class Placement>
struct CutsDim : std::false_type {
  using options = AxisList<>;
};
template <int Dim, class... Options>
struct CutsDim<Dim, Shard<Dim, Options...>> : std::true_type {
  using options = AxisList<Options...>;
};

/// The axes, in order, whose placement is a Shard of dimension `Dim`.
template <int Dim, class Axes, class... P>
struct AxesThatCut {
  using type = AxisList<>;
};
template <int Dim, class A, class... As, class P, class... Ps>
struct AxesThatCut<Dim, AxisList<A, As...>, P, Ps...> {
  using type =
      typename Concatenate<std::conditional_t<CutsDim<Dim, P>::value, AxisList<A>, AxisList<>>,
                           typename AxesThatCut<Dim, AxisList<As...>, Ps...>::type>::type;
};

/// The ShardDim (or none) of a dimension that these axes shard.
template <int Dim, class AxisNames, class Options>
struct DimFrom {
  using type = AxisList<>;
};
template <int Dim, class A, class... Options>
struct DimFrom<Dim, AxisList<A>, AxisList<Options...>> {
  using type = AxisList<ShardDim<Dim, A, Options...>>;
};
template <int Dim, class A, class B, class... C, class... Options>
struct DimFrom<Dim, AxisList<A, B, C...>, AxisList<Options...>> {
  using type = AxisList<ShardDim<Dim, Axes<A, B, C...>, Options...>>;
};

/// The option that a placement at position `Axis` adds after the ShardDims: a Partial, or a device.
template <class Axis, class P>
struct OtherOption {
  static_assert(
      std::is_same_v<P, Replicate>,
      "ShardedFrom takes a Shard, Replicate or Partial for each axis of the mesh, then at "
      "most a space or device");
  using type = AxisList<>;
};
template <class Axis, int Dim, class... Options>
struct OtherOption<Axis, Shard<Dim, Options...>> {
  using type = AxisList<>;
};
template <class Axis, class Of, class Op>
struct OtherOption<Axis, Partial<Of, Op>> {
  static_assert(std::is_same_v<Axis, Of>, "a Partial is at the position of its own mesh axis");
  using type = AxisList<Partial<Of, Op>>;
};
template <class AxisNames, class... P>
struct OtherOptions {
  static_assert(sizeof...(P) <= 1, "ShardedFrom has more placements than the mesh has axes");
  using type = AxisList<P...>;
};
template <class A, class... As>
struct OtherOptions<AxisList<A, As...>> {
  static_assert(!std::is_same_v<A, A>, "ShardedFrom has fewer placements than the mesh has axes");
  using type = AxisList<>;
};
template <class A, class... As, class P, class... Ps>
struct OtherOptions<AxisList<A, As...>, P, Ps...> {
  using type = typename Concatenate<typename OtherOption<A, P>::type,
                                    typename OtherOptions<AxisList<As...>, Ps...>::type>::type;
};

template <class T, class Layout, class Options>
struct ViewWith;
template <class T, class Layout, class... Options>
struct ViewWith<T, Layout, AxisList<Options...>> {
  using type = ShardedView<T, Layout, Options...>;
};

template <class T, class Layout, class MeshType, class... P>
struct FieldFrom;
template <class T, class Layout, class... MeshAxes, class... P>
struct FieldFrom<T, Layout, Mesh<MeshAxes...>, P...> {
  static constexpr int rank = static_cast<int>(Kokkos::View<T, Layout>::rank);
  template <class>
  struct Fits : std::true_type {};
  template <int Dim, class... Options>
  struct Fits<Shard<Dim, Options...>> : std::bool_constant<(Dim < rank)> {};
  static_assert((Fits<P>::value && ...),
                "a Shard names a dimension that the data type does not have");

  template <int D>
  using dim_options =
      typename DimFrom<D, typename AxesThatCut<D, AxisList<MeshAxes...>, P...>::type,
                       typename Concatenate<typename CutsDim<D, P>::options...>::type>::type;
  template <int... D>
  static auto collect(std::integer_sequence<int, D...>) {
    return typename Concatenate<dim_options<D>...,
                                typename OtherOptions<AxisList<MeshAxes...>, P...>::type>::type{};
  }
  using options = decltype(collect(std::make_integer_sequence<int, rank>{}));
  using type    = typename ViewWith<T, Layout, options>::type;
};
template <class T, class Layout, class... MeshAxes, class... P, class... Device>
struct FieldFrom<T, Layout, Mesh<MeshAxes...>, Placements<P...>, Device...>
    : FieldFrom<T, Layout, Mesh<MeshAxes...>, P..., Device...> {};

}  // namespace impl

/// The placement of a field of type `Field` along a mesh axis: `Shard<Dim>`, `Partial<Axis, Op>` or
/// `Replicate`.
template <class Field, class Axis>
using placement_along = typename impl::PlacementAlong<Axis, Field>::type;

/// The placements of a field on a mesh, one for each of the mesh's axes, in their order:
/// `Placements<Shard<1>, Replicate, Partial<Model, Sum>>`. Halos aren't included. Does not compile
/// if a dimension is sharded by axes in another order than the mesh's.
template <class Field, class MeshType>
using placements_of = typename impl::PlacementsOf<Field, MeshType>::type;

/// The ShardedView type with these placements: one for each axis of the mesh in order, or
/// Placements<...>; then an optional space or device. Several axes may shard the same dimension,
/// the first slowest. The type's options are the ShardDims by dimension, then the Partials by axis.
template <class T, class Layout, class MeshType, class... P>
using ShardedFrom = typename impl::FieldFrom<T, Layout, MeshType, P...>::type;

/// Whether a field's points are contributions: some option of its type is a Partial.
template <class Field>
inline constexpr bool is_partial_field_v = Field::partial_axes::count > 0;

}  // namespace shard

#endif
