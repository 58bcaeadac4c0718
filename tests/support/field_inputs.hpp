// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_SUPPORT_FIELD_INPUTS_HPP
#define SHARD_TESTS_SUPPORT_FIELD_INPUTS_HPP

#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/comm/shared_field.hpp"
#include "shard/view/copy.hpp"
#include "shard/view/sharded_view.hpp"
#include "shard/view/subview.hpp"
#include "support/support.hpp"

/// The shared list of inputs: what each public function that takes fields is tested with. Whoever
/// finds a new kind of input adds it here, and every sweep has it.
namespace shard::testing {

/// A field in memory of one kind, and the name of the kind.
template <class Field>
struct FieldInput {
  std::string name;
  Field field;
};

namespace impl_inputs {

/// A ShardDim whose halo is one point wider on both sides; other options as they are.
template <class Option>
struct Widened {
  using type = Option;
};
template <int D, class Axis, int Lo, int Hi, class... Rest>
struct Widened<ShardDim<D, Axis, Halo<Lo, Hi>, Rest...>> {
  using type = ShardDim<D, Axis, Halo<Lo + 1, Hi + 1>, Rest...>;
};
template <class Field>
struct WidenedField;
template <class T, class Layout, class... Options>
struct WidenedField<ShardedView<T, Layout, Options...>> {
  using type = ShardedView<T, Layout, typename Widened<Options>::type...>;
};

/// A LayoutRight field with one more dimension, the last, unsharded: a subview that fixes it has a
/// stride in every dimension.
template <class Field>
struct Stacked;
template <class T, class... Options>
struct Stacked<ShardedView<T, Kokkos::LayoutRight, Options...>> {
  using type = ShardedView<T*, Kokkos::LayoutRight, Options...>;
};

template <class Stack, std::size_t... D>
auto level(const Stack& stack, std::index_sequence<D...>) {
  return subview(stack, (static_cast<void>(D), Kokkos::ALL)..., 1);
}

}  // namespace impl_inputs

/// Fields of one type in each kind of memory that the type can have: natural; padded (where Kokkos
/// pads: at least two dimensions, the fastest longer than eight doubles); narrowed (converted from
/// a field with a wider halo, where the type has halos); shared with the ranks of a node. Set to
/// zero. Collective.
template <class Field, class... Axes>
std::vector<FieldInput<Field>> same_type_inputs(
    const Mesh<Axes...>& mesh, const std::array<Partition, Field::rank>& partitions) {
  std::vector<FieldInput<Field>> inputs;
  const Field natural("natural", mesh, partitions);
  inputs.push_back({"natural", natural});
  if constexpr (Field::rank >= 2) {
    typename Field::view_type::array_layout extents;
    for (int d = 0; d < Field::rank; ++d) {
      const auto at         = static_cast<std::size_t>(d);
      extents.dimension[at] = natural.view().extent(at);
    }
    const typename Field::view_type padded(Kokkos::view_alloc("padded", Kokkos::AllowPadding),
                                           extents);
    inputs.push_back({"padded", rebind(natural, padded)});
  }
  using Wide = typename impl_inputs::WidenedField<Field>::type;
  if constexpr (!std::is_same_v<Wide, Field>) {
    const Wide wide("narrowed", mesh, partitions);
    inputs.push_back({"narrowed", Field(wide)});
  }
  if constexpr (impl::can_be_shared_v<Field>)
    inputs.push_back({"shared", shared_field<Field>("shared", mesh, partitions)});
  return inputs;
}

/// A field with a stride of three in its fastest dimension, a level of a LayoutRight field with one
/// dimension more: its type has LayoutStride. Set to zero. Collective.
template <class Field, class... Axes>
auto strided_input(const Mesh<Axes...>& mesh,
                   const std::array<Partition, Field::rank>& partitions) {
  using Stack = typename impl_inputs::Stacked<Field>::type;
  std::array<Partition, Stack::rank> stacked;
  std::copy(partitions.begin(), partitions.end(), stacked.begin());
  stacked.back() = Partition::whole(3);
  return impl_inputs::level(Stack("strided", mesh, stacked),
                            std::make_index_sequence<static_cast<std::size_t>(Field::rank)>());
}

/// Partitions of `size` points over `parts` ranks, a name for each: balanced; all points on the
/// last part; every second part empty; counts that rise by one. Of one part only the first.
inline std::vector<std::pair<std::string, Partition>> partition_inputs(index_t size, int parts) {
  std::vector<std::pair<std::string, Partition>> inputs{
      {"balanced", Partition::balanced(size, parts)}};
  if (parts == 1) return inputs;
  std::vector<index_t> last(static_cast<std::size_t>(parts), 0), gaps(last), rising(last);
  last.back()          = size;
  const int full       = (parts + 1) / 2;
  index_t left         = size;
  const index_t weight = static_cast<index_t>(parts) * (parts + 1) / 2;
  for (int r = 0; r < parts; ++r) {
    const auto at = static_cast<std::size_t>(r);
    if (r % 2 == 0) gaps[at] = size / full + (r / 2 < size % full ? 1 : 0);
    rising[at] = r + 1 < parts ? size * (r + 1) / weight : left;
    left -= rising[at];
  }
  inputs.emplace_back("on the last", Partition::explicit_counts(last));
  inputs.emplace_back("every second empty", Partition::explicit_counts(gaps));
  inputs.emplace_back("rising", Partition::explicit_counts(rising));
  return inputs;
}

/// A partition of the same size that differs from `partition`; the same one if it has one part.
inline Partition another_partition(const Partition& partition) {
  if (partition.parts() == 1) return partition;
  for (auto& [name, other] : partition_inputs(partition.size(), partition.parts()))
    if (!(other == partition)) return other;
  return partition;
}

/// Calls check(field, partitions) for fields of two dimensions in each kind of memory and of each
/// partition: `Lat` shards the first dimension, `Lon` the second. Collective.
template <class Field, class Lat, class Lon, class... Axes, class Check>
void for_field_inputs(const Mesh<Axes...>& mesh, index_t rows, index_t columns,
                      const Check& check) {
  const auto lats = partition_inputs(rows, mesh.template size<Lat>()),
             lons = partition_inputs(columns, mesh.template size<Lon>());
  for (std::size_t p = 0; p < std::max(lats.size(), lons.size()); ++p) {
    const auto& lat = lats[p % lats.size()];
    const auto& lon = lons[p % lons.size()];
    SCOPED_TRACE(lat.first + " x " + lon.first);
    const std::array<Partition, 2> partitions{lat.second, lon.second};
    for (const auto& input : same_type_inputs<Field>(mesh, partitions)) {
      SCOPED_TRACE(input.name);
      check(input.field, partitions);
    }
    SCOPED_TRACE("strided");
    check(strided_input<Field>(mesh, partitions), partitions);
  }
}

/// The order of ranks that turns them around: rank 0 has the last coordinates.
inline std::vector<int> turned_ranks(int size) {
  std::vector<int> order(static_cast<std::size_t>(size));
  for (int r = 0; r < size; ++r) order[static_cast<std::size_t>(r)] = size - 1 - r;
  return order;
}

/// MPI chooses the number of ranks along the axis.
template <class Axis>
inline constexpr int any_extent = 0;

/// Calls check(name, mesh) for a mesh of `Axes`, one with turned ranks, and one with a further axis
/// `Member` over which fields are replicated. Collective.
template <class Member, class... Axes, class Check>
void on_input_meshes(const Check& check) {
  const int size = ranks(), members = size % 2 == 0 ? 2 : size;
  check("mesh", Mesh<Axes...>(MPI_COMM_WORLD, {any_extent<Axes>...}));
  check("turned ranks",
        Mesh<Axes...>(MPI_COMM_WORLD, {any_extent<Axes>...}, {.order = turned_ranks(size)}));
  check("members", Mesh<Member, Axes...>(MPI_COMM_WORLD, {members, any_extent<Axes>...}));
}

}  // namespace shard::testing

#endif
