// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The exchange as users write it. What it moves is tested in plans_test.cpp, what it costs in
// counts_test.cpp.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "shard/shard.hpp"
#include "shard/view/index_map.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

struct X;
struct Y;

namespace {

using namespace shard;
using namespace shard::testing;
using Space = Kokkos::DefaultHostExecutionSpace;

/// All of these are written and read by loops on the host.
template <class Type, class Layout, class... Dims>
using Field = ShardedView<Type, Layout, Dims..., Kokkos::HostSpace>;

Mesh<Y, X> mesh_of_all() { return Mesh<Y, X>(MPI_COMM_WORLD, {0, 0}); }

using Folded   = Field<double***, Kokkos::LayoutRight,
                     ShardDim<1, Y, Halo<2, 1>, PoleFold<2, Pole::on_row, Parity::odd>>,
                     ShardDim<2, X, Halo<1, 2>, Periodic>>;
using Line     = Field<int*, Kokkos::LayoutRight, ShardDim<0, X, Halo<1>, Periodic>>;
using WideLine = Field<int*, Kokkos::LayoutRight, ShardDim<0, X, Halo<5, 4>, Periodic>>;
using OpenLine = Field<int*, Kokkos::LayoutRight, ShardDim<0, X, Halo<2>, Constant<-9>>>;

/// Runs function(l, i, j) over a rank-three field's owned cells, and the halo's too if asked for.
template <class F, class Function>
void for_cells(const F& f, bool halo, const Function& function) {
  const auto lo = [&](int d) { return halo ? -F::halo_lo(d) : 0; };
  const auto hi = [&](int d) { return static_cast<int>(f.extent(d)) + (halo ? F::halo_hi(d) : 0); };
  for (int l = lo(0); l < hi(0); ++l)
    for (int i = lo(1); i < hi(1); ++i)
      for (int j = lo(2); j < hi(2); ++j) function(l, i, j);
}

template <class F>
void fill_randomly(const F& f, std::uint64_t salt) {
  int rank = 0;
  MPI_Comm_rank(f.communicator(), &rank);
  std::mt19937_64 random(shard::testing::seed() + 31 * salt + 1009 * static_cast<unsigned>(rank));
  std::uniform_real_distribution<double> real(-1, 1);
  for_cells(f, true, [&](int l, int i, int j) { f(l, i, j) = real(random); });
}

/// Fills the owned cells of a line with g + 1 times `factor`; afterwards each halo cell must hold
/// what image_of says.
template <class F>
void fill_line(const F& t, int factor = 1) {
  for (int i = 0; i < t.extent(0); ++i)
    t(i) = static_cast<typename F::value_type>(factor * (t.to_global(0, i) + 1));
}
template <class F>
void check_line(const F& t, BoundaryKind kind, int factor = 1, int constant = 0) {
  for (int i = -F::halo_lo(0); i < t.extent(0) + F::halo_hi(0); ++i) {
    const Image image = image_of(kind, t.to_global(0, i), t.global_extent(0));
    EXPECT_EQ(static_cast<int>(t(i)),
              image.constant ? constant : factor * static_cast<int>(image.source + 1))
        << "local index " << i << " of " << t.extent(0);
  }
}

TEST(Exchange, T1_two_ranks_on_a_periodic_axis) {
  // the same peer on the left and on the right, its two messages in one; on the first two ranks
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm two = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank < 2 ? 0 : MPI_UNDEFINED, rank, &two);
  if (two == MPI_COMM_NULL) return;
  {
    const Mesh<X> mesh(two, {0});
    for (const index_t n : {2, 3, 4, 9}) {
      const Line t("t", mesh, {n});
      fill_line(t);
      const Exchange halos(t);
      EXPECT_EQ(halos.sends(), mesh.size() - 1);
      EXPECT_EQ(halos.receives(), mesh.size() - 1);
      halos(Space());
      check_line(t, BoundaryKind::periodic);
      // and back: each cell got a copy from each side where it is an edge
      for (int i = 0; i < t.extent(0); ++i) t(i) = 100;
      t(-1)                            = 1;
      t(static_cast<int>(t.extent(0))) = 10;
      halos.adjoint(Space());
      for (int i = 0; i < t.extent(0); ++i)
        EXPECT_EQ(t(i), 100 + (i == 0 ? 10 : 0) + (i == t.extent(0) - 1 ? 1 : 0));
    }
  }
  MPI_Comm_free(&two);
}

TEST(Exchange, T2_one_rank_on_an_axis) {
  // a world of one rank: every boundary is filled without a message
  const Mesh<Y, X> alone(MPI_COMM_SELF, {1, 1});
  const Folded t("t", alone, {2, 5, 6});
  const Line line("line", alone, {4});
  const OpenLine open("open", alone, {4});
  fill_line(line);
  fill_line(open);
  const Exchange halos(t, line, open);
  EXPECT_EQ(halos.sends() + halos.receives(), 0);
  EXPECT_EQ(halos.bytes_sent(), 0u);
  halos(Space());
  check_line(line, BoundaryKind::periodic);
  check_line(open, BoundaryKind::constant, 1, -9);
  // one rank along X, all along Y, where nothing is cut that has a halo
  const Mesh<Y, X> tall(MPI_COMM_WORLD, {0, 1});
  const Line across("across", tall, {4});
  fill_line(across, 3);
  const Exchange none(across);
  EXPECT_EQ(none.sends() + none.receives(), 0);
  none(Space());
  check_line(across, BoundaryKind::periodic, 3);
}

TEST(Exchange, T3_flat_axes_and_lines) {
  const auto mesh = mesh_of_all();
  using Flat      = Field<float***, Kokkos::LayoutLeft, ShardDim<0, X, Halo<1>, Clamp>,
                     ShardDim<1, Y, Halo<1>, Symmetric>, ShardDim<2, Unsharded, Halo<1>, Clamp>>;
  const Flat t("t", mesh, {7, 5, 1});
  for_cells(t, false, [&](int i, int j, int k) {
    t(i, j, k) = static_cast<float>(100 * t.to_global(0, i) + t.to_global(1, j));
  });
  exchange(Space(), t);
  for_cells(t, true, [&](int i, int j, int k) {
    const index_t x = image_of(BoundaryKind::clamp, t.to_global(0, i), 7).source,
                  y = image_of(BoundaryKind::symmetric, t.to_global(1, j), 5).source;
    EXPECT_EQ(t(i, j, k), static_cast<float>(100 * x + y));
  });
  const Mesh<X> line(MPI_COMM_WORLD, {0});
  const Line u("u", line, {11});
  fill_line(u);
  exchange(Space(), u);
  check_line(u, BoundaryKind::periodic);
}

TEST(Exchange, T4_B22_halo_deeper_than_the_neighbours_shard) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  for (const index_t n : {1, 2, 3, 7, 20}) {
    const WideLine t("t", mesh, {n});
    fill_line(t);
    exchange(Space(), t);
    check_line(t, BoundaryKind::periodic);
  }
}

TEST(Exchange, T5_uneven_and_empty_shards) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  for (int big = 0; big < mesh.size(); ++big)  // the remainder on any rank, others with one or none
    for (const index_t small : {0, 1}) {
      std::vector<index_t> counts(static_cast<std::size_t>(mesh.size()), small);
      counts[static_cast<std::size_t>(big)] = 6;
      const Partition p                     = Partition::explicit_counts(counts);
      const WideLine t("t", mesh, {p});
      const OpenLine open("open", mesh, {p});
      fill_line(t, 2);
      fill_line(open);
      exchange(Space(), t, open);
      check_line(t, BoundaryKind::periodic, 2);
      check_line(open, BoundaryKind::constant, 1, -9);
    }
}

TEST(Exchange, T9_transposed_twice_in_a_row) {
  // no stale messages: the second gives what it would have given alone
  const auto mesh = mesh_of_all();
  const Folded first("first", mesh, {2, 7, 8}), second = first.like("second"),
                                                alone = first.like("alone");
  fill_randomly(first, 1);
  fill_randomly(second, 2);
  deep_copy(Space(), alone, second);
  const Exchange halos(first);
  halos.adjoint(Space(), first);
  halos.adjoint(Space(), second);
  Exchange(alone).adjoint(Space());
  for_cells(second, true, [&](int l, int i, int j) { EXPECT_EQ(second(l, i, j), alone(l, i, j)); });
  // and once more on the same field: the halo is zero now, so nothing is added
  halos.adjoint(Space(), second);
  for_cells(second, true, [&](int l, int i, int j) { EXPECT_EQ(second(l, i, j), alone(l, i, j)); });
}

/// <E x, y> and <x, E' y> over all ranks, with random reals everywhere, the halo's cells too. The
/// results are written to ex and ey.
template <class F>
void check_dot_product(const Tuning& tuning, const F& ex, const F& ey) {
  const F x = ex.like("x"), y = ex.like("y");
  fill_randomly(x, 11);
  fill_randomly(y, 12);
  deep_copy(Space(), ex, x);
  deep_copy(Space(), ey, y);
  Exchange(tuning, ex)(Space());
  Exchange(tuning, ey).adjoint(Space());
  double sums[3] = {};
  for_cells(x, true, [&](int l, int i, int j) { sums[0] += ex(l, i, j) * y(l, i, j); });
  for_cells(x, false, [&](int l, int i, int j) {
    sums[1] += x(l, i, j) * ey(l, i, j);
    sums[2] += std::abs(x(l, i, j) * ey(l, i, j));
  });
  double all[3] = {};
  MPI_Allreduce(sums, all, 3, MPI_DOUBLE, MPI_SUM, x.communicator());
  EXPECT_NEAR(all[0], all[1], 1e-12 * all[2]);
  EXPECT_GT(all[2], 0);
  int left = 0;
  for_cells(ey, true, [&](int l, int i, int j) {
    const int at[] = {l, i, j};
    bool owned     = true;
    for (int d = 0; d < 3; ++d) owned = owned && at[d] >= 0 && at[d] < ey.extent(d);
    left += owned || ey(l, i, j) == 0 ? 0 : 1;
  });
  EXPECT_EQ(left, 0) << "halo cells that the transpose didn't set to zero";
}
template <class F>
void check_dot_product(const F& shape) {
  check_dot_product({}, shape.like("ex"), shape.like("ey"));
}

TEST(Exchange, T10_dot_products_with_corners) {
  const auto mesh = mesh_of_all();
  check_dot_product(Folded("t", mesh, {2, 7, 8}));
  check_dot_product(Folded("thin", mesh, {1, 2, 4}));
  using All = Field<double***, Kokkos::LayoutLeft, ShardDim<0, Unsharded, Halo<1>, Reflect>,
                    ShardDim<1, X, Halo<3, 1>, Sides<Clamp, Symmetric>>,
                    ShardDim<2, Y, Halo<1, 2>, Periodic>>;
  check_dot_product(All("all", mesh, {3, 5, 7}));
}

/// Faces of single values, or of two or three that are contiguous.
template <class F>
void check_scattered_faces(const Extents<3>& extents) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  for (const bool shared : {false, true})
    for (const std::size_t direct_run : {std::size_t{1}, std::size_t{1} << 20U}) {
      const auto make = [&](const char* label) {
        return shared ? shared_field<F>(label, mesh, extents) : F(label, mesh, extents);
      };
      const Tuning tuning{.direct_run = direct_run};
      const F t = make("t");
      for_cells(t, false, [&](int l, int i, int j) {
        t(l, i, j) = static_cast<double>((t.to_global(0, l) * 251 + t.to_global(1, i)) * 251 +
                                         t.to_global(2, j));
      });
      Exchange(tuning, t)(Space());
      int wrong = 0;
      for_cells(t, true, [&](int l, int i, int j) {
        index_t at[] = {t.to_global(0, l), t.to_global(1, i), t.to_global(2, j)};
        for (int d = 0; d < 3; ++d)
          at[d] = image_of(BoundaryKind::periodic, at[d], t.global_extent(d)).source;
        wrong += t(l, i, j) == static_cast<double>((at[0] * 251 + at[1]) * 251 + at[2]) ? 0 : 1;
      });
      EXPECT_EQ(wrong, 0) << "shared " << shared << ", direct from " << direct_run;
      check_dot_product(tuning, make("ex"), make("ey"));
    }
}

TEST(Exchange, ScatteredFaces) {
  // single values at equal distances
  check_scattered_faces<Field<double***, Kokkos::LayoutRight, ShardDim<2, X, Halo<1>, Periodic>>>(
      {45, 201, 20});
  // lines of several values; the low halo wider than the high one
  check_scattered_faces<Field<double***, Kokkos::LayoutLeft, ShardDim<0, X, Halo<3, 2>, Periodic>>>(
      {20, 40, 33});
  // lines of single values that don't follow each other, for their halo lies between
  check_scattered_faces<
      Field<double***, Kokkos::LayoutRight, ShardDim<1, Unsharded, Halo<1>, Periodic>,
            ShardDim<2, X, Halo<1>, Periodic>>>({7, 300, 19});
  // a few rows, each so long that it is a work item of its own
  check_scattered_faces<Field<double***, Kokkos::LayoutRight, ShardDim<1, X, Halo<2>, Periodic>>>(
      {3, 6, 40000});
  // rows, and one contiguous box
  check_scattered_faces<Field<double***, Kokkos::LayoutRight, ShardDim<1, X, Halo<1>, Periodic>>>(
      {20, 6, 130});
  check_scattered_faces<Field<double***, Kokkos::LayoutRight, ShardDim<0, X, Halo<1>, Periodic>>>(
      {9, 2, 100});
}

TEST(Exchange, AdjointIsBitwiseTheSameFromRunToRun) {
  const auto mesh = mesh_of_all();
  using Wide      = Field<double***, Kokkos::LayoutRight, ShardDim<1, Y, Halo<4, 3>, Symmetric>,
                     ShardDim<2, X, Halo<5, 4>, Periodic>>;
  const Wide given("given", mesh, {3, 5, 6}), first = given.like("first"),
                                              again = given.like("again");
  fill_randomly(given, 3);
  deep_copy(Space(), first, given);
  exchange_adjoint(Space(), first);
  for (int run = 0; run < 5; ++run) {
    deep_copy(Space(), again, given);
    if (run % 2 == 0)
      exchange_adjoint(Space(), again);
    else
      Exchange(again).adjoint(Space());
    EXPECT_EQ(
        std::memcmp(again.view().data(), first.view().data(), first.view().span() * sizeof(double)),
        0);
  }
}

/// Marks bytes that a value type has beside its numbers.
struct Observation {
  double value;
  std::int8_t flag;
  std::int32_t station;
};

template <class T>
void check_value_type(const Mesh<X>& mesh) {
  const Field<T*, Kokkos::LayoutRight, ShardDim<0, X, Halo<2>, Periodic>> t("t", mesh, {5});
  for (int i = 0; i < t.extent(0); ++i) t(i) = static_cast<T>(t.to_global(0, i) % 2 + 1);
  exchange(Space(), t);
  for (int i = -2; i < t.extent(0) + 2; ++i) {
    const index_t g = ((t.to_global(0, i) % 5) + 5) % 5;
    EXPECT_EQ(static_cast<float>(t(i)), static_cast<float>(static_cast<T>(g % 2 + 1)));
  }
}

/// Vectors across a pole: the sign turns at each crossing, longitude by half the globe, corners and
/// a staggered dimension too.
TEST(Exchange, T12_vectors_beyond_folded_poles) {
  const auto mesh  = mesh_of_all();
  const auto check = [&](const Folded& t) {
    const auto value = [](index_t l, index_t i, index_t j) {
      return static_cast<double>(1 + 100 * l + 10 * i + j);
    };
    for_cells(t, false, [&](int l, int i, int j) {
      t(l, i, j) = value(l, t.to_global(1, i), t.to_global(2, j));
    });
    exchange(Space(), t);
    for_cells(t, true, [&](int l, int i, int j) {
      const index_t n  = t.global_extent(2);
      const Image row  = image_of(BoundaryKind::fold_on_row, t.to_global(1, i), t.global_extent(1)),
                  turn = image_of(BoundaryKind::periodic,
                                  t.to_global(2, j) + (row.crossed % 2 == 0 ? 0 : n / 2), n);
      EXPECT_EQ(t(l, i, j), (row.crossed % 2 == 0 ? 1.0 : -1.0) * value(l, row.source, turn.source))
          << "row " << t.to_global(1, i) << ", column " << t.to_global(2, j);
    });
  };
  check(Folded("t", mesh, {2, 7, 8}));
  check(Folded("thin", mesh, {1, 2, 4}));  // rows beyond both poles
  check(Folded("staggered", mesh,
               {Partition::balanced(2, 1), Partition::balanced(6, mesh.size<Y>()).staggered(),
                Partition::balanced(8, mesh.size<X>())}));
}

TEST(Exchange, T16_fields_of_different_types_in_one_message) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  using Bytes = Field<std::int8_t*, Kokkos::LayoutRight, ShardDim<0, X, Halo<1, 2>, Periodic>>;
  using Reals = Field<double*, Kokkos::LayoutRight, ShardDim<0, X, Halo<1>, Symmetric>>;
  using Complexes =
      Field<Kokkos::complex<double>* [3], Kokkos::LayoutRight, ShardDim<0, X, Halo<2, 0>, Clamp>>;
  using Structs = Field<Observation*, Kokkos::LayoutRight, ShardDim<0, X, Halo<0, 2>>>;
  const Bytes a("a", mesh, {7}), c("c", mesh, {5});
  const Reals b("b", mesh, {9});
  const Complexes d("d", mesh, {6, 3});
  const Structs e("e", mesh, {8});
  fill_line(a);
  fill_line(b, 5);
  fill_line(c, 2);
  for (int i = 0; i < d.extent(0); ++i)
    for (int k = 0; k < 3; ++k)
      d(i, k) = Kokkos::complex<double>(static_cast<double>(d.to_global(0, i)), k + 0.5);
  for (int i = 0; i < e.extent(0); ++i)
    e(i) = {1.5 * static_cast<double>(e.to_global(0, i)), 3, static_cast<int>(e.to_global(0, i))};
  exchange(Space(), a, b, c, d, e);
  check_line(a, BoundaryKind::periodic);
  check_line(b, BoundaryKind::symmetric, 5);
  check_line(c, BoundaryKind::periodic, 2);
  for (int i = -2; i < d.extent(0); ++i)
    for (int k = 0; k < 3; ++k) {
      EXPECT_EQ(d(i, k).real(), static_cast<double>(std::max<index_t>(0, d.to_global(0, i))));
      EXPECT_EQ(d(i, k).imag(), k + 0.5);
    }
  for (int i = 0; i < e.extent(0) + 2; ++i) {
    const bool inside = e.to_global(0, i) < 8;
    EXPECT_EQ(e(i).value, inside ? 1.5 * static_cast<double>(e.to_global(0, i)) : 0);
    EXPECT_EQ(e(i).station, inside ? e.to_global(0, i) : 0);
    EXPECT_EQ(e(i).flag, inside ? 3 : 0);
  }
}

/// Beyond both ends of the world stand the bits of `wanted`.
template <auto Value, class T>
void expect_constant(const Mesh<X>& mesh, T wanted) {
  const Field<T*, Kokkos::LayoutRight, ShardDim<0, X, Halo<1>, Constant<Value>>> t(
      "t", mesh, {2 * mesh.size()});
  exchange(Space(), t);
  Space().fence();
  const auto is_wanted = [&](int i) { return std::memcmp(&t(i), &wanted, sizeof(T)) == 0; };
  if (mesh.rank() == 0) {
    EXPECT_TRUE(is_wanted(-1)) << t(-1) << " where " << wanted << " is right";
  }
  if (mesh.rank() == mesh.size() - 1) {
    EXPECT_TRUE(is_wanted(2)) << t(2) << " where " << wanted << " is right";
  }
}

TEST(Exchange, ConstantsArriveBitForBit) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  constexpr std::int64_t no_double = (std::int64_t{1} << 53) + 1;
  using Long                       = std::numeric_limits<std::int64_t>;
  constexpr std::uint64_t most     = std::numeric_limits<std::uint64_t>::max();
  expect_constant<no_double>(mesh, no_double);
  expect_constant<-no_double>(mesh, -no_double);
  expect_constant<Long::max()>(mesh, Long::max());
  expect_constant<Long::min()>(mesh, Long::min());
  expect_constant<most>(mesh, most);
  expect_constant<-1>(mesh, most);  // as the language converts it
  expect_constant<300>(mesh, std::uint8_t{300 - 256});
  expect_constant<no_double>(mesh, static_cast<double>(no_double));
  expect_constant<-0.0>(mesh, -0.0);
  expect_constant<-0.0>(mesh, -0.0F);
  expect_constant<-0.0>(mesh, 0);
  expect_constant<0.5>(mesh, true);
}

TEST(Exchange, ConstantsInWords) {
  const auto words = [](BoundaryValue value) { return impl::text(BoundarySide{.value = value}); };
  EXPECT_EQ(words(0), "zero");
  EXPECT_EQ(words(-0.0), "constant -0");
  EXPECT_EQ(words(5), "constant 5");
  EXPECT_EQ(words(std::numeric_limits<std::int64_t>::min()), "constant -9223372036854775808");
  EXPECT_EQ(words(std::numeric_limits<std::uint64_t>::max()), "constant 18446744073709551615");
}

/// Each end has its own boundary's map, at any distance from it.
TEST(Exchange, SidesOfAHaloWiderThanTheWorld) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  const Field<int*, Kokkos::LayoutRight, ShardDim<0, X, Halo<4>, Sides<Reflect, Zero>>> t("t", mesh,
                                                                                          {3});
  fill_line(t);
  exchange(Space(), t);
  Space().fence();
  const int wanted[] = {1, 2, 3, 2, 1, 2, 3, 0, 0, 0, 0};  // of the global indices from -4 on
  for (int i = -4; i < t.extent(0) + 4; ++i)
    EXPECT_EQ(t(i), wanted[t.to_global(0, i) + 4]) << "global index " << t.to_global(0, i);
}

/// Points half-way between cells, each the sum of the two beside it, with the boundary that the
/// page on fields gives them: beyond the world they are the sums of the cells there. Point i lies
/// between the cells i - 1 + `shift` and i + `shift`.
template <class OfCells, class OfPoints>
void expect_half_way(const Mesh<X>& mesh, const Partition& points, int shift) {
  const Field<int*, Kokkos::LayoutRight, ShardDim<0, X, Halo<2>, OfCells>> t("t", mesh,
                                                                             {3 * mesh.size()});
  const Field<int*, Kokkos::LayoutRight, ShardDim<0, X, Halo<1>, OfPoints>> e(
      "e", mesh, std::array<Partition, 1>{points});
  for (int i = 0; i < t.extent(0); ++i) t(i) = 1 << t.to_global(0, i);
  exchange(Space(), t);
  Space().fence();
  const auto sum = [&](int i) { return t(i - 1 + shift) + t(i + shift); };
  for (int i = 0; i < e.extent(0); ++i) e(i) = sum(i);
  exchange(Space(), e);
  Space().fence();
  for (int i = -1; i <= e.extent(0); ++i) EXPECT_EQ(e(i), sum(i)) << "local index " << i;
}

TEST(Exchange, PointsHalfWayBetweenCells) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  const Partition cells = Partition::balanced(3 * mesh.size(), mesh.size());
  expect_half_way<Periodic, Periodic>(mesh, cells, 0);
  expect_half_way<Symmetric, Reflect>(mesh, cells.staggered(), 0);
  expect_half_way<Reflect, Symmetric>(mesh, cells.coarsened(1, cells.size() - 1), 1);
}

TEST(Exchange, T17_bool_int8_and_half) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  check_value_type<bool>(mesh);
  check_value_type<std::int8_t>(mesh);
  check_value_type<Kokkos::Experimental::half_t>(mesh);
  check_value_type<Kokkos::Experimental::bhalf_t>(mesh);
  const Field<bool*, Kokkos::LayoutRight, ShardDim<0, X, Halo<1>, Constant<true>>> mask(
      "mask", mesh, {static_cast<index_t>(mesh.size())});
  exchange(Space(), mask);
  EXPECT_EQ(mask(-1), mesh.rank() == 0);
  EXPECT_EQ(mask(1), mesh.rank() == mesh.size() - 1);
}

TEST(Exchange, T19_dropping_the_handle_finishes_and_moving_it_is_fine) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  const WideLine t("t", mesh, {9}), u = t.like("u"), v = t.like("v");
  const Exchange halos(t);
  fill_line(t);
  { const auto dropped = halos.start(Space()); }
  check_line(t, BoundaryKind::periodic);

  fill_line(u, 2);
  std::optional<Pending<Space>> kept;
  {
    auto pending = halos.start(Space(), u);
    kept.emplace(std::move(pending));
  }  // what is left of a moved handle finishes nothing
  fill_line(v, 3);
  auto other = halos.start(Space(), v);
  other      = std::move(*kept);  // finishes v, takes u
  check_line(v, BoundaryKind::periodic, 3);
  other.finish();
  check_line(u, BoundaryKind::periodic, 2);
  other.finish();  // the second time does nothing
}

TEST(Exchange, T21_two_plans_in_flight_do_not_cross_match) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  const Mesh<X> twin(MPI_COMM_WORLD, {0});
  const WideLine t("t", mesh, {9}), u("u", mesh, {9}), w("w", twin, {9});
  fill_line(t);
  fill_line(u, 2);
  fill_line(w, 3);
  // an order of their own is what SHARD_CHECK would find
  const shard::testing::ScopedVariable unchecked("SHARD_CHECK", "0");
  const Exchange first(t), second(u), third(w);
  // every other rank in another order: only tags and communicators can tell the messages apart
  std::optional<Pending<Space>> a, b, c;
  if (mesh.rank() % 2 == 0) a.emplace(first.start(Space()));
  c.emplace(third.start(Space()));
  b.emplace(second.start(Space()));
  if (!a) a.emplace(first.start(Space()));
  // the user's own message in the communicator that the mesh was made from
  int out = 7, in = 0;
  MPI_Sendrecv(&out, 1, MPI_INT, (mesh.rank() + 1) % mesh.size(), 0, &in, 1, MPI_INT,
               (mesh.rank() + mesh.size() - 1) % mesh.size(), 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  c->finish();
  b->finish();
  a->finish();
  EXPECT_EQ(in, 7);
  check_line(t, BoundaryKind::periodic);
  check_line(u, BoundaryKind::periodic, 2);
  check_line(w, BoundaryKind::periodic, 3);
}

TEST(Exchange, TheSamePlanStartedTwice) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  const WideLine t("t", mesh, {9}), u = t.like("u"), v = t.like("v");
  fill_line(t);
  fill_line(u, 2);
  fill_line(v, 3);
  const Exchange halos(t);
  auto a = halos.start(Space());
  auto b = halos.start(Space(), u);
  auto c = halos.start(Space(), v);
  b.finish();
  a.finish();
  c.finish();
  check_line(t, BoundaryKind::periodic);
  check_line(u, BoundaryKind::periodic, 2);
  check_line(v, BoundaryKind::periodic, 3);
  // forward and transposed at once
  fill_line(t);
  for (int i = -5; i < u.extent(0) + 4; ++i) u(i) = 1;
  auto forward  = halos.start(Space());
  auto backward = halos.start_adjoint(Space(), u);
  forward.finish();
  backward.finish();
  check_line(t, BoundaryKind::periodic);
  // 9 halo cells on each rank were added to 9 owned ones
  index_t mine = 0, all = 0;
  for (int i = 0; i < u.extent(0); ++i) mine += u(i);
  MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, mesh.communicator());
  EXPECT_EQ(all, 9 + 9 * mesh.size());
}

TEST(Exchange, TimeLevelsAreSwapped) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  Line t("t", mesh, {13}), next = t.like("next");
  const Exchange halos(t);
  for (int step = 1; step <= 3; ++step) {
    fill_line(t, step);
    halos(Space(), t);
    check_line(t, BoundaryKind::periodic, step);
    swap(t, next);
  }
}

struct NextKernel {
  Line from, to;
  KOKKOS_FUNCTION void operator()(int i) const { to(i) = from(i - 1) + 2 * from(i + 1); }
};

// After a swap the plan's memory is the other time level's: silently its halo would be filled.
TEST(Exchange, OverlappedTakesSwappedTimeLevels) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  Line t("t", mesh, {13}), next = t.like("next"), expected = t.like("expected");
  const Exchange halos(t);
  fill_line(t);
  overlapped("step", Space(), halos, t, NextKernel{t, next});
  swap(t, next);
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 overlapped("step", Space(), halos, t, NextKernel{t, next});
               }),
               {"\"next\"", "halos.of"});
  overlapped("step", Space(), halos.of(t), t, NextKernel{t, next});
  exchange(Space(), t);
  parallel_for("serial", Space(), owned_region(t), NextKernel{t, expected});
  Space().fence();
  for (int i = 0; i < t.extent(0); ++i) EXPECT_EQ(next(i), expected(i)) << i;
}

TEST(Exchange, FieldsOfAnotherGeometryAreRefused) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  const Line t("t", mesh, {13}), longer("longer", mesh, {13 + static_cast<index_t>(mesh.size())});
  const Exchange halos(t);
  const std::string mine = std::to_string(t.extent(0)), theirs = std::to_string(longer.extent(0));
  expect_parts(message_thrown_by<ArgumentError>([&] { halos(Space(), longer); }),
               {"\"longer\"", "dimension 0", mine.c_str(), theirs.c_str(), "\"t\""});
  message_thrown_by<ArgumentError>([&] { halos.adjoint(Space(), longer); });
  if (mesh.size() > 1) {
    // the ranks between the first and the last have as many cells, elsewhere
    const std::vector<index_t> counts(static_cast<std::size_t>(mesh.size()), 4);
    std::vector<index_t> shifted = counts;
    shifted.front()              = 2;
    shifted.back()               = 6;
    const auto made              = [&](const std::vector<index_t>& c) {
      return Line("of counts", mesh, {Partition::explicit_counts(c)});
    };
    const Exchange of_counts(made(counts));
    const std::string message =
        message_thrown_by<ArgumentError>([&] { of_counts(Space(), made(shifted)); });
    if (mesh.rank() > 0 && mesh.rank() < mesh.size() - 1)
      expect_parts(message, {"owns on this rank the indices from",
                             std::to_string(4 * mesh.rank() - 2).c_str(), "make another Exchange"});
    else
      expect_parts(message, {mesh.rank() == 0 ? "2 of them" : "6 of them", "4 of them"});
  }
  // the plan still works
  fill_line(t);
  halos(Space());
  check_line(t, BoundaryKind::periodic);
}

TEST(Exchange, StridesMayDifferOnOneRank) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  using Wide   = Field<int**, Kokkos::LayoutRight, ShardDim<1, X, Halo<3>, Periodic>>;
  using Narrow = Field<int**, Kokkos::LayoutRight, ShardDim<1, X, Halo<1>, Periodic>>;
  const Narrow apart("apart", mesh, {2, 13}), within = Wide("wide", mesh, {2, 13});
  const Narrow& field = mesh.rank() == 0 ? within : apart;
  const Exchange halos(apart);
  const auto value = [&](int r, index_t i) {
    return 100 * r + static_cast<int>(field.begin(1) + i + 13) % 13;
  };
  const auto host = create_mirror_view(field);
  for (int again = 0; again < 2; ++again) {  // makes tables, then has them
    deep_copy(Kokkos::DefaultHostExecutionSpace(), host, -1);
    for (int r = 0; r < 2; ++r)
      for (index_t i = 0; i < field.extent(1); ++i) host(r, static_cast<int>(i)) = value(r, i);
    deep_copy(Space(), field, host);
    halos(Space(), field);
    deep_copy(Space(), host, field);
    Space().fence();
    for (int r = 0; r < 2 && field.extent(1) > 0; ++r)
      for (const index_t i : {index_t(-1), field.extent(1)})
        EXPECT_EQ(host(r, static_cast<int>(i)), value(r, i));
  }
}

TEST(Exchange, NarrowedFieldsFillTheirOwnHaloOnly) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  const WideLine wide("wide", mesh, {9});
  deep_copy(Space(), wide, -1);
  fill_line(wide);
  const Line narrow = wide;
  exchange(Space(), narrow);
  check_line(narrow, BoundaryKind::periodic);
  for (int i = 2; i <= 5; ++i) EXPECT_EQ(wide(-i), -1);
  for (int i = 1; i < 4; ++i) EXPECT_EQ(wide(static_cast<int>(wide.extent(0)) + i), -1);
}

TEST(Exchange, SubviewsAreFieldsToo) {
  const auto mesh = mesh_of_all();
  using F         = Field<int***, Kokkos::LayoutRight, ShardDim<0, Y, Halo<1>, Clamp>,
                  ShardDim<2, X, Halo<1>, Periodic>>;
  const F t("t", mesh, {6, 3, 8});
  for_cells(t, false, [&](int i, int k, int j) {
    t(i, k, j) = static_cast<int>(1000 * k + 10 * t.to_global(0, i) + t.to_global(2, j) + 1);
  });
  exchange(Space(), subview(t, Kokkos::ALL, 1, Kokkos::ALL));
  for_cells(t, true, [&](int i, int k, int j) {
    const bool own       = i >= 0 && i < t.extent(0) && j >= 0 && j < t.extent(2);
    const index_t row    = image_of(BoundaryKind::clamp, t.to_global(0, i), 6).source,
                  column = image_of(BoundaryKind::periodic, t.to_global(2, j), 8).source;
    EXPECT_EQ(t(i, k, j), own || k == 1 ? 1000 * k + 10 * row + column + 1 : 0);
  });
}

TEST(Exchange, ArraysThatArePaddedOnSomeRanksOnly) {
  // the same geometry, so that ranks where the strides are the same, too, find the plan again and
  // the others must not wait for them
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  using F = Field<int**, Kokkos::LayoutLeft, ShardDim<1, X, Halo<1>, Periodic>>;
  const std::array<Partition, 2> partitions{Partition::balanced(2, 1),
                                            Partition::balanced(9, mesh.size())};
  const index_t columns = partitions[1].count(mesh.rank());
  const auto wrap       = [&](index_t padding) {
    const F::view_type whole("theirs", 2 + padding, columns + 2);
    return F(mesh, Kokkos::subview(whole, std::pair<index_t, index_t>(0, 2), Kokkos::ALL),
                   partitions);
  };
  const F same = wrap(0), padded = wrap(mesh.rank() == 0 ? 3 : 0);
  ASSERT_EQ(padded.stride(1), mesh.rank() == 0 ? 5 : 2);
  const auto check = [&](const F& t, int factor) {
    for (int j = 0; j < columns; ++j)
      for (int l = 0; l < 2; ++l) t(l, j) = factor * static_cast<int>(10 * l + t.to_global(1, j));
    exchange(Kokkos::DefaultHostExecutionSpace(), t);
    for (int j = -1; j <= columns; ++j)
      for (int l = 0; l < 2; ++l)
        EXPECT_EQ(t(l, j), factor * static_cast<int>(10 * l + (t.to_global(1, j) + 9) % 9));
  };
  check(same, 1);
  check(padded, 2);
  check(same, 3);
  check(padded, 4);
  exchange_adjoint(Kokkos::DefaultHostExecutionSpace(), padded);
  exchange_adjoint(Kokkos::DefaultHostExecutionSpace(), same);
}

TEST(Exchange, RanksThatDisagreeAllThrow) {
  if (ranks() == 1) GTEST_SKIP() << "one rank agrees with itself";
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  const bool last = mesh.rank() == mesh.size() - 1;
  const Line short_one("a", mesh, {8}), long_one("b", mesh, {9});
  // the same fields in another order
  const Line &first = last ? long_one : short_one, &second = last ? short_one : long_one;
  expect_parts(
      message_thrown_by<AgreementError>([&] { const Exchange halos(first, second); }),
      {"rank 0", "balanced 8", "balanced 9", ("rank " + std::to_string(mesh.size() - 1)).c_str()});
  message_thrown_by<AgreementError>([&] { exchange(Space(), first, second); });
  // another value type
  const Field<float*, Kokkos::LayoutRight, ShardDim<0, X, Halo<1>, Periodic>> real("r", mesh, {8});
  message_thrown_by<AgreementError>([&] {
    if (last)
      exchange(Space(), real);
    else
      exchange(Space(), short_one);
  });
  // and afterwards the mesh still works
  fill_line(short_one);
  exchange(Space(), short_one);
  check_line(short_one, BoundaryKind::periodic);
}

TEST(Exchange, FieldsOfTwoMeshesAreRefused) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0}), twin(MPI_COMM_WORLD, {0});
  const Line t("t", mesh, {8}), u("u", twin, {8});
  expect_parts(message_thrown_by<ArgumentError>([&] { exchange(Space(), t, u); }),
               {"\"u\"", "another mesh"});
}

TEST(Exchange, AMessageOfAnotherStartIsFound) {
  // SHARD_CHECK is on. One rank starts the same two exchanges as the others in another order.
  if (ranks() < 2) GTEST_SKIP() << "needs a message";
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  const Line t("t", mesh, {static_cast<index_t>(2 * mesh.size())}), u = t.like("u");
  const Exchange halos(t);
  const bool late = mesh.rank() == 0,
             sees = late || mesh.rank() == 1 || mesh.rank() == mesh.size() - 1;
  std::optional<Pending<Space>> forward, backward;
  if (late) backward.emplace(halos.start_adjoint(Space(), u));
  forward.emplace(halos.start(Space()));
  if (!late) backward.emplace(halos.start_adjoint(Space(), u));
  for (auto* pending : {&*forward, &*backward}) {
    if (sees)
      expect_parts(message_thrown_by<MessageError>([&] { pending->finish(); }),
                   {("rank " + std::to_string(mesh.rank())).c_str(), "waited for message",
                    "got message", "same order"});
    else
      pending->finish();
  }
  // both have arrived, and the next ones are in step again
  fill_line(t);
  halos(Space());
  check_line(t, BoundaryKind::periodic);
}

TEST(Exchange, PlansEndWithTheMesh) {
  std::weak_ptr<impl::CachedPlan> plan;
  std::weak_ptr<impl::MeshState> state;
  {
    const Mesh<X> mesh(MPI_COMM_WORLD, {0});
    const Line t("t", mesh, {8});
    exchange(Space(), t);
    plan  = impl::find_exchange_plan(t);
    state = mesh.state();
    EXPECT_FALSE(plan.expired());
  }
  EXPECT_TRUE(plan.expired());
  EXPECT_TRUE(state.expired());
}

TEST(Exchange, InteriorWhileMessagesFly) {
  const auto mesh = mesh_of_all();
  const Folded t("t", mesh, {2, 12, 12});
  fill_randomly(t, 5);
  const Folded u = t.like("u");
  deep_copy(Space(), u, t);
  exchange(Space(), u);
  double inner = 0, outer = 0;
  auto pending = start_exchange(Space(), t);
  for_cells(t, false, [&](int l, int i, int j) { inner += t(l, i, j); });
  pending.finish();
  for_cells(t, true, [&](int l, int i, int j) { outer += std::abs(t(l, i, j) - u(l, i, j)); });
  EXPECT_NE(inner, 0);
  EXPECT_EQ(outer, 0);
}

}  // namespace
