// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Moves and reductions in the form that a tape records.
#include "shard/collectives/operations.hpp"

#include <cmath>
#include <tuple>

#include "redistribute/placed.hpp"
#include "shard/autodiff/tape.hpp"
#include "shard/collectives/collectives.hpp"
#include "shard/reduce/reduction_operations.hpp"
#include "shard/collectives/zigzag.hpp"
#include "shard/collectives/zigzag_contexts.hpp"
#include "support/counting.hpp"

namespace placed_test {

using shard::cotangent_t;
using shard::not_wanted;
using Whole    = Plane<>;
using Rows     = Plane<ShardDim<0, A>>;
using Tiles    = Plane<ShardDim<0, A>, ShardDim<1, B>>;
using Turned   = Plane<ShardDim<0, B>, ShardDim<1, A>>;
using Haloed   = Plane<ShardDim<0, A, Halo<1>>, ShardDim<1, B>>;
using Summed   = Plane<Partial<A, Sum>>;
using RowsSum  = Plane<ShardDim<0, B>, Partial<A, Sum>>;
using Local    = Kokkos::View<double***, Right, Space>;
using OneValue = Kokkos::View<double, Kokkos::HostSpace>;

static_assert(std::is_same_v<cotangent_t<Tiles>, Tiles>);
static_assert(std::is_same_v<cotangent_t<Whole>, Whole>);
static_assert(std::is_same_v<cotangent_t<RowsSum>, Plane<ShardDim<0, B>>>);
static_assert(std::is_same_v<cotangent_t<Plane<Partial<A, Sum>, Partial<B, Sum>>>, Whole>);

/// <R x, dy> = <x, R' dy> in whole numbers, what stood in dx is overwritten, and halos stay.
template <class Y, class X>
void check_redistribute(const Grid& mesh) {
  std::mt19937_64 engine(shard::testing::seed());
  const Space space;
  const auto x  = make<X>("x", mesh, {11, 10}, Cut::random, engine);
  const auto y  = make<Y>("y", mesh, {11, 10}, Cut::random, engine);
  const auto ty = shard::impl::placed_anew<Y>(y.any_geometry(), {});
  const auto dx = shard::impl::placed_anew<cotangent_t<X>>(x.any_geometry(), {});
  const auto dy = shard::impl::placed_anew<cotangent_t<Y>>(y.any_geometry(), {});
  Kokkos::deep_copy(space, dx.view(), untouched);
  fill(x, mesh);
  fill(dy, mesh, 1);
  const shard::Redistribute move;
  move.apply(space, y, x);
  EXPECT_EQ(wrong_cells(y, mesh, [](index_t i, index_t j) { return value(i, j); }), 0);
  move.pushforward(space, ty, x, x);
  EXPECT_EQ(wrong_cells(ty, mesh, [](index_t i, index_t j) { return value(i, j); }), 0);
  move.pullback(space, dx, dy, x);
  EXPECT_EQ(inner_product(y, dy, mesh), inner_product(x, dx, mesh));
  EXPECT_EQ(touched(dx), 0);
  const auto counts = shard::testing::count([&] { move.pullback(space, not_wanted, dy, x); });
  EXPECT_EQ(counts.messages + counts.collectives + counts.kernels, 0) << counts;
}

TEST(operations, make_their_output) {
  const Grid mesh(MPI_COMM_WORLD, {0, 0});
  std::mt19937_64 engine(shard::testing::seed());
  const auto x = make<Tiles>("x", mesh, {11, 10}, Cut::random, engine);
  fill(x, mesh);
  const auto rows = cut(11, mesh.size<B>(), Cut::random, engine);
  const shard::RedistributeTo<Turned> turn{{}, {rows, shard::Partition()}};
  const Turned y = turn.output(x);
  EXPECT_EQ(y.partition(0), rows);
  EXPECT_EQ(y.label(), "x");
  turn.apply(Space(), y, x);
  EXPECT_EQ(wrong_cells(y, mesh, [](index_t i, index_t j) { return value(i, j); }), 0);
}

TEST(operations, redistributions) {
  for (const shard::Extents<2>& shape :
       {shard::Extents<2>{shard::testing::ranks(), 1}, shard::Extents<2>{0, 0}}) {
    const Grid mesh(MPI_COMM_WORLD, shape);
    check_redistribute<Turned, Tiles>(mesh);
    check_redistribute<Tiles, Haloed>(mesh);  // partitions over the same axes, and a halo
    check_redistribute<Whole, Rows>(mesh);
    check_redistribute<Rows, Whole>(mesh);
    check_redistribute<Whole, Summed>(mesh);
    check_redistribute<Rows, Summed>(mesh);
    check_redistribute<RowsSum, Tiles>(mesh);
  }
}

Local local(index_t channels, index_t length, int which) {
  const Local view("local", 2, static_cast<std::size_t>(channels),
                   static_cast<std::size_t>(length));
  const auto near = Kokkos::create_mirror_view(view);
  for (std::size_t i = 0; i < near.size(); ++i)
    near.data()[i] = value(static_cast<index_t>(i), shard::testing::rank(), which);
  Kokkos::deep_copy(view, near);
  return view;
}
double product(const Local& a, const Local& b) {
  const auto x = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), a);
  const auto y = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), b);
  double sum   = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x.data()[i] * y.data()[i];
  return sum;
}
double product(const std::tuple<Local, Local>& a, const std::tuple<Local, Local>& b) {
  return product(std::get<0>(a), std::get<0>(b)) + product(std::get<1>(a), std::get<1>(b));
}

bool alike(const Local& a, const Local& b) {
  return a.extent(0) == b.extent(0) && a.extent(1) == b.extent(1) && a.extent(2) == b.extent(2);
}
bool alike(const std::tuple<Local, Local>& a, const std::tuple<Local, Local>& b) {
  return alike(std::get<0>(a), std::get<0>(b)) && alike(std::get<1>(a), std::get<1>(b));
}

/// <A x, dy> = <x, A' dy> over all ranks; the tangent is the operation.
template <class Operation, class Y>
void check_on_mesh(const Operation& operation, const Y& y, const Y& ty, const Y& dy,
                   const Local& x) {
  const Space space;
  const Local dx("dx", x.layout());
  EXPECT_TRUE(alike(operation.output(x), y));
  operation.apply(space, y, x);
  operation.pushforward(space, ty, x, x);
  operation.pullback(space, dx, dy, x);
  EXPECT_EQ(over_ranks(product(y, dy)), over_ranks(product(x, dx)));
  EXPECT_EQ(product(y, dy), product(ty, dy));
  const auto counts = shard::testing::count([&] { operation.pullback(space, not_wanted, dy, x); });
  EXPECT_EQ(counts.messages + counts.collectives + counts.kernels, 0) << counts;
}

TEST(operations, collectives_and_sequences_on_a_mesh) {
  const Grid mesh(MPI_COMM_WORLD, {0, 0});
  const int p      = mesh.size<A>();
  const auto check = [&](const auto& operation, index_t channels, index_t length,
                         index_t channels_of_x, index_t length_of_x) {
    check_on_mesh(on_mesh(operation, mesh), local(channels, length, 1), local(channels, length, 2),
                  local(channels, length, 3), local(channels_of_x, length_of_x, 4));
  };
  check(shard::AllReduce<A>{0.5}, 3, 4, 3, 4);
  check(shard::AllGather<A>{1}, 3 * p, 4, 3, 4);
  check(shard::ReduceScatter<A>{2}, 3, 4, 3, 4 * p);
  check(shard::AllToAll<A>{1, 2}, 3, 4 * p, 3 * p, 4);
  check(shard::Broadcast<A>{p - 1}, 3, 4, 3, 4);
  check(shard::ContextAllToAll<shard::SplitToFull, A>{}, 3, 4 * p, 3 * p, 4);
  check(shard::ContextAllToAll<shard::FullToSplit, A, shard::Contiguous>{}, 3 * p, 4, 3, 4 * p);
  check(shard::NamedContextAllToAll<A>{"split_to_full"}, 3, 4 * p, 3 * p, 4);
  check(shard::NamedContextAllToAll<A>{"full_to_split", false}, 3 * p, 4, 3, 4 * p);
  check(shard::ZigzagSplit<A>{2}, 3, 4, 3, 4 * p);
  check(shard::ZigzagGather<A>{2}, 3, 4 * p, 3, 4);
  const auto contexts = [](int which) {
    return std::tuple<Local, Local>{local(3, 5, which), local(3, 5, which + 1)};
  };
  check_on_mesh(on_mesh(shard::ZigzagContexts<A>{.width = 5}, mesh), contexts(1), contexts(2),
                contexts(3), local(3, 4, 5));
}

/// A loss that all ranks compute alike: each rank's part of the gradient is the derivative of one
/// of them.
TEST(operations, what_counts_once) {
  const Grid mesh(MPI_COMM_WORLD, {shard::testing::ranks(), 1});
  const Space space;
  const int p      = mesh.size<A>();
  const auto check = [&](const auto& operation, const Local& y, const Local& x) {
    const Local dx("dx", x.layout()), dy("dy", y.layout());
    operation.apply(space, y, x);
    Kokkos::deep_copy(dy, y);  // J = |y|^2 / 2
    operation.pullback(space, dx, dy, x);
    EXPECT_EQ(over_ranks(product(x, dx)), product(y, dy));
  };
  check(on_mesh(counts_once(shard::AllReduce<A>{}), mesh), local(3, 4, 1), local(3, 4, 0));
  check(on_mesh(counts_once(shard::ZigzagGather<A>{2}), mesh), local(3, 4 * p, 1), local(3, 4, 0));
}

OneValue one_value(double of = 0) {
  const OneValue view("one value");
  view() = of;
  return view;
}

/// Tangent against a central difference, and ty dy = <tx, dx> with the gradient.
template <class Operation, class X>
void check_reduction(const Operation& operation, const X& x, const Grid& mesh, double wanted) {
  const Space space;
  const auto apply = [&](const X& at) {
    const auto y = operation.output(at);
    operation.apply(space, y, at);
    return y();
  };
  const auto tx = shard::impl::placed_anew<X>(x.any_geometry(), {});
  const auto dx = shard::impl::placed_anew<X>(x.any_geometry(), {});
  const auto at = shard::impl::placed_anew<X>(x.any_geometry(), {});
  fill(tx, mesh, 3);
  constexpr double step = 1e-6;
  const auto moved      = [&](double by) {
    std::vector<double> cells;
    on_cells(x, [&](double& cell, index_t, index_t) { cells.push_back(cell); });
    std::size_t n = 0;
    on_cells(at,
                  [&](double& cell, index_t i, index_t j) { cell = cells[n++] + by * value(i, j, 3); });
    return apply(at);
  };
  const double difference = (moved(step) - moved(-step)) / (2 * step);
  EXPECT_NEAR(apply(x), wanted, 1e-12 * std::abs(wanted));
  const auto ty = one_value(), dy = one_value(1.75);
  operation.pushforward(space, ty, tx, x);
  EXPECT_NEAR(ty(), difference, 1e-6 * (1 + std::abs(difference)));
  operation.pullback(space, dx, dy, x);
  EXPECT_NEAR(ty() * dy(), inner_product(tx, dx, mesh), 1e-12 * (1 + std::abs(ty())));
  const auto counts = shard::testing::count([&] { operation.pullback(space, not_wanted, dy, x); });
  EXPECT_EQ(counts.messages + counts.collectives + counts.kernels, 0) << counts;
}

TEST(operations, reductions) {
  const Grid mesh(MPI_COMM_WORLD, {0, 0});
  std::mt19937_64 engine(shard::testing::seed());
  const Space space;
  const auto x = make<Haloed>("x", mesh, {7, 9}, Cut::random, engine);
  // no zeros, one cell each that is the least, the greatest and the greatest in magnitude
  const auto cell_at = [](index_t i, index_t j) {
    return i == 3 && j == 4 ? -40.0 : i == 5 && j == 7 ? 30.0 : value(i, j) + 0.5;
  };
  on_cells(x, [&](double& cell, index_t i, index_t j) { cell = cell_at(i, j); });
  double sum = 0, magnitudes = 0, squares = 0, weighted = 0, weights = 0;
  for (index_t i = 0; i < 7; ++i)
    for (index_t j = 0; j < 9; ++j) {
      sum += cell_at(i, j);
      magnitudes += std::abs(cell_at(i, j));
      squares += cell_at(i, j) * cell_at(i, j);
      weighted += static_cast<double>(i + 1) * cell_at(i, j);
      weights += static_cast<double>(i + 1);
    }
  constexpr auto ordered = shard::Determinism::ordered;
  check_reduction(shard::GlobalSum<>{}, x, mesh, sum);
  check_reduction(shard::GlobalMean<ordered>{}, x, mesh, sum / 63);
  const double variance = squares / 63 - sum / 63 * (sum / 63);
  check_reduction(shard::GlobalVariance<>{}, x, mesh, variance);
  check_reduction(shard::GlobalVariance<ordered>{1}, x, mesh, variance * 63 / 62);
  check_reduction(shard::GlobalNorm1<>{}, x, mesh, magnitudes);
  check_reduction(shard::GlobalNorm1<ordered>{}, x, mesh, magnitudes);
  check_reduction(shard::GlobalNorm2<>{}, x, mesh, std::sqrt(squares));
  check_reduction(shard::GlobalMin{}, x, mesh, -40);
  check_reduction(shard::GlobalMax{}, x, mesh, 30);
  check_reduction(shard::GlobalNormMax{}, x, mesh, 40);
  const Kokkos::View<double*, Space> rows("rows", static_cast<std::size_t>(x.extent(0)));
  const auto rows_near = Kokkos::create_mirror_view(rows);
  for (index_t i = 0; i < x.extent(0); ++i)
    rows_near(i) = static_cast<double>(x.to_global(0, i) + 1);
  Kokkos::deep_copy(rows, rows_near);
  check_reduction(shard::GlobalWeightedMean{shard::along<0>(rows)}, x, mesh, weighted / weights);

  // cells that share an extremum share its derivative
  const auto flat = shard::impl::placed_anew<Haloed>(x.any_geometry(), {});
  on_cells(flat, [](double& cell, index_t i, index_t) { cell = i < 3 ? 2.0 : 1.0; });
  const auto t = shard::impl::placed_anew<Haloed>(x.any_geometry(), {});
  const auto d = shard::impl::placed_anew<Haloed>(x.any_geometry(), {});
  fill(t, mesh, 3);
  double shared = 0;
  for (index_t i = 0; i < 3; ++i)
    for (index_t j = 0; j < 9; ++j) shared += value(i, j, 3) / 27;
  const shard::GlobalMax most;
  const auto tangent = one_value(), cotangent = one_value(3);
  most.apply(space, one_value(), flat);
  most.pushforward(space, tangent, t, flat);
  EXPECT_NEAR(tangent(), shared, 1e-14);
  most.pullback(space, d, cotangent, flat);
  EXPECT_NEAR(inner_product(t, d, mesh), 3 * shared, 1e-13);

  // dot: two fields, each with a tangent and a gradient
  const auto like = [&](int which) {
    const auto field = shard::impl::placed_anew<Haloed>(x.any_geometry(), {});
    fill(field, mesh, which);
    return field;
  };
  const auto a = like(0), b = like(1), ta = like(2), tb = like(3), da = like(4), db = like(4);
  const auto y = one_value(), ty = one_value(), dy = one_value(2);
  const shard::GlobalDot<> dot;
  dot.apply(space, y, a, b);
  EXPECT_EQ(y(), inner_product(a, b, mesh));
  dot.pushforward(space, ty, ta, tb, a, b);
  EXPECT_EQ(ty(), inner_product(ta, b, mesh) + inner_product(a, tb, mesh));
  dot.pullback(space, da, db, dy, a, b);
  EXPECT_EQ(ty() * dy(), inner_product(ta, da, mesh) + inner_product(tb, db, mesh));
  dot.pushforward(space, ty, not_wanted, tb, a, b);
  EXPECT_EQ(ty(), inner_product(a, tb, mesh));
}

TEST(operations, stand_on_the_tape) {
  const Grid mesh(MPI_COMM_WORLD, {0, 0});
  std::mt19937_64 engine(shard::testing::seed());
  const Space space;
  shard::Tape tape(space);

  // the norm of a field, by way of two other placements: its gradient is x / norm
  const auto x = make<Tiles>("x", mesh, {11, 10}, Cut::random, engine);
  fill(x, mesh);
  const auto turned = tape.run(shard::RedistributeTo<Turned>{}, x);
  const auto whole  = tape.run(shard::RedistributeTo<Whole>{}, turned);
  const auto norm   = tape.run(shard::GlobalNorm2<>{}, whole);
  const Tiles dx    = tape.pullback(norm, one_value(1), x);
  std::vector<double> cells;
  on_cells(x, [&](double& cell, index_t, index_t) { cells.push_back(cell / norm()); });
  std::size_t n = 0;
  on_cells(dx, [&](double& cell, index_t, index_t) { EXPECT_NEAR(cell, cells[n++], 1e-15); });
  EXPECT_NEAR(norm(), std::sqrt(inner_product(x, x, mesh)), 1e-12 * norm());

  // contributions along an axis: the adjoint of each is that of their sum
  tape.clear();
  const auto parts = make<Summed>("parts", mesh, {11, 10}, Cut::random, engine);
  fill(parts, mesh);
  const auto sum      = tape.run(shard::RedistributeTo<Whole>{}, parts);
  const auto size     = tape.run(shard::GlobalNorm2<>{}, sum);
  const Whole of_part = tape.pullback(size, one_value(1), parts);
  std::vector<double> wanted;
  on_cells(sum, [&](double& cell, index_t, index_t) { wanted.push_back(cell / size()); });
  n = 0;
  on_cells(of_part, [&](double& cell, index_t, index_t) { EXPECT_NEAR(cell, wanted[n++], 1e-15); });

  // sequences: <A v, dy> = <v, A' dy> of three operations on Views, of which the last has two
  // results
  const Local v        = local(3, 4, 0);
  const auto gathered  = tape.run(on_mesh(shard::ZigzagGather<A>{2}, mesh), v);
  const auto to_splits = on_mesh(shard::ContextAllToAll<shard::FullToSplit, A>{}, mesh);
  const auto split     = tape.run(to_splits, gathered);
  const auto contexts  = tape.run(on_mesh(shard::ZigzagContexts<A>{.width = 3}, mesh), split);
  const std::tuple<Local, Local> dy{local(3 * mesh.size<A>(), 3, 1),
                                    local(3 * mesh.size<A>(), 3, 2)};
  const Local dv = tape.pullback(contexts, dy, v);
  EXPECT_EQ(over_ranks(product(contexts, dy)), over_ranks(product(v, dv)));
}

}  // namespace placed_test
