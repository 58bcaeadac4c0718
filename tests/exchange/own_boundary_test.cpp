// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Boundaries by index, those that the caller fills, those of functors, and the regions for them.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shard/shard.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace {

using namespace shard;
using namespace shard::testing;
using Space = Kokkos::DefaultHostExecutionSpace;
struct Z;
struct X;

constexpr index_t variables = 4, rows = 7, columns = 9;

double number(index_t v, index_t k, index_t i) {
  return static_cast<double>(1 + v * 10000 + k * 100 + i);
}

/// Calls visit(local indices, global row, global column) for the elements of a field (variable,
/// row, column), halo included.
template <class F, class Visit>
void for_all(const F& f, const Visit& visit) {
  for (index_t v = 0; v < f.extent(0); ++v)
    for (index_t k = -F::halo_lo(1); k < f.extent(1) + F::halo_hi(1); ++k)
      for (index_t i = -F::halo_lo(2); i < f.extent(2) + F::halo_hi(2); ++i)
        visit(v, k, i, f.to_global(1, k), (f.to_global(2, i) + 3 * columns) % columns);
}

template <class F>
void prepare(const F& f) {
  for_all(f, [&](index_t v, index_t k, index_t i, index_t row, index_t column) {
    const bool own = k >= 0 && k < f.extent(1) && i >= 0 && i < f.extent(2);
    f(v, k, i)     = own ? number(v, row, column) : -1e5;
  });
}

template <class Layout, class OfZ>
using State = ShardedView<double***, Layout, ShardDim<1, Z, Halo<2>, OfZ>,
                          ShardDim<2, X, Halo<1, 2>, Periodic>, Kokkos::HostSpace>;

// the walls of an atmosphere: density and temperature clamped, the vertical velocity mirrored with
// its sign, the horizontal one left to the caller
using Walls = ByIndex<0, Clamp, Given, Odd<Symmetric>, Constant<7>>;

template <class Layout>
void check_walls() {
  const Mesh<Z, X> mesh(MPI_COMM_WORLD, {0, 0});
  const State<Layout, Walls> f("f", mesh, {variables, rows, columns});
  const State<Layout, Odd<Reflect>> other("other", mesh, {2, rows, columns});
  prepare(f);
  prepare(other);
  exchange(Space(), f, other);
  int wrong = 0;
  for_all(f, [&](index_t v, index_t k, index_t i, index_t row, index_t column) {
    double expected = number(v, row, column);
    if (row < 0 || row >= rows) {
      const index_t edge     = row < 0 ? 0 : rows - 1,
                    mirrored = row < 0 ? -1 - row : 2 * rows - 1 - row;
      expected               = v == 0   ? number(v, edge, column)
                               : v == 1 ? -1e5
                               : v == 2 ? -number(v, mirrored, column)
                                        : 7;
    }
    wrong += f(v, k, i) == expected ? 0 : 1;
  });
  EXPECT_EQ(wrong, 0);
  for_all(other, [&](index_t v, index_t k, index_t i, index_t row, index_t column) {
    const double expected = row < 0       ? -number(v, -row, column)
                            : row >= rows ? -number(v, 2 * rows - 2 - row, column)
                                          : number(v, row, column);
    wrong += other(v, k, i) == expected ? 0 : 1;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(OwnBoundaries, ByIndexOfAVariable) {
  check_walls<Kokkos::LayoutRight>();
  check_walls<Kokkos::LayoutLeft>();
}

TEST(OwnBoundaries, ByIndexNamesItsBoundaries) {
  const Mesh<Z, X> mesh(MPI_COMM_WORLD, {0, 0});
  using F = State<Kokkos::LayoutRight, Walls>;
  EXPECT_NE(message_thrown_by<ArgumentError>([&] {
              F("f", mesh, {3, rows, columns});
            }).find("has a boundary for each of 4 indices of dimension 0, which has extent 3"),
            std::string::npos);
  const F f("f", mesh, {variables, rows, columns});
  EXPECT_NE(describe(f).find("by index of dimension 0 (clamp, given by the caller, odd symmetric, "
                             "constant 7)"),
            std::string::npos)
      << describe(f);
}

template <class F>
struct SetKernel {
  F f;
  double value;
  KOKKOS_FUNCTION void operator()(int v, int k, int i) const { f(v, k, i) += value; }
};

TEST(OwnBoundaries, RegionsOutsideTheDomain) {
  const Mesh<Z, X> mesh(MPI_COMM_WORLD, {0, 0});
  const State<Kokkos::LayoutRight, Given> f("f", mesh, {2, rows, columns});
  parallel_for("low", Space(), beyond_low<Z>(f), SetKernel<decltype(f)>{f, 1});
  parallel_for("high", Space(), beyond_high<1>(f), SetKernel<decltype(f)>{f, 10});
  parallel_for("both", Space(), beyond<Z>(f), SetKernel<decltype(f)>{f, 100});
  parallel_for("corners", Space(), grown<2>(beyond<1>(f), 1, 2), SetKernel<decltype(f)>{f, 1000});
  parallel_for("faces", Space(), grown<1>(owned_region(f), 0, 1), SetKernel<decltype(f)>{f, 10000});
  Space().fence();
  int wrong = 0;
  for_all(f, [&](index_t v, index_t k, index_t i, index_t row, index_t) {
    const bool inner = i >= 0 && i < f.extent(2), low = row < 0, high = row >= rows;
    double expected = 0;
    if (inner && low) expected += 101;
    if (inner && high) expected += 110;
    if (low || high) expected += 1000;
    if (inner && k >= 0 && k <= f.extent(1)) expected += 10000;
    wrong += f(v, k, i) == expected ? 0 : 1;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(OwnBoundaries, GivenElementsStayAndAreNotWatched) {
  const ScopedVariable checked("SHARD_CHECK", "1");
  const Mesh<Z, X> mesh(MPI_COMM_WORLD, {0, 0});
  const State<Kokkos::LayoutRight, Given> f("f", mesh, {2, rows, columns});
  prepare(f);
  parallel_for("mine", Space(), grown<2>(beyond<Z>(f), 1, 2), SetKernel<decltype(f)>{f, 1e5 + 3});
  Space().fence();
  mark_written(Space(), f);
  exchange(Space(), f);
  int wrong = 0;
  for_all(f, [&](index_t v, index_t k, index_t i, index_t row, index_t column) {
    const double expected = row < 0 || row >= rows ? 3 : number(v, row, column);
    wrong += f(v, k, i) == expected ? 0 : 1;
  });
  EXPECT_EQ(wrong, 0);
  // the adjoint leaves them to the caller too
  exchange_adjoint(Space(), f);
  for_all(f, [&](index_t v, index_t k, index_t i, index_t row, index_t) {
    if (row < 0 || row >= rows) wrong += f(v, k, i) == 3 ? 0 : 1;
  });
  EXPECT_EQ(wrong, 0);
}

/// Twice the nearest row plus the column next to it, a profile and the time.
struct Inflow {
  double time;
  template <class F>
  KOKKOS_FUNCTION double operator()(const F& f, const OutsidePoint<3>& at) const {
    const int edge = at.high ? static_cast<int>(f.extent(1)) - 1 : 0;
    const int far =
        static_cast<int>(at.high ? at.global[1] - f.global_extent(1) : -1 - at.global[1]);
    return 2 * f(at.index[0], edge, at.index[2]) + time + 10 * far;
  }
};
struct InflowAdjoint {
  template <class F>
  KOKKOS_FUNCTION void operator()(const F& f, const OutsidePoint<3>& at, double cotangent) const {
    const int edge = at.high ? static_cast<int>(f.extent(1)) - 1 : 0;
    Kokkos::atomic_add(&f(at.index[0], edge, at.index[2]), 2 * cotangent);
  }
};
/// The same without what isn't linear.
struct Ceiling {
  template <class F>
  KOKKOS_FUNCTION double operator()(const F& f, const OutsidePoint<3>& at) const {
    return 3 * f(at.index[0], static_cast<int>(f.extent(1)) - 1, at.index[2]);
  }
};

template <class F>
struct ColumnKernel {
  F to, from;
  KOKKOS_FUNCTION void operator()(int v, int k, int i) const {
    to(v, k, i) = from(v, k - 2, i) + 3 * from(v, k + 2, i) + 5 * from(v, k, i - 1) +
                  7 * from(v, k + 1, i + 2);
  }
};

/// The rank at an edge of the domain has at least one row: its functor reads that row.
template <class OfZ>
using Column = ShardedView<double***, Kokkos::LayoutRight, ShardDim<1, Unsharded, Halo<2>, OfZ>,
                           ShardDim<2, X, Halo<1, 2>, Periodic>, Kokkos::HostSpace>;

TEST(OwnBoundaries, AFunctorComputesThem) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  using F = Column<Sides<Custom<Inflow, InflowAdjoint>, Custom<Ceiling>>>;
  using G = Column<Custom<Inflow, InflowAdjoint>>;
  const F f("f", mesh, {2, rows, columns});
  const G g("g", mesh, {3, rows, columns}), h = g.like("h"), other = g.like("other"),
                                            third = g.like("third");
  const Exchange halos(f, g);
  for (int step = 1; step < 4; ++step) {
    prepare(f);
    prepare(g);
    halos.with(Inflow{1.0 * step}, Ceiling{})(Space());
    int wrong       = 0;
    const auto look = [&](const auto& field, bool ceiling) {
      for_all(field, [&](index_t v, index_t k, index_t i, index_t row, index_t column) {
        const double expected =
            row < 0      ? 2 * number(v, 0, column) + step + 10 * static_cast<double>(-1 - row)
            : row < rows ? number(v, row, column)
            : ceiling
                ? 3 * number(v, rows - 1, column)
                : 2 * number(v, rows - 1, column) + step + 10 * static_cast<double>(row - rows);
        wrong += field(v, k, i) == expected ? 0 : 1;
      });
    };
    look(f, true);
    look(g, false);
    ASSERT_EQ(wrong, 0) << "step " << step;
  }
  // overlapped, and started and finished
  const Exchange one(g);
  const auto with = one.with(Inflow{3.0});
  parallel_for("serial", Space(), owned_region(g), ColumnKernel<G>{h, g});
  prepare(g);
  overlapped("overlapped", Space(), with, g, ColumnKernel<G>{other, g});
  prepare(g);
  {
    auto pending = with.start(Space());
    pending.advance();
  }  // finished by its destructor
  parallel_for("after", Space(), owned_region(g), ColumnKernel<G>{third, g});
  Space().fence();
  int wrong = 0;
  for (index_t v = 0; v < 3; ++v)
    for (index_t k = 0; k < rows; ++k)
      for (index_t i = 0; i < g.extent(2); ++i)
        wrong += h(v, k, i) == other(v, k, i) && h(v, k, i) == third(v, k, i) ? 0 : 1;
  EXPECT_EQ(wrong, 0);
}

/// Two more than the neighbour inside, in that dimension.
struct Onwards {
  template <class F>
  KOKKOS_FUNCTION double operator()(const F& f, const OutsidePoint<3>& at) const {
    int index[3] = {at.index[0], at.index[1], at.index[2]};
    // from the edge of the domain
    index[at.dim] = at.high ? static_cast<int>(f.global_extent(at.dim) - f.begin(at.dim)) - 1
                            : static_cast<int>(-f.begin(at.dim));
    return f(index[0], index[1], index[2]) + (at.dim == 1 ? 0.25 : 0.5);
  }
};

TEST(OwnBoundaries, CornersOfTwoFunctorsAreComputedLast) {
  const Mesh<Z, X> mesh(MPI_COMM_WORLD, {0, 0});
  using F = ShardedView<double***, Kokkos::LayoutRight, ShardDim<1, Z, Halo<2>, Custom<Onwards>>,
                        ShardDim<2, X, Halo<1, 2>, Custom<Onwards>>, Kokkos::HostSpace>;
  const F f("f", mesh, {2, rows, columns});
  prepare(f);
  Exchange(f).with(Onwards{})(Space());
  int wrong         = 0;
  const auto inside = [](index_t g, index_t n) { return g < 0 ? 0 : g >= n ? n - 1 : g; };
  for_all(f, [&](index_t v, index_t k, index_t i, index_t row, index_t) {
    const index_t column  = f.to_global(2, i);
    const double expected = number(v, inside(row, rows), inside(column, columns)) +
                            (row != inside(row, rows) ? 0.25 : 0) +
                            (column != inside(column, columns) ? 0.5 : 0);
    wrong += f(v, k, i) == expected ? 0 : 1;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(OwnBoundaries, AFunctorHasAnAdjoint) {
  const Mesh<X> mesh(MPI_COMM_WORLD, {0});
  using G = Column<Custom<Inflow, InflowAdjoint>>;
  const G x("x", mesh, {2, rows, columns}), y = x.like("y");
  const auto weight = [](index_t v, index_t k, index_t i, index_t row) {
    return static_cast<double>((v * 5 + k * 3 + i * 7 + row) % 11 - 5);
  };
  prepare(x);
  const Exchange halos(x);
  halos.with(Inflow{0.0})(Space());
  double sums[2] = {};
  int wrong      = 0;
  for_all(y, [&](index_t v, index_t k, index_t i, index_t row, index_t) {
    y(v, k, i) = weight(v, k, i, row);
    // without the constant part of the functor
    const index_t far = row < 0 ? -1 - row : row >= rows ? row - rows : 0;
    sums[0] += y(v, k, i) * (x(v, k, i) - 10 * static_cast<double>(far));
  });
  halos.with(InflowAdjoint{}).adjoint(Space(), y);
  for_all(y, [&](index_t v, index_t k, index_t i, index_t row, index_t column) {
    const bool own = k >= 0 && k < rows && i >= 0 && i < y.extent(2);
    if (own)
      sums[1] += y(v, k, i) * number(v, row, column);
    else
      wrong += y(v, k, i) == 0.0 ? 0 : 1;
  });
  EXPECT_EQ(wrong, 0);
  MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(sums[0], sums[1]);
}

}  // namespace
