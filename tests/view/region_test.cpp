// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/view/region.hpp"

#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <vector>

#include "shard/view/copy.hpp"
#include "support/counting.hpp"
#include "support/thrown.hpp"

struct X;
struct Y;

namespace {

using namespace shard;
using namespace shard::testing;

using Space = Kokkos::DefaultExecutionSpace;

template <class Layout>
using Field = ShardedView<int***, Layout, ShardDim<0, Unsharded, Halo<0, 1>, Clamp>,
                          ShardDim<1, Y, Halo<1, 2>>, ShardDim<2, X, Halo<2, 1>, Periodic>>;

/// Adds `amount` to the cells it visits.
template <class F>
struct Visit {
  F field;
  int amount;
  KOKKOS_FUNCTION void operator()(int l, int i, int j) const {
    Kokkos::atomic_add(&field(l, i, j), amount);
  }
};

/// Whether a kernel of reach `w` at the cell looks at the halo.
bool looks_out(const index_t (&cell)[3], const index_t (&extent)[3], const int (&w)[3][2]) {
  for (int d = 0; d < 3; ++d)
    if (cell[d] < w[d][0] || cell[d] >= extent[d] - w[d][1]) return true;
  return false;
}

template <class F, class R>
void check(const Extents<3>& extents, const R& reach, const int (&w)[3][2]) {
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  const F field("field", mesh, extents);
  const Space space;
  auto rest = interior(field, reach);  // in parts, as `overlapped` runs it
  for (const int parts : {64, 4, 2})
    parallel_for("interior", space, impl::split_first(rest, parts), Visit<F>{field, 1});
  parallel_for("interior", space, rest, Visit<F>{field, 1});
  parallel_for("rim", space, rim(field, reach), Visit<F>{field, 100});
  parallel_for("owned", space, owned_region(field), Visit<F>{field, 10000});
  const auto host = create_mirror_view(field);
  deep_copy(space, host, field);
  space.fence();
  const index_t n[] = {field.extent(0), field.extent(1), field.extent(2)};
  index_t inner = 0, outer = 0;
  for (int l = 0; l < n[0] + 1; ++l)
    for (int i = -1; i < n[1] + 2; ++i)
      for (int j = -2; j < n[2] + 1; ++j) {
        const index_t cell[] = {l, i, j};
        const bool own       = l < n[0] && i >= 0 && i < n[1] && j >= 0 && j < n[2];
        const bool out       = own && looks_out(cell, n, w);
        ASSERT_EQ(host(l, i, j), own ? 10000 + (out ? 100 : 1) : 0)
            << "cell " << l << " " << i << " " << j;
        inner += own && !out ? 1 : 0;
        outer += out ? 1 : 0;
      }
  EXPECT_EQ(interior(field, reach).cells(), inner);
  EXPECT_EQ(rim(field, reach).cells(), outer);
  EXPECT_EQ(owned_region(field).cells(), n[0] * n[1] * n[2]);
}

template <class Layout>
void check_all() {
  using F = Field<Layout>;
  // wide, thin and empty shards
  for (const index_t rows : {0, 1, 2, 3, 5, 9, 17})
    for (const index_t columns : {1, 4, 7, 21})
      for (const index_t levels : {1, 2, 4}) {
        const int own[3][2] = {{0, 1}, {1, 2}, {2, 1}}, other[3][2] = {{1, 0}, {0, 0}, {3, 1}};
        check<F>({levels, rows, columns}, Reach<>{}, own);
        check<F>({levels, rows, columns}, Reach<Halo<1, 0>, Halo<0>, Halo<3, 1>>{}, other);
      }
}

TEST(Region, InteriorAndRimAreEachOwnedCellOnce) {
  check_all<Kokkos::LayoutRight>();
  check_all<Kokkos::LayoutLeft>();
}

TEST(Region, OneKernelOverAllBoxes) {
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  const Field<Kokkos::LayoutRight> field("field", mesh, {4, 40, 40});
  EXPECT_GT(rim(field).count, 1);
  const Space space;
  const auto strips  = rim(field);
  const auto counted = shard::testing::count([&] {
    parallel_for("rim", space, strips, Visit<Field<Kokkos::LayoutRight>>{field, 1});
  });
  EXPECT_EQ(counted.kernels, 1) << counted;
}

TEST(Region, NothingIsLaunchedOverNothing) {
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  const Field<Kokkos::LayoutRight> field("field", mesh, {4, 0, 40});
  const auto counted = shard::testing::count([&] {
    parallel_for("rim", Space(), rim(field), Visit<Field<Kokkos::LayoutRight>>{field, 1});
  });
  EXPECT_EQ(counted.kernels, 0) << counted;
  EXPECT_EQ(interior(field).cells() + rim(field).cells(), 0);
}

struct Nothing {
  KOKKOS_FUNCTION void operator()(int, int) const {}
};

TEST(Region, IndicesAreInts) {
  constexpr index_t most = 2147483647;
  Region<2, 1> region;
  region.count    = 2;
  region.boxes[0] = {{0, 0}, {1, 1}};
  region.boxes[1] = {{most, 0}, {most + 1, 1}};
  expect_parts(
      message_thrown_by<ArgumentError>([&] { parallel_for("far", Space(), region, Nothing()); }),
      {"shard::parallel_for", "\"far\"", "2147483648", "dimension 0", "2147483647", "more ranks"});
  region.boxes[1] = {{0, most - 1}, {1, most}};
  parallel_for("far", Space(), region, Nothing());
  region.boxes[1] = {{0, 0}, {0, most + 1}};  // no points
  parallel_for("far", Space(), region, Nothing());
}

}  // namespace
