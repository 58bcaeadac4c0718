// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_IMPL_FIELD_TYPE_HPP
#define SHARD_VIEW_IMPL_FIELD_TYPE_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include "shard/mesh/mesh.hpp"
#include "shard/view/impl/geometry.hpp"
#include "shard/view/impl/zeroed_view.hpp"
#include "shard/view/shard_dim.hpp"

namespace shard::impl {

/// The device among a ShardedView's options: the first that isn't a placement, else the layout-only
/// View's own.
template <class T, class Layout, class... Options>
struct ViewOf {
  using type = Kokkos::View<T, Layout>;
};
template <class T, class Layout, class First, class... Rest>
struct ViewOf<T, Layout, First, Rest...> {
  using type =
      typename std::conditional_t<is_placement_v<First>, ViewOf<T, Layout, Rest...>,
                                  std::type_identity<Kokkos::View<T, Layout, First>>>::type;
};

template <class Boundary>
inline constexpr int fold_longitude_v =
    BoundaryTraits<Boundary>::low.longitude >= 0 ? BoundaryTraits<Boundary>::low.longitude
                                                 : BoundaryTraits<Boundary>::high.longitude;

template <class>
struct TagOfOption;
template <template <class> class Option, class Tag>
struct TagOfOption<Option<Tag>> {
  using type = Tag;
};
template <class Option>
using TagOf = typename TagOfOption<Option>::type;

/// The properties given by the template arguments of a ShardedView, and their checks.
template <class T, class Layout, class... Options>
struct FieldType {
  using view_type           = typename ViewOf<T, Layout, Options...>::type;
  static constexpr int rank = static_cast<int>(view_type::rank);

  template <int Dim>
  using shard_dim = typename ShardDimOf<Dim, Options...>::type;

  static constexpr bool right          = std::is_same_v<Layout, Kokkos::LayoutRight>,
                        left           = std::is_same_v<Layout, Kokkos::LayoutLeft>;
  static constexpr int unit_stride_dim = right ? rank - 1 : left ? 0 : -1;

  static_assert(rank >= 1 && rank <= max_rank, "a ShardedView has rank 1 to 6");
  static_assert(right || left || std::is_same_v<Layout, Kokkos::LayoutStride>,
                "a ShardedView's layout is LayoutRight or LayoutLeft");
  static_assert(
      ((!is_shard_dim_v<Options> || (dim_of<Options>() >= 0 && dim_of<Options>() < rank)) && ...),
      "a ShardDim names a dimension that the ShardedView does not have");
  static_assert(one_shard_dim_each<Options...>(), "a dimension has at most one ShardDim");
  static_assert(
      axes_differ_v<typename Concatenate<typename AxesOfOption<Options>::type...>::type>,
      "a mesh axis shards at most one dimension; give the other another axis, or Unsharded");
  static_assert((!is_placement_v<Options> + ... + 0) <= 1,
                "a ShardedView's options are ShardDims, Partials and at most one space or device");

  /// The axes over which it is Partial, and the reduction (void if there are none).
  using partial_axes = typename Concatenate<typename PartialAxisOf<Options>::type...>::type;
  using reduction =
      typename ReductionOf<typename FirstOption<IsPartialOption, void, Options...>::type>::type;
  static constexpr bool is_partial = partial_axes::count > 0;

  static_assert(axes_differ_v<partial_axes>, "a mesh axis has at most one Partial");
  static_assert(
      !axes_differ_v<partial_axes> ||
          axes_differ_v<typename Concatenate<typename AxesOfOption<Options>::type...,
                                             typename PartialAxisOf<Options>::type...>::type> ||
          !axes_differ_v<typename Concatenate<typename AxesOfOption<Options>::type...>::type>,
      "a mesh axis that shards a dimension can't be Partial too");
  static_assert(one_reduction_v<reduction, Options...>,
                "the Partials of a field have one reduction: a sum of largest values isn't the "
                "largest of sums");

  static constexpr ReductionKind reduction_of_partials =
      reduction_of_partials_v<reduction, typename view_type::non_const_value_type>;
  static_assert(reduction_of_partials <= ReductionKind::min, "a Partial's reduction is known");

  /// Whether a mesh with these axes has all axes that the type names.
  template <class... MeshAxes>
  static constexpr bool axes_are_among() {
    return []<class... A>(AxisList<A...>) {
      return (is_among_v<A, MeshAxes...> && ...);
    }(typename Concatenate<typename AxesOfOption<Options>::type..., partial_axes>::type{});
  }

  template <class... MeshAxes, class... A>
  static constexpr PartialAxes place_partials(AxisList<A...>) {
    PartialAxes partials;
    partials.reduction = reduction_of_partials;
    ((partials.axes[static_cast<std::size_t>(partials.count++)] = position_v<A, MeshAxes...>), ...);
    return partials;
  }

  template <int... D>
  static constexpr auto widths(std::integer_sequence<int, D...>) {
    return std::array<std::array<int, 2>, sizeof...(D)>{
        {{shard_dim<D>::halo::lo, shard_dim<D>::halo::hi}...}};
  }
  static constexpr auto halo_widths = widths(std::make_integer_sequence<int, rank>{});

  static constexpr int halo_count() {
    int count = 0;
    for (const auto& w : halo_widths) count += w[0] > 0 || w[1] > 0 ? 1 : 0;
    return count;
  }
  static_assert(halo_count() <= 3, "a ShardedView has halos on at most three dimensions");

  template <int... D>
  static constexpr bool folds_are_right(std::integer_sequence<int, D...>) {
    return ((fold_longitude_v<typename shard_dim<D>::boundary> < rank &&
             fold_longitude_v<typename shard_dim<D>::boundary> != D) &&
            ...);
  }
  static_assert(folds_are_right(std::make_integer_sequence<int, rank>{}),
                "a PoleFold names another dimension of the field as its longitude");

  /// Checks of the boundary of dimension `D` that concern another dimension, `L`.
  template <int D, int L>
  static constexpr bool north_is_right() {
    constexpr BoundarySide high = BoundaryTraits<typename shard_dim<D>::boundary>::high;
    constexpr BoundarySide of_l = BoundaryTraits<typename shard_dim<L>::boundary>::low;
    if (!is_north(high.kind)) return true;
    if (high.longitude != L)
      return L == D || fold_longitude_v<typename shard_dim<L>::boundary> != high.longitude;
    return of_l.kind == BoundaryKind::periodic ||
           (shard_dim<L>::halo::lo == 0 && shard_dim<L>::halo::hi == 0);
  }
  template <int D, int L>
  static constexpr bool index_is_right() {
    using Boundary = BoundaryTraits<typename shard_dim<D>::boundary>;
    return !((Boundary::low.count > 0 && Boundary::low.longitude == L) ||
             (Boundary::high.count > 0 && Boundary::high.longitude == L)) ||
           (std::is_same_v<typename shard_dim<L>::axis, Unsharded> && shard_dim<L>::halo::lo == 0 &&
            shard_dim<L>::halo::hi == 0);
  }
  template <int... D>
  static constexpr bool norths_have_halos(std::integer_sequence<int, D...>) {
    return ((!is_north(BoundaryTraits<typename shard_dim<D>::boundary>::high.kind) ||
             shard_dim<D>::halo::hi > 0) &&
            ...);
  }
  template <int... DL>
  static constexpr bool norths_are_right(std::integer_sequence<int, DL...>) {
    return (north_is_right<DL / rank, DL % rank>() && ...);
  }
  template <int... DL>
  static constexpr bool indices_are_right(std::integer_sequence<int, DL...>) {
    return (index_is_right<DL / rank, DL % rank>() && ...);
  }
  static_assert(norths_have_halos(std::make_integer_sequence<int, rank>{}),
                "a dimension with a NorthFold has a halo at its high end");
  static_assert(norths_are_right(std::make_integer_sequence<int, rank * rank>{}),
                "the longitude of a NorthFold is Periodic, and no other fold turns it");
  static_assert(indices_are_right(std::make_integer_sequence<int, rank * rank>{}),
                "the dimension that ByIndex names is neither sharded nor has it a halo");

  /// Whether D is one of the dimensions that have a block's points.
  template <int D>
  static constexpr bool is_linked_dim =
      is_linked(BoundaryTraits<typename shard_dim<D>::boundary>::low.kind);
  template <int D>
  static constexpr bool has_blocks = !std::is_void_v<typename shard_dim<D>::blocks>;
  template <int... D>
  static constexpr bool blocks_are_right(std::integer_sequence<int, D...>) {
    const auto count = [](BoundaryKind kind) {
      return ((BoundaryTraits<typename shard_dim<D>::boundary>::low.kind == kind ? 1 : 0) + ...);
    };
    const int blocks = ((has_blocks<D> ? 1 : 0) + ...);
    return blocks <= 1 && count(BoundaryKind::linked_y) == blocks &&
           count(BoundaryKind::linked_x) == blocks &&
           (blocks == 0 ||
            ((is_linked_dim<D> ? std::is_same_v<typename shard_dim<D>::axis, Unsharded>
                               : shard_dim<D>::halo::lo == 0 && shard_dim<D>::halo::hi == 0) &&
             ...));
  }
  static_assert(blocks_are_right(std::make_integer_sequence<int, rank>{}),
                "a field over blocks has one dimension with Blocks, and one each with LinkedY and "
                "LinkedX, which are Unsharded; no other dimension has a halo");

  template <int... D>
  static constexpr bool static_extents_are_whole(std::integer_sequence<int, D...>) {
    return ((D < static_cast<int>(view_type::rank_dynamic) ||
             (std::is_same_v<typename shard_dim<D>::axis, Unsharded> &&
              shard_dim<D>::halo::lo == 0 && shard_dim<D>::halo::hi == 0)) &&
            ...);
  }
  static_assert(static_extents_are_whole(std::make_integer_sequence<int, rank>{}),
                "a dimension with a compile-time extent can't be sharded and has no halo");

  /// Whether dimension D is of an index space.
  template <int D>
  static constexpr bool has_indices = !std::is_void_v<typename shard_dim<D>::indices>;

  template <int D>
  static constexpr DimType unplaced() {
    DimType type;
    type.lo   = shard_dim<D>::halo::lo;
    type.hi   = shard_dim<D>::halo::hi;
    type.low  = BoundaryTraits<typename shard_dim<D>::boundary>::low;
    type.high = BoundaryTraits<typename shard_dim<D>::boundary>::high;
    if constexpr (has_indices<D>) type.indices = &axis_mark<TagOf<typename shard_dim<D>::indices>>;
    if constexpr (has_blocks<D>) type.blocks = &axis_mark<TagOf<typename shard_dim<D>::blocks>>;
    if constexpr (D >= static_cast<int>(view_type::rank_dynamic))
      type.fixed_extent = static_cast<index_t>(view_type::static_extent(D));
    return type;
  }

  template <int... D>
  static constexpr auto all_unplaced(std::integer_sequence<int, D...>) {
    return std::array<DimType, sizeof...(D)>{unplaced<D>()...};
  }
  /// The type's properties of each dimension, without its axes.
  static constexpr auto types = all_unplaced(std::make_integer_sequence<int, rank>{});

  template <class... MeshAxes, class... A>
  static constexpr DimType placed(DimType type, AxisList<A...>) {
    type.axis_count        = static_cast<int>(sizeof...(A));
    [[maybe_unused]] int i = 0;
    ((type.axes[static_cast<std::size_t>(i++)] = position_v<A, MeshAxes...>), ...);
    return type;
  }

  /// The type's properties of each dimension, its axes as positions in a mesh's.
  template <class... MeshAxes>
  static constexpr std::array<DimType, static_cast<std::size_t>(rank)> dim_types() {
    return []<int... D>(std::integer_sequence<int, D...>) {
      return std::array<DimType, sizeof...(D)>{placed<MeshAxes...>(
          unplaced<D>(), typename AxesOf<typename shard_dim<D>::axis>::type{})...};
    }
    (std::make_integer_sequence<int, rank>{});
  }

  /// The same without a mesh: axes as the field's geometry has them.
  static std::array<DimType, static_cast<std::size_t>(rank)> dim_types(const Geometry& geometry) {
    auto placed_types = types;
    for (std::size_t d = 0; d < placed_types.size(); ++d) {
      placed_types[d].axes       = geometry.dims[d].axes;
      placed_types[d].axis_count = geometry.dims[d].axis_count;
    }
    return placed_types;
  }

  template <class... MeshAxes>
  static Geometry make(std::string_view label, const Mesh<MeshAxes...>& mesh,
                       const index_t* extents, const Partition* partitions) {
    static constexpr auto placed_types = dim_types<MeshAxes...>();
    auto geometry =
        make_geometry(label, mesh.state(), rank, placed_types.data(), extents, partitions);
    if constexpr (is_partial) geometry.partials = place_partials<MeshAxes...>(partial_axes{});
    return geometry;
  }
  static Geometry remake(std::string_view label, const Geometry& from,
                         const Partition* partitions) {
    auto geometry =
        make_geometry(label, from.mesh, rank, dim_types(from).data(), nullptr, partitions);
    if constexpr (is_partial) geometry.partials = from.partials;
    return geometry;
  }

  /// A View of a field's points at address `cells`, in memory with another owner.
  static view_type lying_at(const Geometry& geometry, typename view_type::pointer_type cells) {
    return view_type(cells, layout_of(geometry));
  }
  /// A new allocation for the points and the halo, set to zero.
  static view_type allocate(const Geometry& geometry) {
    return zeroed_view<view_type>(geometry.label, layout_of(geometry));
  }

  static std::array<index_t, static_cast<std::size_t>(rank)> extents_of(const view_type& view) {
    std::array<index_t, static_cast<std::size_t>(rank)> extents;
    for (std::size_t d = 0; d < extents.size(); ++d)
      extents[d] = static_cast<index_t>(view.extent(d));
    return extents;
  }
  /// Size of the allocation, in bytes.
  static std::size_t bytes(const Geometry& geometry) {
    std::size_t size = sizeof(typename view_type::value_type);
    for (int d = 0; d < rank; ++d) size *= static_cast<std::size_t>(allocated(geometry, d));
    return size;
  }
  /// Owned points and halo.
  static index_t allocated(const Geometry& geometry, int d) {
    const auto i = Geometry::at(d);
    return geometry.owned(d) + halo_widths[i][0] + halo_widths[i][1] +
           (types[i].indices != nullptr ? geometry.index_halo(d) : 0);
  }

  /// The dimension that `Axis` shards (alone), or -1.
  template <class Axis>
  static constexpr int dim_cut_by() {
    return []<int... D>(std::integer_sequence<int, D...>) {
      int found = -1;
      ((std::is_same_v<typename shard_dim<D>::axis, Axis> ? void(found = D) : void()), ...);
      return found;
    }
    (std::make_integer_sequence<int, rank>{});
  }

  /// Whether a field of this type converts to `To`: const added, or halos narrower.
  template <class To>
  static constexpr bool converts_to() {
    using View = typename To::view_type;
    if constexpr (To::rank != rank || !std::is_same_v<typename To::partial_axes, partial_axes> ||
                  !std::is_same_v<typename To::reduction, reduction> ||
                  !std::is_same_v<typename View::memory_space, typename view_type::memory_space> ||
                  !std::is_convertible_v<view_type, View>)
      return false;
    else
      return []<int... D>(std::integer_sequence<int, D...>) {
        return (dim_converts<shard_dim<D>, typename To::template shard_dim<D>>() && ...);
      }
    (std::make_integer_sequence<int, rank>{});
  }

 private:
  /// Points and halo without gaps; of LayoutStride, which only subviews have, in LayoutRight's
  /// order.
  static Layout layout_of(const Geometry& geometry) {
    Layout layout;
    std::size_t stride = 1;
    for (std::size_t d = halo_widths.size(); d-- > 0;) {
      layout.dimension[d] = static_cast<std::size_t>(allocated(geometry, static_cast<int>(d)));
      if constexpr (!right && !left) layout.stride[d] = stride;
      stride *= layout.dimension[d];
    }
    return layout;
  }
  template <class From, class To>
  static constexpr bool dim_converts() {
    constexpr bool no_halo = To::halo::lo == 0 && To::halo::hi == 0;
    return std::is_same_v<typename From::axis, typename To::axis> &&
           std::is_same_v<typename From::indices, typename To::indices> &&
           std::is_same_v<typename From::blocks, typename To::blocks> &&
           From::halo::lo >= To::halo::lo && From::halo::hi >= To::halo::hi &&
           (no_halo || std::is_same_v<typename From::boundary, typename To::boundary>);
  }
};

/// The ShardDim of a dimension that the field has.
template <class Type, int Dim>
struct OfDim {
  static_assert(Dim >= 0 && Dim < Type::rank, "the field has no such dimension");
  using type = typename Type::template shard_dim<Dim>;
};

/// Lets the library's free functions make fields. A new field is made from a Geometry; a field in
/// the same View is made from that field.
struct FieldAccess {
  /// A new field, set to zero: an ordinary allocation, or in `memory`, which is large enough.
  template <class Field>
  static Field allocate(Geometry geometry, std::shared_ptr<FieldMemory> memory = nullptr) {
    return Field(std::move(geometry), std::move(memory));
  }
  /// A new field with another one's mesh and partitions, set to zero, in memory of the same kind if
  /// there is space. Local.
  template <class Field, class From>
  static Field allocate_like(const From& from, std::string_view label) {
    const FieldState& state = state_of(from);
    return Field(state.geometry.named(label),
                 more_memory(state, Field::Type::bytes(state.geometry)));
  }
  /// A field in a View of its own extents.
  template <class Field>
  static Field wrap(Geometry geometry, const typename Field::view_type& view) {
    return Field(store(std::move(geometry), nullptr, Field::Type::halo_widths.data()), view);
  }
  /// A field whose points are at address `cells`, in memory with another owner.
  template <class Field>
  static Field wrap_at(Geometry geometry, typename Field::view_type::pointer_type cells) {
    const auto view = Field::Type::lying_at(geometry, cells);
    return wrap<Field>(std::move(geometry), view);
  }
  /// Moves the field to that address; its copies stay at the old one.
  template <class Field>
  static void move_to(Field& field, typename Field::view_type::pointer_type cells) {
    field = Field(field.state_, Field::Type::lying_at(field.any_geometry(), cells));
  }
  /// The same field under another type.
  template <class Field, class From>
  static Field same(const From& from) {
    return Field(from.state_, from.view_);
  }
  /// A field in a View that has the extents of `from`'s.
  template <class Field, class From>
  static Field mirror(const From& from, const typename Field::view_type& view) {
    FieldState made = state_of(from);
    made.memory     = nullptr;
    return Field(store(std::move(made)), view);
  }
  /// A field that is a part of another one's View, whose memory it keeps.
  template <class Field>
  static Field part(FieldState state, const typename Field::view_type& view) {
    return Field(store(std::move(state)), view);
  }

  /// False for a default-constructed field.
  template <class Field>
  static bool is_made(const Field& field) {
    return field.state_.data() != nullptr;
  }
  /// Its state, with the place of its points in its View. Throws ArgumentError if it is
  /// default-constructed.
  template <class Field>
  static const FieldState& state_of(const Field& field) {
    if (!is_made(field)) throw_no_field();
    return field.state_();
  }
  /// Whether its View is in memory that Kokkos didn't allocate.
  template <class Field>
  static bool has_memory(const Field& field) {
    return is_made(field) && field.state_().memory != nullptr;
  }
};

}  // namespace shard::impl

#endif
