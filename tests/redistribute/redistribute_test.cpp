// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "shard/shard.hpp"
#include "support/support.hpp"

namespace redistribute_test {

struct Lat;
struct Lon;
using Space = Kokkos::DefaultExecutionSpace;
using Grid  = shard::Mesh<Lat, Lon>;

template <class T, class Layout>
using Haloed =
    shard::ShardedView<T***, Layout, shard::ShardDim<1, Lat, shard::Halo<2>, shard::Reflect>,
                       shard::ShardDim<2, Lon, shard::Halo<1, 0>, shard::Periodic>>;
template <class T, class Layout>
using Plain = shard::ShardedView<T***, Layout, shard::ShardDim<1, Lat>, shard::ShardDim<2, Lon>>;

template <class T>
T value(shard::index_t l, shard::index_t i, shard::index_t j, int which) {
  return static_cast<T>((l * 31 + i * 7 + j * 3 + which * 5) % 11 - 5);
}

/// Visits the owned cells of a field on the host, and copies them back.
template <class Field, class Visit>
void on_cells(const Field& field, const Visit& visit) {
  const auto host = create_mirror_view(field);
  const Space space;
  shard::deep_copy(space, host, field);
  space.fence();
  for (int l = 0; l < host.extent(0); ++l)
    for (int i = 0; i < host.extent(1); ++i)
      for (int j = 0; j < host.extent(2); ++j)
        visit(host(l, i, j), l, host.to_global(1, i), host.to_global(2, j));
  shard::deep_copy(space, field, host);
  space.fence();
}

/// Begins anywhere, shards may be empty; the same on every rank.
shard::Partition some_partition(shard::index_t n, int parts, std::mt19937_64& engine) {
  std::vector<shard::index_t> begins{0, n};
  for (int p = 1; p < parts; ++p)
    begins.push_back(static_cast<shard::index_t>(engine() % static_cast<std::uint64_t>(n + 1)));
  std::sort(begins.begin(), begins.end());
  return shard::Partition::explicit_begins(begins);
}

template <class T, class Layout>
void check() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  std::mt19937_64 engine(shard::testing::seed());
  const Space space;
  for (const shard::Extents<2>& shape :
       {shard::Extents<2>{size, 1}, shard::Extents<2>{1, size}, shard::Extents<2>{0, 0}}) {
    const Grid mesh(MPI_COMM_WORLD, shape);
    for (int trial = 0; trial < 4; ++trial) {
      SCOPED_TRACE("shape " + std::to_string(shape[0]) + " x " + std::to_string(shape[1]) +
                   ", trial " + std::to_string(trial));
      const auto partitions = [&] {
        return std::array<shard::Partition, 3>{shard::Partition::balanced(2, 1),
                                               some_partition(9, mesh.size<Lat>(), engine),
                                               some_partition(10, mesh.size<Lon>(), engine)};
      };
      const Haloed<T, Layout> from("from", mesh, partitions());
      const Plain<T, Layout> to("to", mesh, partitions());
      Kokkos::deep_copy(from.view(), T(99));  // halos, which must not travel nor be written
      on_cells(from, [](T& v, auto l, auto i, auto j) { v = value<T>(l, i, j, 0); });
      redistribute(space, to, from);
      long wrong = 0;
      on_cells(to,
               [&](T& v, auto l, auto i, auto j) { wrong += v != value<T>(l, i, j, 0) ? 1 : 0; });
      EXPECT_EQ(wrong, 0);

      // <R x, y> = <x, R' y>, in whole numbers; what was in `from` stays in the sum
      on_cells(to, [](T& v, auto l, auto i, auto j) { v = value<T>(l, i, j, 1); });
      redistribute_adjoint(space, from, to);
      on_cells(from, [&](T& v, auto l, auto i, auto j) {
        wrong += v != static_cast<T>(value<T>(l, i, j, 0) + value<T>(l, i, j, 1)) ? 1 : 0;
      });
      on_cells(to,
               [&](T& v, auto l, auto i, auto j) { wrong += v != value<T>(l, i, j, 1) ? 1 : 0; });
      EXPECT_EQ(wrong, 0);
    }
  }
}

TEST(redistribute, to_other_begins_and_back) {
  check<double, Kokkos::LayoutRight>();
  check<int, Kokkos::LayoutLeft>();
}

TEST(redistribute, other_extents_are_refused_on_every_rank) {
  const Grid mesh(MPI_COMM_WORLD, {0, 0});
  const Plain<double, Kokkos::LayoutRight> a("a", mesh, {2, 9, 10}), b("b", mesh, {2, 10, 10});
  EXPECT_THROW(redistribute(Space(), a, b), shard::ArgumentError);
}

}  // namespace redistribute_test
