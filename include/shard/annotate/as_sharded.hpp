// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_ANNOTATE_AS_SHARDED_HPP
#define SHARD_ANNOTATE_AS_SHARDED_HPP

#include <array>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/mesh/axis.hpp"
#include "shard/mesh/partition_spec.hpp"
#include "shard/annotate/annotated_view.hpp"
#include "shard/view/copy.hpp"
#include "shard/view/sharded_view.hpp"

/// \file
/// Conversions between annotations (PartitionSpec, AnnotatedView) and types (ShardDims,
/// ShardedView).

namespace shard {

namespace impl {

template <class... A, class... All>
SpecEntry entry_of(AxisList<A...>, AxisList<All...>) {
  return SpecEntry(std::vector<SpecAxis>{SpecAxis(position_v<A, All...>)...});
}
template <class Field, class Mesh, int... D>
PartitionSpec spec_of(Mesh mesh, std::integer_sequence<int, D...>) {
  static_assert(Field::partial_axes::count == 0,
                "a partition spec can't say Partial: redistribute the field first");
  return PartitionSpec(std::vector<SpecEntry>{
      entry_of(typename AxesOf<typename Field::template axis<D>>::type{}, mesh)...});
}

template <class Field, int... D>
auto axes_of(std::integer_sequence<int, D...>) ->
    typename Concatenate<typename AxesOf<typename Field::template axis<D>>::type...>::type;

template <class Mesh>
struct AxesOfMesh;
template <class... Axes>
struct AxesOfMesh<Mesh<Axes...>> {
  using type = AxisList<Axes...>;
};

template <class Field>
constexpr bool has_no_halo() {
  for (int d = 0; d < Field::rank; ++d)
    if (Field::halo_lo(d) > 0 || Field::halo_hi(d) > 0) return false;
  return true;
}
/// Whether a field can share its memory with an AnnotatedView.
template <class Field>
inline constexpr bool can_be_annotated_v =
    has_no_halo<Field>() && !std::is_const_v<typename Field::value_type> &&
    !std::is_same_v<typename Field::layout, Kokkos::LayoutStride> &&
    Field::view_type::rank_dynamic == Field::view_type::rank();

/// Throws on every rank unless the tensor has the spec's sharding over the mesh's ranks. Collective
/// over the mesh.
void require_sharing(const Annotation& about, const DeviceMesh& mesh, const PartitionSpec& spec);

/// Mesh, spec and layout of a field. Throws ArgumentError unless its partitions follow one of the
/// ShardRules.
void annotate_as(Annotation& about, const Geometry& geometry);
/// The spec of a field, axes as positions in its mesh.
PartitionSpec spec_of(const Geometry& geometry);

}  // namespace impl

/// The spec of a field's type, with the axes of mesh type `MeshType` (`Mesh<Lat, Lon>`) by
/// position. Axes<A, B> becomes a tuple in the same order.
template <AnyShardedView Field, class MeshType>
PartitionSpec partition_spec() {
  return impl::spec_of<Field>(typename impl::AxesOfMesh<MeshType>::type{},
                              std::make_integer_sequence<int, Field::rank>{});
}
/// The same for a mesh with only the field's axes, in the order of its dimensions.
template <AnyShardedView Field>
PartitionSpec partition_spec() {
  constexpr std::make_integer_sequence<int, Field::rank> dims;
  return impl::spec_of<Field>(decltype(impl::axes_of<Field>(dims)){}, dims);
}
/// The spec of a field, by positions in its own mesh. Throws ArgumentError for a
/// default-constructed field.
template <AnyShardedView Field>
PartitionSpec partition_spec(const Field& field) {
  return impl::spec_of(field.geometry());
}

/// An annotated tensor as a field that shares its memory, with the same shards (`ShardRule::ceil`).
/// `Field` has no halo. Collective over the mesh. Throws on every rank: ArgumentError, with both
/// specs, unless the annotation and the field's ShardDims on this mesh put the same tiles on the
/// same ranks; without an annotation; in manual mode. AgreementError if the annotation differs
/// between the ranks.
template <AnyShardedView Field, class T, class Layout, class... Device, class... MeshAxes>
Field as_sharded(const AnnotatedView<T, Layout, Device...>& tensor, const Mesh<MeshAxes...>& mesh) {
  using View = typename AnnotatedView<T, Layout, Device...>::view_type;
  static_assert(impl::has_no_halo<Field>(),
                "as_sharded hands over the same memory, which has no halo: give a field type "
                "without one, and copy");
  static_assert(Field::rank == static_cast<int>(View::rank()) &&
                    std::is_convertible_v<View, typename Field::view_type>,
                "as_sharded hands over the same memory: the field has the tensor's rank, value "
                "type, layout and memory space");
  impl::require_sharing(tensor.state()->about, mesh, partition_spec<Field, Mesh<MeshAxes...>>());
  std::array<Partition, static_cast<std::size_t>(Field::rank)> partitions;
  for (int d = 0; d < Field::rank; ++d)
    partitions[static_cast<std::size_t>(d)] = tensor.layout().partition(d);
  return Field(mesh, tensor.local(), partitions);
}

/// A field without halo as an annotated tensor that shares its memory, with the spec of its type.
/// If the field is in shared memory, keep a copy of the field alive. Local. Throws ArgumentError
/// for a field whose partition is neither balanced nor ceil, or that was converted from one with a
/// halo.
template <class T, class Layout, class... Options>
auto wrap_as_sharded(const ShardedView<T, Layout, Options...>& field) {
  using Field = ShardedView<T, Layout, Options...>;
  static_assert(impl::can_be_annotated_v<Field>,
                "a field becomes an AnnotatedView if it has no halo, run-time extents, values that "
                "aren't const, and LayoutRight or LayoutLeft");
  if (!impl::is_whole_allocation(field))
    impl::throw_argument("wrap_as_sharded",
                         {"the field \"", field.label(),
                          "\" is part of the allocation of a field with a halo; copy it"});
  annotated_view_t<typename Field::view_type> wrapped(field.view());
  impl::annotate_as(wrapped.state()->about, field.geometry());
  return wrapped;
}

/// Wraps a field by wrap_as_sharded. Returns anything else unchanged: plain Views, AnnotatedViews,
/// numbers.
template <class X>
auto wrap_if_sharded(const X& x) {
  if constexpr (is_sharded_view_v<X>) {
    if constexpr (impl::can_be_annotated_v<X>)
      return wrap_as_sharded(x);
    else
      return x;
  } else {
    return x;
  }
}

}  // namespace shard

#endif
