// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <array>
#include <type_traits>

#include "shard/shard.hpp"
#include "support/thrown.hpp"

namespace placements_test {

struct A;
struct B;
struct C;
using Grid  = shard::Mesh<A, B, C>;
using Right = Kokkos::LayoutRight;
using namespace shard;

template <class... Options>
using Field = shard::ShardedView<double***, Right, Options...>;
template <class... P>
using From = shard::ShardedFrom<double***, Right, Grid, P...>;

/// The placements of a field, and the field of its placements, are these.
template <class F, class... P>
constexpr bool says = std::is_same_v<shard::placements_of<F, Grid>, Placements<P...>>&&
    std::is_same_v<From<P...>, F>&& std::is_same_v<From<Placements<P...>>, F>;

static_assert(says<Field<>, Replicate, Replicate, Replicate>);
static_assert(says<Field<ShardDim<1, B>>, Replicate, Shard<1>, Replicate>);
static_assert(says<Field<ShardDim<0, C>, ShardDim<2, A>>, Shard<2>, Replicate, Shard<0>>);
static_assert(says<Field<ShardDim<1, shard::Axes<A, C>>>, Shard<1>, Replicate, Shard<1>>);
static_assert(says<Field<ShardDim<1, shard::Axes<A, B, C>>>, Shard<1>, Shard<1>, Shard<1>>);
static_assert(says<Field<Partial<B, Sum>>, Replicate, Partial<B, Sum>, Replicate>);
static_assert(says<Field<ShardDim<2, B>, Partial<A, Max>, Partial<C, Max>>, Partial<A, Max>,
                   Shard<2>, Partial<C, Max>>);

// halos are no placements, but may be spelt with one; the order of options is theirs alone
using Haloed = Field<ShardDim<1, B, shard::Halo<2, 1>, shard::Periodic>>;
static_assert(
    std::is_same_v<shard::placements_of<Haloed, Grid>, Placements<Replicate, Shard<1>, Replicate>>);
static_assert(std::is_same_v<
              From<Replicate, Shard<1, shard::Halo<2, 1>, shard::Periodic>, Replicate>, Haloed>);
static_assert(std::is_same_v<From<Shard<0>, Shard<0, shard::Halo<1>>, Replicate>,
                             Field<ShardDim<0, shard::Axes<A, B>, shard::Halo<1>>>>);
static_assert(std::is_same_v<shard::placements_of<Field<Partial<C, Sum>, ShardDim<0, A>>, Grid>,
                             Placements<Shard<0>, Replicate, Partial<C, Sum>>>);
static_assert(std::is_same_v<From<Shard<0>, Replicate, Replicate, Kokkos::HostSpace>,
                             Field<ShardDim<0, A>, Kokkos::HostSpace>>);
static_assert(std::is_same_v<From<Placements<Shard<0>, Replicate, Replicate>, Kokkos::HostSpace>,
                             Field<ShardDim<0, A>, Kokkos::HostSpace>>);
static_assert(std::is_same_v<shard::placement_along<Haloed, B>, Shard<1>>);
static_assert(std::is_same_v<shard::placement_along<Haloed, C>, Replicate>);

// a Partial is not taken for a device
static_assert(std::is_same_v<Field<Partial<A, Sum>>::memory_space, Field<>::memory_space>);
static_assert(
    std::is_same_v<Field<Partial<A, Sum>, Kokkos::HostSpace>::memory_space, Kokkos::HostSpace>);
static_assert(shard::is_partial_field_v<Field<Partial<A, Sum>>> &&
              !shard::is_partial_field_v<Field<>>);

// values are not taken for contributions, nor the other way round
template <class... Options>
using Const = shard::ShardedView<const double***, Right, Options...>;
static_assert(std::is_convertible_v<Field<Partial<A, Sum>>, Const<Partial<A, Sum>>>);
static_assert(!std::is_convertible_v<Field<Partial<A, Sum>>, Const<>>);
static_assert(!std::is_convertible_v<Field<>, Const<Partial<A, Sum>>>);
static_assert(!std::is_convertible_v<Field<Partial<A, Sum>>, Const<Partial<A, Max>>>);
static_assert(!std::is_convertible_v<Field<Partial<A, Sum>>, Const<Partial<B, Sum>>>);

using Part = Field<ShardDim<1, B, shard::Halo<1>>, Partial<C, Max>, Partial<A, Max>>;

void expect_partials(const shard::impl::Geometry& geometry) {
  EXPECT_EQ(geometry.partials.count, 2);
  EXPECT_EQ(geometry.partials.axes[0], 2);
  EXPECT_EQ(geometry.partials.axes[1], 0);
  EXPECT_EQ(geometry.partials.reduction, shard::impl::ReductionKind::max);
}

TEST(placements, a_partial_field_is_made_filled_and_copied) {
  const Grid mesh(MPI_COMM_WORLD, {0, 0, 0});
  const Part f("f", mesh, {2, 9, 4});
  EXPECT_EQ(f.extent(1), f.partition(1).count(mesh.coordinate<B>()));
  EXPECT_EQ(f.label(), "f");
  expect_partials(f.any_geometry());
  expect_partials(f.like("g").any_geometry());
  expect_partials(f.staggered<B>().any_geometry());
  expect_partials(create_mirror_view(f).any_geometry());
  expect_partials(shard::subview(f, 0, Kokkos::ALL, Kokkos::ALL).any_geometry());
  const shard::ShardedView<const double***, Right, ShardDim<1, B>, Partial<C, Max>, Partial<A, Max>>
      narrow = f;
  expect_partials(narrow.any_geometry());

  const Kokkos::DefaultExecutionSpace space;
  const auto g = f.like("g");
  shard::deep_copy(space, f, 3.0);
  shard::deep_copy(space, g, f);
  const auto host = create_mirror_view(g);
  shard::deep_copy(space, host, g);
  space.fence();
  for (shard::index_t i = 0; i < f.extent(1); ++i) EXPECT_EQ(host(1, i, 3), 3.0);
}

TEST(placements, of_a_field_without_partials) {
  const Grid mesh(MPI_COMM_WORLD, {0, 0, 0});
  EXPECT_EQ(Haloed("f", mesh, {2, 9, 4}).geometry().partials.count, 0);
}

}  // namespace placements_test
