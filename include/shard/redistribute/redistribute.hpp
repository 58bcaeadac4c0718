// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDISTRIBUTE_REDISTRIBUTE_HPP
#define SHARD_REDISTRIBUTE_REDISTRIBUTE_HPP

#include <array>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/exchange/exchange.hpp"
#include "shard/exchange/impl/moved_fields.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/redistribute/impl/coupling_plan.hpp"
#include "shard/redistribute/redistribution.hpp"
#include "shard/view/impl/host_points.hpp"
#include "shard/view/index_space.hpp"

/// \file
/// Redistribution copies the owned points of one field to another of the same global extents with
/// another placement. Any placement can be moved to any other, over any axes of one mesh at once:
/// other partitions (uneven and empty shards too), other sharded dimensions, replicated, Partial;
/// other halo widths and layouts. Halos are neither read nor written (`mark_written` is called for
/// the target).
///
/// Each rank sends each other rank at most one message; replicas share the sending. Contributions
/// (Partial) are combined in the order of ranks along their axes, so the result is bitwise
/// reproducible from run to run. Fields over two index spaces of the same ids, over the same axis,
/// are moved by their ids. In a Partial sum coordinate 0 gets the values, the others zeros;
/// in a Partial maximum or minimum all get the values.
///
/// The fields may be on two meshes of the same ranks (dynamics and physics). Sets of fields are
/// moved in one message for each pair of ranks. Both are moved as by a Coupling, which is for
/// meshes of other ranks: Partials are sums; index spaces are matched by ids, tiles by their cells.
///
/// The host waits until the messages have arrived, except those of NCCL or RCCL between two meshes,
/// between two index spaces or of sets. The result is in the order of `space`: fence `space` before
/// the host or another instance reads it.

namespace shard {

namespace impl {

template <class To, class From>
constexpr void check_redistribution() {
  static_assert(
      To::rank == From::rank &&
          std::is_same_v<typename To::non_const_value_type, typename From::non_const_value_type>,
      "redistribute is between fields of the same rank and value type");
  static_assert(!std::is_const_v<typename To::value_type>,
                "redistribute writes its first field: it needs a value type that isn't const");
  static_assert(std::is_trivially_copyable_v<typename To::value_type>,
                "redistribute moves bytes: it needs a value type that is trivially copyable");
  static_assert(
      std::is_same_v<PlanMemory<To>, PlanMemory<From>>,
      "redistribute is between fields that are both in host memory or both on the device");
}

template <class Field>
RedistributionSide side_of(const Field& field) {
  RedistributionSide side;
  side.geometry = &field.any_geometry();
  side.data     = reinterpret_cast<std::byte*>(
      const_cast<typename Field::non_const_value_type*>(field.origin()));
  side.left = std::is_same_v<typename Field::layout, Kokkos::LayoutLeft>;
  for (int d = 0; d < Field::rank; ++d)
    side.stride[Geometry::at(d)] =
        field.stride(d) * static_cast<index_t>(sizeof(typename Field::value_type));
  return side;
}

/// A redistribution of values of type T; the sides are set later.
template <class T>
Redistribution redistribution_of(const char* function, const Geometry& field) {
  Redistribution redistribution;
  redistribution.function   = function;
  redistribution.mesh       = field.mesh.get();
  redistribution.rank       = field.rank;
  redistribution.value_size = static_cast<int>(sizeof(T));
  redistribution.kind       = value_kind<T>();
  return redistribution;
}

template <class To, class From>
Redistribution redistribution_between(const char* function, const To& to, const From& from) {
  require_same_cells(function, to.any_geometry(), from.any_geometry());
  auto redistribution =
      redistribution_of<typename To::non_const_value_type>(function, to.any_geometry());
  redistribution.to   = side_of(to);
  redistribution.from = side_of(from);
  redistribution.op   = from.any_geometry().partials.reduction;
  return redistribution;
}

template <class Space, class To>
constexpr void check_reach() {
  static_assert(Kokkos::SpaceAccessibility<Space, typename To::memory_space>::accessible,
                "the execution space can't reach the fields' memory");
}

/// Marks the target's halo as stale, unless the field is Partial.
template <class Space, class To>
void mark_moved(const Space& space, const To& to) {
  if constexpr (To::partial_axes::count == 0) mark_written(space, to);
}

/// Moves owned points to a field with other partitions over the same axes, by a plan of fields
/// (`find_move`), in the order of `space`; the transpose adds them to those that they came from.
/// Halos stay as they are.
template <class Space, class To, class From>
void move_between_ranks(const Space& space, const To& to, const From& from, Direction direction) {
  const Reindexing as_they_are[To::rank];
  MovedFields<PlanMemory<To>> fields("redistribute");
  fields.add(to, from, as_they_are);
  fields.run(space, direction);
}

/// The same between two index spaces, whose elements the ids tell; false if there are none.
template <class Space, class To, class From>
bool moved_between_index_spaces(const char* function, const Space& space, const To& to,
                                const From& from, Direction direction) {
  if (!is_between_index_spaces(to.any_geometry(), from.any_geometry())) return false;
  require_same_cells(function, to.any_geometry(), from.any_geometry());
  if constexpr (cut_alike_v<To, From> && To::partial_axes::count == 0 &&
                From::partial_axes::count == 0)
    move_between_ranks(space, to, from, direction);
  else
    throw_argument(function, {"\"", from.any_geometry().label, "\" and \"", to.any_geometry().label,
                              "\" are of two index spaces, which must be sharded over the same "
                              "axes, and without a Partial"});
  return true;
}

/// The addresses of fields or of a set, for a plan.
template <class Fields>
std::vector<void*> addresses_of(const Fields& fields) {
  std::vector<void*> list;
  each_field([&](const auto& field) { list.push_back(AddressOf()(field)); }, fields);
  return list;
}
template <class Fields>
std::vector<FieldArgs> args_of(const Fields& fields) {
  std::vector<FieldArgs> list;
  each_field([&](const auto& field) { list.push_back(any_field_args(field)); }, fields);
  return list;
}

/// Zeroes the owned points of the fields to which a coupling adds, or of which some ranks get
/// nothing.
template <class Space, class Fields>
void zero_owned(const Space& space, const Fields& fields) {
  each_field(
      [&](const auto& field) {
        using Value = typename std::remove_cvref_t<decltype(field)>::non_const_value_type;
        fill_view(space, field.owned(), Value{});
      },
      fields);
}

/// Moves fields, or sets, between two meshes of the same ranks, or adds them.
template <class Space, class To, class From>
void couple(const char* function, const Space& space, const To& to, const From& from, bool adds) {
  using Memory = std::conditional_t<is_host_space_v<Space>, Kokkos::HostSpace,
                                    typename Kokkos::DefaultExecutionSpace::memory_space>;
  require_count(function, field_count(to), field_count(from));
  if (field_count(to) == 0) return;
  CouplingRequest request{.function = function, .is_to = true, .is_from = true, .adds = adds};
  request.to      = args_of(to);
  request.from    = args_of(from);
  const auto plan = CouplingPlan<Memory>::find(request);
  if (!adds && (plan->adds() || FieldOf<To>::partial_axes::count > 0)) zero_owned(space, to);
  plan->run(space, addresses_of(to).data(), addresses_of(from).data());
}

template <class To, class From>
bool is_between_meshes(const To& to, const From& from) {
  return to.any_geometry().mesh != from.any_geometry().mesh;
}

/// `redistribute` of values, or of cotangents, whose halos are not marked.
template <class Space, class To, class From>
void move_cells(const char* function, const Space& space, const To& to, const From& from) {
  check_redistribution<To, From>();
  check_reach<Space, To>();
  if (is_between_meshes(to, from)) return couple(function, space, to, from, false);
  if constexpr (index_dim<To>() >= 0)
    if (moved_between_index_spaces(function, space, to, from, Direction::forward)) return;
  Redistributions<Space>::run(space, redistribution_between(function, to, from));
}

template <class... A>
void append_positions(const MeshState& mesh, AxisList<A...>, int* positions) {
  const AxisId ids[] = {axis_id<A>()..., nullptr};
  require_axes("redistribute", mesh, ids, static_cast<int>(sizeof...(A)), positions);
}

/// A new field of another type on the mesh of an existing field. Collective.
template <class To>
To placed_anew(const Geometry& from, const std::array<Partition, To::rank>& wanted) {
  using Type      = FieldTypeOf<To>;
  auto types      = Type::types;
  auto partitions = wanted;
  index_t extents[To::rank];
  const MeshState& mesh = *from.mesh;
  [&]<int... D>(std::integer_sequence<int, D...>) {
    const auto place = [&](auto axes, int d) {
      DimType& type   = types[Geometry::at(d)];
      type.axis_count = axes.count;
      append_positions(mesh, axes, type.axes.data());
      const DimGeometry& there = from.dims[Geometry::at(d)];
      extents[d]               = from.global(d);
      if (partitions[Geometry::at(d)].empty() && there.axis_count == type.axis_count &&
          there.axes == type.axes)
        partitions[Geometry::at(d)] = there.partition;
    };
    (place(typename AxesOf<typename To::template axis<D>>::type{}, D), ...);
  }
  (std::make_integer_sequence<int, To::rank>{});
  Geometry geometry =
      make_geometry(from.label, from.mesh, To::rank, types.data(), extents, partitions.data());
  PartialAxes& partials = geometry.partials;
  partials.reduction    = Type::reduction_of_partials;
  partials.count        = To::partial_axes::count;
  append_positions(mesh, typename To::partial_axes{}, partials.axes.data());
  return FieldAccess::allocate<To>(std::move(geometry));
}

}  // namespace impl

/// Moves the owned points of `from` into `to`, which has the same global extents and any placement,
/// on the same mesh or another one of the same ranks. The mesh caches the plan. Every call is
/// collective over the mesh; the host waits for the messages, and the result is in the order of
/// `space` (see above). Throws ArgumentError on every rank if the global extents or the meshes'
/// ranks differ; AgreementError on every rank if the ranks' fields differ (checked when a plan is
/// made, and in each call under SHARD_CHECK=1).
///
/// Memory: one buffer, cached in the mesh, at most as large as the larger of both fields or 1 MiB.
template <class Space, AnyShardedView To, AnyShardedView From>
void redistribute(const Space& space, const To& to, const From& from) {
  impl::move_cells("redistribute", space, to, from);
  impl::mark_moved(space, to);
}

/// The same for two sets of as many fields, each into its partner, with one message for each pair
/// of ranks. The fields of a set are on one mesh, and may differ in extents and partitions.
template <class Space, FieldSet To, FieldSet From>
void redistribute(const Space& space, const To& to, const From& from) {
  impl::check_redistribution<impl::FieldOf<To>, impl::FieldOf<From>>();
  impl::check_reach<Space, impl::FieldOf<To>>();
  impl::couple("redistribute", space, to, from, false);
  impl::each_field([&](const auto& field) { impl::mark_moved(space, field); }, to);
}

/// The same into a new field of type `To`, with the same label. By default a dimension that is
/// sharded over the same axes keeps its partition, and others are balanced; `partitions` overrules
/// that. Collective over the mesh. Throws ArgumentError on every rank if the field's mesh has no
/// axis that the type names, and what the constructor throws.
template <AnyShardedView To, class Space, AnyShardedView From>
To redistribute(const Space& space, const From& from,
                const std::array<Partition, To::rank>& partitions = {}) {
  impl::check_redistribution<To, From>();
  const To to = impl::placed_anew<To>(from.any_geometry(), partitions);
  redistribute(space, to, from);
  return to;
}

/// The transpose of `redistribute(space, y, x)`: adds dy to dx. The placements of dx and dy
/// determine what is sent. They must be valid for cotangents (the inner product of x and dx is a
/// sum over the points of all ranks):
///
/// - x sharded: dx sharded in the same way.
/// - x replicated, and each rank uses its own copy: dx is a Partial sum, each rank's contribution.
///   The inner product is the sum over all ranks of their local ones.
/// - x replicated, and all ranks compute the same from it, which counts once: dx replicated. The
///   inner product is that of one rank.
/// - x a Partial sum: dx replicated. The inner product is the sum over all ranks of their local
///   ones.
///
/// So the transpose of an all-gather is a reduce-scatter (dy a Partial sum) or a slice (dy
/// replicated); that of a slice pads with zeros (dx a Partial sum) or gathers (dx replicated); that
/// of an all-reduce is the identity (dx and dy replicated); that of a copy of replicas an
/// all-reduce (dy a Partial sum, dx replicated). `dy` is unchanged.
template <class Space, AnyShardedView DX, AnyShardedView DY>
void redistribute_adjoint(const Space& space, const DX& dx, const DY& dy) {
  static_assert(!std::is_const_v<typename DX::value_type>,
                "the adjoint of redistribute adds to its first field");
  static_assert(impl::can_add_v<DX>,
                "the adjoint of redistribute adds: it needs an arithmetic value type");
  static_assert(
      (std::is_void_v<typename DX::reduction> || std::is_same_v<typename DX::reduction, Sum>)&&(
          std::is_void_v<typename DY::reduction> || std::is_same_v<typename DY::reduction, Sum>),
      "a cotangent may be a Partial sum, not a Partial maximum or minimum");
  impl::check_redistribution<DX, DY>();
  impl::check_reach<Space, DX>();
  if (impl::is_between_meshes(dx, dy))
    return impl::couple("redistribute_adjoint", space, dx, dy, true);
  if constexpr (impl::index_dim<DX>() >= 0)
    if (impl::moved_between_index_spaces("redistribute_adjoint", space, dy, dx,
                                         impl::Direction::adjoint))
      return;
  auto redistribution = impl::redistribution_between("redistribute_adjoint", dx, dy);
  redistribution.adds = true;
  impl::Redistributions<Space>::run(space, redistribution);
}

/// The kind and cost of `redistribute(space, to, from)` on this rank. Collective if the plan has to
/// be made.
template <class Space, AnyShardedView To, AnyShardedView From>
RedistributionReport redistribution_report(const Space&, const To& to, const From& from) {
  impl::check_redistribution<To, From>();
  return impl::Redistributions<Space>::report(
      impl::redistribution_between("redistribution_report", to, from));
}

}  // namespace shard

#endif
