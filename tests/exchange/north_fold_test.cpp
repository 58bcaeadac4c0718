// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tripolar grids: exchange, adjoint, overlap and reductions of fields at all positions of a cell,
// against the points of the folded plane in half cells.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/shard.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace {

using namespace shard;
using shard::testing::message_thrown_by;
using Space = Kokkos::DefaultHostExecutionSpace;
struct Lat;
struct Lon;

template <class Layout, int LatDim, int LonDim, Pivot P, At Position, Parity S>
struct Tripolar {
  static constexpr Pivot pivot = P;
  static constexpr At at       = Position;
  static constexpr int lat = LatDim, lon = LonDim;
  static constexpr bool odd = S == Parity::odd;
  using North               = Sides<Zero, NorthFold<LonDim, P, Position, S>>;
  using type = ShardedView<std::conditional_t<LatDim + LonDim == 1, double**, double***>, Layout,
                           ShardDim<LatDim, Lat, Halo<1, 2>, North>,
                           ShardDim<LonDim, Lon, Halo<2, 1>, Periodic>, Kokkos::HostSpace>;
};

/// A point of the plane in half cells, the representative of all that the fold makes one point, and
/// the number of times that the way to it crossed the fold.
struct Point {
  index_t x, y;
  bool crossed;
};

template <class Case>
Point point(index_t row, index_t column, index_t rows, index_t columns) {
  constexpr bool north = Case::at == At::north || Case::at == At::north_east,
                 south = Case::at == At::south || Case::at == At::south_west,
                 east  = Case::at == At::east || Case::at == At::north_east,
                 west  = Case::at == At::west || Case::at == At::south_west;
  const index_t x      = 2 * column + (east ? 2 : west ? 0 : 1);
  const index_t y      = 2 * row + (north ? 2 : south ? 0 : 1);
  // rows of cells: a field of southern points has one more about the northern edge
  const index_t cells = south && Case::pivot == Pivot::f_point ? rows - 1 : rows;
  const index_t px    = Case::pivot == Pivot::t_point ? 1 : 0,
                py    = Case::pivot == Pivot::f_point ? 2 * cells : 2 * cells - 1;
  const auto around   = [&](index_t a) {
    return ((a % (2 * columns)) + 2 * columns) % (2 * columns);
  };
  // among two points on the fold the one in the lower column
  const auto column_of = [&](index_t a) { return around(a - (east ? 2 : west ? 0 : 1)); };
  if (y > py || (y == py && column_of(2 * px - x) < column_of(x)))
    return {around(2 * px - x), 2 * py - y, true};
  return {around(x), y, false};
}

double value(const Point& p, index_t level) {
  return static_cast<double>((p.x * 131 + p.y * 37 + level * 1009) % 257 - 100);
}

template <class F>
struct SquareKernel {
  F f;
  template <class... I>
  KOKKOS_FUNCTION double operator()(I... i) const {
    return f(i...) * f(i...);
  }
};

template <class Case, class F>
index_t level_of(const F&, const std::array<index_t, 3>& index) {
  if constexpr (F::rank == 2)
    return 0;
  else
    return index[static_cast<std::size_t>(3 - Case::lat - Case::lon)];
}

/// Calls visit(element, point, level, in halo) for the elements of a rank that aren't south of the
/// domain.
template <class Case, class F, class Visit>
void for_points(const F& f, const Visit& visit) {
  std::array<index_t, 3> lo{}, hi{1, 1, 1}, index{};
  for (int d = 0; d < F::rank; ++d) {
    lo[static_cast<std::size_t>(d)] = -F::halo_lo(d);
    hi[static_cast<std::size_t>(d)] = f.extent(d) + F::halo_hi(d);
  }
  for (index[0] = lo[0]; index[0] < hi[0]; ++index[0])
    for (index[1] = lo[1]; index[1] < hi[1]; ++index[1])
      for (index[2] = lo[2]; index[2] < hi[2]; ++index[2]) {
        const auto at        = [&](int d) { return index[static_cast<std::size_t>(d)]; };
        const index_t row    = f.begin(Case::lat) + at(Case::lat),
                      column = f.begin(Case::lon) + at(Case::lon);
        if (row < 0) continue;
        bool halo = false;
        for (int d = 0; d < F::rank; ++d) halo = halo || at(d) < 0 || at(d) >= f.extent(d);
        auto& cell = [&]() -> double& {
          if constexpr (F::rank == 2)
            return f(index[0], index[1]);
          else
            return f(index[0], index[1], index[2]);
        }();
        visit(cell,
              point<Case>(row, column, f.global_extent(Case::lat), f.global_extent(Case::lon)),
              level_of<Case>(f, index), halo);
      }
}

template <class Case, class F = typename Case::type>
F make(const char* label, const Mesh<Lat, Lon>& mesh, index_t rows, index_t columns) {
  Extents<F::rank> extents{};
  for (int d = 0; d < F::rank; ++d) extents[static_cast<std::size_t>(d)] = 3;
  extents[static_cast<std::size_t>(Case::lat)] = rows;
  extents[static_cast<std::size_t>(Case::lon)] = columns;
  return F(label, mesh, extents);
}

template <class F>
struct SumOfNineKernel {
  F to, from;
  int lat, lon;
  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    double sum = 0;
    for (int a = -1; a <= 2; ++a)
      for (int b = -2; b <= 1; ++b) {
        int at[] = {static_cast<int>(i)...};
        at[lat] += a;
        at[lon] += b;
        if constexpr (F::rank == 2)
          sum += (3 + a) * (5 + b) * from(at[0], at[1]);
        else
          sum += (3 + a) * (5 + b) * from(at[0], at[1], at[2]);
      }
    to(i...) = sum;
  }
};

template <class Case>
void check(const Mesh<Lat, Lon>& mesh, index_t rows, index_t columns) {
  using F = typename Case::type;
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns) + ", position " +
               std::to_string(static_cast<int>(Case::at)) + ", pivot " +
               std::to_string(static_cast<int>(Case::pivot)));
  const auto f = make<Case>("f", mesh, rows, columns), g = f.like("g"), h = f.like("h"),
             other    = f.like("other");
  const auto expected = [](const Point& p, index_t level) {
    return Case::odd && p.crossed ? -value(p, level) : value(p, level);
  };
  const auto prepare = [&](const F& field) {
    for_points<Case>(field, [&](double& cell, const Point& p, index_t level, bool halo) {
      cell = halo || p.crossed ? 1e6 : value(p, level);
    });
  };
  int wrong        = 0;
  const auto count = [&](double& cell, const Point& p, index_t level, bool) {
    wrong += cell == expected(p, level) ? 0 : 1;
  };
  prepare(f);
  prepare(g);
  exchange(Space(), f, g);
  for_points<Case>(f, count);
  for_points<Case>(g, count);
  EXPECT_EQ(wrong, 0);

  // a plan along longitudes alone fills its halos as the full exchange does, on the fold too, and
  // writes nothing else; its adjoint adds them to the same points
  const auto along = Exchange(other).template only<Lon>();
  prepare(other);
  along(Space());
  index_t filled = 0, in_halo = F::halo_lo(Case::lon) + F::halo_hi(Case::lon);
  for (int d = 0; d < F::rank; ++d)
    if (d != Case::lon) in_halo *= other.extent(d);
  double inner_along = 0, back_along = 0;
  for_points<Case>(other, [&](double& cell, const Point& p, index_t level, bool halo) {
    const bool used     = halo ? cell != 1e6 : !p.crossed;
    const double factor = used ? static_cast<double>((p.x * 7 + p.y * 3 + level) % 11 - 4) : 0.0;
    filled += halo && used ? 1 : 0;
    if (used) wrong += cell == expected(p, level) ? 0 : 1;
    inner_along += factor * expected(p, level);
    cell = factor;
  });
  EXPECT_EQ(filled, other.extent(Case::lon) == 0 ? 0 : in_halo);
  along.adjoint(Space());
  for_points<Case>(other, [&](double& cell, const Point& p, index_t level, bool halo) {
    if (!halo && !p.crossed) back_along += cell * value(p, level);
    if (halo || p.crossed) wrong += cell == 0.0 ? 0 : 1;
  });
  double along_sums[] = {inner_along, back_along};
  MPI_Allreduce(MPI_IN_PLACE, along_sums, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(along_sums[0], along_sums[1]);
  EXPECT_EQ(wrong, 0);

  // overlapped: copies are written by the exchange, so the interior doesn't read them
  const Exchange halos(Tuning{.transport = TransportKind::mpi}, f);
  parallel_for("serial", Space(), owned_region(g), SumOfNineKernel<F>{g, f, Case::lat, Case::lon});
  prepare(f);
  overlapped("overlapped", Space(), halos, f, SumOfNineKernel<F>{h, f, Case::lat, Case::lon});
  prepare(f);
  auto pending = halos.start(Space());
  parallel_for("inner", Space(), interior(f), SumOfNineKernel<F>{other, f, Case::lat, Case::lon});
  pending.finish();
  parallel_for("rim", Space(), rim(f), SumOfNineKernel<F>{other, f, Case::lat, Case::lon});
  Space().fence();
  std::vector<double> all[3];
  int k = 0;
  for (const F* field : {&g, &h, &other}) {
    for_points<Case>(*field, [&](double& cell, const Point&, index_t, bool halo) {
      if (!halo) all[k].push_back(cell);
    });
    ++k;
  }
  EXPECT_EQ(all[0], all[1]);
  EXPECT_EQ(all[0], all[2]);

  // the adjoint: of every element its way back to a point
  for_points<Case>(f, [&](double& cell, const Point& p, index_t level, bool halo) {
    cell = static_cast<double>((p.x * 7 + p.y * 3 + level + (halo ? 5 : 0)) % 11 - 4);
  });
  double inner = 0, back = 0;
  for_points<Case>(f, [&](double& cell, const Point& p, index_t level, bool) {
    inner += cell * expected(p, level);
  });
  exchange_adjoint(Space(), f);
  for_points<Case>(f, [&](double& cell, const Point& p, index_t level, bool halo) {
    if (halo || p.crossed)
      wrong += cell == 0.0 ? 0 : 1;
    else
      back += cell * value(p, level);
  });
  double both[] = {inner, back};
  MPI_Allreduce(MPI_IN_PLACE, both, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(both[0], both[1]);
  EXPECT_EQ(wrong, 0);

  // reductions count each point once
  for_points<Case>(
      f, [&](double& cell, const Point& p, index_t level, bool) { cell = expected(p, level); });
  std::set<std::array<index_t, 3>> points;
  double sum = 0, most = -1e9, dotted = 0;
  const index_t levels = F::rank == 3 ? 3 : 1;
  for (index_t l = 0; l < levels; ++l)
    for (index_t i = 0; i < rows; ++i)
      for (index_t j = 0; j < columns; ++j) {
        const Point p = point<Case>(i, j, rows, columns);
        if (!points.insert({l, p.x, p.y}).second) continue;
        sum += value(p, l);
        dotted += value(p, l) * value(p, l);
        most = std::max(most, value(p, l));
      }
  const auto distinct = static_cast<double>(points.size());
  EXPECT_EQ(shard::sum(Space(), f), sum);
  EXPECT_EQ(shard::sum<Determinism::ordered>(Space(), f), sum);
  EXPECT_EQ(shard::mean(Space(), f), sum / distinct);
  EXPECT_EQ(shard::dot(Space(), f, f), dotted);
  EXPECT_EQ(shard::dot<Determinism::ordered>(Space(), f, f), dotted);
  EXPECT_EQ(shard::max(Space(), f), most);
  EXPECT_EQ(shard::reduce(Space(), f, SquareKernel<F>{f}), dotted);
  EXPECT_EQ(shard::reduce<Determinism::ordered>(Space(), f, SquareKernel<F>{f}), dotted);
  sum_pullback(Space(), g, 2.0);
  Space().fence();
  for_points<Case>(g, [&](double& cell, const Point& p, index_t, bool halo) {
    if (!halo) wrong += cell == (p.crossed ? 0.0 : 2.0) ? 0 : 1;
  });
  EXPECT_EQ(wrong, 0);
}

template <class Layout, int LatDim, int LonDim, Pivot P, At Position, Parity S = Parity::even>
void check_sizes() {
  const Mesh<Lat, Lon> meshes[] = {{MPI_COMM_WORLD, {0, 0}}, {MPI_COMM_WORLD, {1, 0}}};
  for (const auto& mesh : meshes)
    for (const auto& [rows, columns] : {std::pair<index_t, index_t>{5, 9}, {14, 24}})
      check<Tripolar<Layout, LatDim, LonDim, P, Position, S>>(mesh, rows, columns);
}

using Right = Kokkos::LayoutRight;
using Left  = Kokkos::LayoutLeft;

TEST(NorthFold, CellsOnAndBesideTheFold) {
  check_sizes<Right, 1, 2, Pivot::t_point, At::centre>();
  check_sizes<Right, 1, 2, Pivot::f_point, At::centre>();
  check_sizes<Left, 1, 2, Pivot::u_point, At::centre>();
}

TEST(NorthFold, VelocitiesOnEasternAndNorthernFaces) {
  check_sizes<Right, 1, 2, Pivot::t_point, At::east, Parity::odd>();
  check_sizes<Right, 0, 1, Pivot::t_point, At::north, Parity::odd>();
  check_sizes<Left, 2, 1, Pivot::f_point, At::east, Parity::odd>();
  check_sizes<Right, 0, 2, Pivot::f_point, At::north, Parity::odd>();
}

TEST(NorthFold, CornersAndWesternAndSouthernFaces) {
  check_sizes<Right, 0, 1, Pivot::f_point, At::north_east, Parity::odd>();
  check_sizes<Right, 1, 0, Pivot::t_point, At::north_east>();
  check_sizes<Right, 1, 2, Pivot::f_point, At::south_west, Parity::odd>();
  check_sizes<Left, 0, 1, Pivot::u_point, At::west, Parity::odd>();
  check_sizes<Right, 1, 2, Pivot::u_point, At::south>();
}

/// A flow across the fold from a stream function at corners: no cell gains or loses volume, on the
/// fold and beyond it. (MOM6 #902, Oceananigans #4318 and #5405: divergence beside the fold.)
template <Pivot P>
void check_flow() {
  using Corners          = Tripolar<Right, 0, 1, P, At::north_east, Parity::even>;
  using Eastern          = Tripolar<Right, 0, 1, P, At::east, Parity::odd>;
  using North            = Tripolar<Right, 0, 1, P, At::north, Parity::odd>;
  constexpr index_t rows = 14, columns = 24;
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const auto psi = make<Corners>("psi", mesh, rows, columns);
  const auto u   = make<Eastern>("u", mesh, rows, columns);
  const auto v   = make<North>("v", mesh, rows, columns);
  for_points<Corners>(psi, [&](double& cell, const Point& p, index_t, bool halo) {
    cell = halo ? -1e9 : value(p, 0);
  });
  exchange(Space(), psi);
  for (index_t i = 0; i < u.extent(0); ++i)
    for (index_t j = 0; j < u.extent(1); ++j) {
      u(i, j) = psi(i, j) - psi(i - 1, j);
      v(i, j) = psi(i, j - 1) - psi(i, j);
    }
  exchange(Space(), u, v);
  int wrong = 0, moving = 0;
  for (index_t i = 0; i < u.extent(0) + 2; ++i)
    for (index_t j = -1; j < u.extent(1) + 1; ++j) {
      if (u.begin(0) + i < 1) continue;  // beside the southern wall
      wrong += u(i, j) - u(i, j - 1) + v(i, j) - v(i - 1, j) == 0 ? 0 : 1;
      moving += u(i, j) != 0 && v(i, j) != 0 ? 1 : 0;
    }
  EXPECT_EQ(wrong, 0);
  if (u.extent(0) > 1 && u.extent(1) > 1) {
    EXPECT_GT(moving, 0);
  }
}

TEST(NorthFold, FlowsAcrossTheFoldHaveNoDivergence) {
  check_flow<Pivot::t_point>();
  check_flow<Pivot::f_point>();
  check_flow<Pivot::u_point>();
}

TEST(NorthFold, DescribesItself) {
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const auto f =
      make<Tripolar<Right, 1, 2, Pivot::f_point, At::east, Parity::odd>>("u", mesh, 5, 9);
  EXPECT_NE(
      describe(f).find("odd north fold after the last row, longitude i of dimension 2 opposite "
                       "to -2 - i"),
      std::string::npos)
      << describe(f);
}

TEST(NorthFold, NeedsTwoRowsAndColumns) {
  const Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  using On = Tripolar<Right, 1, 2, Pivot::t_point, At::centre, Parity::even>;
  EXPECT_NE(message_thrown_by<ArgumentError>([&] { make<On>("t", mesh, 1, 8); })
                .find("dimension 1 of extent 1 has its northern fold on or before its only row; it "
                      "needs two rows"),
            std::string::npos);
  EXPECT_NE(message_thrown_by<ArgumentError>([&] {
              make<On>("t", mesh, 5, 0);
            }).find("folded along dimension 2, which is empty"),
            std::string::npos);
}

}  // namespace
