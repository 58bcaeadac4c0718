// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pad and Unpad against walks from each cell back into the world, on every mesh.

#include <numeric>

#include "layers/layer_support.hpp"
#include "shard/layers/resampling/pixel_shuffle.hpp"
#include "shard/layers/window/pad.hpp"
#include "support/counting.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

/// Where a cell's value comes from: step by step back to the world.
struct Walk {
  index_t cell;
  bool constant = false, crossed = false;
  double value = 0.0;
};
Walk walk(const BoundarySide sides[2], index_t g, index_t n) {
  Walk w{g};
  while (w.cell < 0 || w.cell >= n) {
    const BoundarySide& side = sides[g < 0 ? 0 : 1];
    const bool below         = w.cell < 0;
    switch (side.kind) {
      case BoundaryKind::constant: return {0, true, false, side.value.as<double>()};
      case BoundaryKind::periodic: w.cell += below ? n : -n; break;
      case BoundaryKind::clamp: w.cell = below ? 0 : n - 1; break;
      case BoundaryKind::fold_on_row:
      case BoundaryKind::reflect:
        w.crossed = !w.crossed;
        w.cell    = below ? -w.cell : 2 * (n - 1) - w.cell;
        break;
      case BoundaryKind::fold_between_rows:
      case BoundaryKind::symmetric:
        w.crossed = !w.crossed;
        w.cell    = below ? -1 - w.cell : 2 * n - 1 - w.cell;
        break;
      default: return {0, true, false, 0.0};
    }
  }
  return w;
}

template <class... B>
constexpr std::array<std::array<BoundarySide, 2>, sizeof...(B)> sides_of(const Pad<B...>&) {
  return {{{impl::BoundaryTraits<B>::low, impl::BoundaryTraits<B>::high}...}};
}
template <int Dims>
constexpr std::array<std::array<BoundarySide, 2>, Dims> sides_of(const Unpad<Dims>&) {
  return {};
}

/// Calls visit(cell of y, cell of x or nothing, factor, constant) for all cells of y.
template <class Layer, std::size_t Rank, class Visit>
void for_cells(const Layer& layer, const std::array<index_t, Rank>& nx,
               const std::array<index_t, Rank>& ny, int sign, const Visit& visit) {
  constexpr int rank = static_cast<int>(Rank);
  const auto sides   = sides_of(layer);
  World<rank> x, y;
  x.n           = nx;
  y.n           = ny;
  index_t cells = 1;
  for (index_t n : ny) cells *= n;
  for (index_t k = 0; k < cells; ++k) {
    std::array<index_t, Rank> i{}, from{};
    index_t rest = k;
    for (std::size_t d = Rank; d-- > 0; rest /= ny[d]) i[d] = rest % ny[d];
    from          = i;
    double factor = 1.0, value = 0.0;
    bool constant = false, turned = false;
    for (std::size_t d = 2; d < Rank; ++d) {
      const Walk w =
          walk(sides[d - 2].data(), i[d] - sign * layer.low[static_cast<int>(d - 2)], nx[d]);
      from[d] = w.cell;
      if (w.constant && !constant) value = w.value;
      constant = constant || w.constant;
      if (w.crossed) {
        turned = turned != (sides[d - 2][0].longitude >= 0);
        if (sides[d - 2][0].odd) factor = -factor;
      }
    }
    if constexpr (Rank > 3)
      if (turned) from[3] = (from[3] + nx[3] / 2) % nx[3];
    visit(y.at(i), constant ? ~std::size_t{0} : x.at(from), factor, value);
  }
}

template <class T, class Layout = Kokkos::LayoutRight, class Layer, std::size_t Rank>
void check(const Layer& layer, const std::array<index_t, Rank>& n, int sign = 1) {
  constexpr int rank = static_cast<int>(Rank);
  using F            = OutputOf<T, rank - 2, Layout>;
  const Space space;
  Random random(seed());
  std::array<index_t, Rank> m = n;
  for (std::size_t d = 2; d < Rank; ++d) {
    const int s = static_cast<int>(d) - 2;
    m[d] += sign * (layer.low[s] + layer.high[s]);
    EXPECT_EQ(layer.output_extent(s, n[d]), m[d]);
  }
  const World<rank> x0 = random_world(n, random), dy0 = random_world(m, random);
  World<rank> y0(m), ty0(m), dx0(n);
  for_cells(layer, n, m, sign, [&](std::size_t o, std::size_t i, double factor, double value) {
    y0.v[o]  = i == ~std::size_t{0} ? value : factor * x0.v[i];
    ty0.v[o] = i == ~std::size_t{0} ? 0.0 : y0.v[o];
    if (i != ~std::size_t{0}) dx0.v[i] += factor * dy0.v[o];
  });
  const bool single      = std::is_same_v<T, float>;
  const double tolerance = single ? 1e-5 : 1e-12, exact = single ? 1e-7 : 0.0;
  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    const F x("x", mesh, some_partitions(n, shape, which, random)), dx = x.like("dx");
    scatter(x, x0);
    for (const bool own : {true, false}) {  // the owners' partition, and any other
      const F y(
          "y", mesh,
          own ? layer.output_partitions(x.partitions()) : some_partitions(m, shape, 1, random));
      const F dy = y.like("dy");
      scatter(y, World<rank>(m));
      layer.apply(space, y, x);
      EXPECT_LE(difference(y, y0), exact);
      layer.pushforward(space, y, x, x);
      EXPECT_LE(difference(y, ty0), exact);
      scatter(dy, dy0);
      scatter(dx, x0);
      layer.pullback(space, dx, dy, x);
      EXPECT_LT(difference(dx, dx0), tolerance);
      EXPECT_LE(difference(dy, dy0), exact) << "dy has changed";
    }
  });
}

using Vector = PoleFold<3, Pole::on_row, Parity::odd>;

TEST(pad, climate_pads_of_any_width) {
  check<double>(EarthPad{.low = {1, 1}, .high = {1, 2}}, std::array<index_t, 4>{2, 2, 5, 6});
  check<double>(EarthPad{.low = {9, 7}, .high = {4, 13}}, std::array<index_t, 4>{1, 1, 3, 4});
  check<double>(MirrorPad{.low = {3, 0}, .high = {0, 5}}, std::array<index_t, 4>{1, 2, 7, 8});
  check<double>(MirrorPad{.low = 11, .high = 9}, std::array<index_t, 4>{1, 1, 3, 4});
  check<double>(Pad<Vector, Periodic>{.low = {8, 1}, .high = {3, 3}},
                std::array<index_t, 4>{1, 2, 4, 6});
}

TEST(pad, other_boundaries_ranks_and_layouts) {
  check<double>(Pad<Sides<Constant<3>, Clamp>, Symmetric>{.low = {2, 9}, .high = {5, 1}},
                std::array<index_t, 4>{2, 1, 6, 4});
  check<double>(Pad<Odd<Reflect>, Odd<Symmetric>>{.low = {2, 5}, .high = {1, 2}},
                std::array<index_t, 4>{1, 1, 5, 4});
  check<double>(Pad<Vector, Zero>{.low = {2, 1}, .high = {1, 2}},
                std::array<index_t, 4>{1, 1, 5, 8});
  check<float, Kokkos::LayoutLeft>(Pad<Reflect>{.low = 3, .high = 2},
                                   std::array<index_t, 3>{2, 3, 9});
  check<double>(Pad<Zero, Reflect, Periodic>{.low = {1, 2, 0}, .high = {0, 1, 3}},
                std::array<index_t, 5>{1, 2, 2, 4, 5});
  check<double>(Unpad<2>{.low = {2, 0}, .high = {1, 4}}, std::array<index_t, 4>{2, 2, 9, 10}, -1);
  check<double>(Unpad<1>{.low = 4, .high = 5}, std::array<index_t, 3>{1, 1, 9}, -1);
}

using Plane = OutputOf<double, 2>;

World<4> of_rows(const std::vector<std::vector<double>>& rows) {
  World<4> w({1, 1, static_cast<index_t>(rows.size()), static_cast<index_t>(rows[0].size())});
  auto next = w.v.begin();
  for (const auto& row : rows) next = std::copy(row.begin(), row.end(), next);
  return w;
}

TEST(pad, golden_values_of_earth_and_mirror) {
  World<4> x0({1, 1, 3, 4});
  std::iota(x0.v.begin(), x0.v.end(), 0.0);
  const World<4> earth  = of_rows({{1, 2, 3, 0, 1, 2, 3},
                                   {3, 0, 1, 2, 3, 0, 1},
                                   {7, 4, 5, 6, 7, 4, 5},
                                   {11, 8, 9, 10, 11, 8, 9},
                                   {9, 10, 11, 8, 9, 10, 11}}),
                 mirror = of_rows({{7, 4, 5, 6, 7, 4, 5},
                                   {3, 0, 1, 2, 3, 0, 1},
                                   {7, 4, 5, 6, 7, 4, 5},
                                   {11, 8, 9, 10, 11, 8, 9},
                                   {7, 4, 5, 6, 7, 4, 5}});
  Random random(seed());
  const auto compare = [&](const auto& layer, const World<4>& expected) {
    on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
      const Plane x("x", mesh, some_partitions(x0.n, shape, which, random));
      const Plane y("y", mesh, layer.output_partitions(x.partitions())), back = x.like("back");
      scatter(x, x0);
      layer.apply(Space(), y, x);
      EXPECT_EQ(difference(y, expected), 0.0);
      Unpad<2>{.low = layer.low, .high = layer.high}.apply(Space(), back, y);
      EXPECT_EQ(difference(back, x0), 0.0);
    });
  };
  compare(EarthPad{.low = {1, 1}, .high = {1, 2}}, earth);
  compare(MirrorPad{.low = {1, 1}, .high = {1, 2}}, mirror);
}

/// Their padded field is cut into equal parts, whose rows aren't those of the target's shards.
TEST(pad, B9_unpadding_many_shards_and_uneven_poles_moves_no_row) {
  const Space space;
  for (const auto& [n, low, high] : {std::array<index_t, 3>{64, 16, 16},
                                     {64, 8, 8},
                                     {8, 4, 0},
                                     {8, 0, 4},
                                     {9, 2, 5},
                                     {13, 1, 20}}) {
    World<4> rows({1, 2, n, 6});
    for (std::size_t k = 0; k < rows.v.size(); ++k)
      rows.v[k] = static_cast<double>(static_cast<index_t>(k) / 6 % n);
    for (const auto& shape : shapes(world_size())) {
      const Grid mesh(MPI_COMM_WORLD, {shape[0], shape[1]});
      const Plane x("x", mesh, {1, 2, n, 6}), back = x.like("back");
      const EarthPad pad{.low = {low, 2}, .high = {high, 1}};
      const Unpad<2> unpad{.low = pad.low, .high = pad.high};
      const Plane padded("padded", mesh, {1, 2, n + low + high, 9});  // in equal parts
      scatter(x, rows);
      pad.apply(space, padded, x);
      unpad.apply(space, back, padded);
      EXPECT_EQ(difference(back, rows), 0.0) << n << " rows, " << low << " and " << high;
      const Plane kept("kept", mesh, unpad.output_partitions(padded.partitions()));
      unpad.apply(space, kept, padded);
      EXPECT_EQ(difference(kept, rows), 0.0) << n << " rows, " << low << " and " << high;
    }
  }
}

TEST(pad, B13_no_cells_on_one_side_add_and_take_none) {
  check<double>(EarthPad{.low = {2, 0}, .high = {0, 0}}, std::array<index_t, 4>{1, 1, 5, 6});
  check<double>(EarthPad{.low = {0, 0}, .high = {2, 1}}, std::array<index_t, 4>{1, 1, 5, 6});
  check<double>(EarthPad{}, std::array<index_t, 4>{1, 1, 5, 6});
  check<double>(Unpad<2>{.low = {2, 1}, .high = {0, 0}}, std::array<index_t, 4>{1, 1, 7, 6}, -1);
  check<double>(Unpad<2>{}, std::array<index_t, 4>{1, 1, 7, 6}, -1);
}

/// A PixelUnshuffle takes them on any partition.
TEST(pad, shards_begin_at_multiples) {
  const Pad<Reflect, Periodic> pad{.low = {1, 0}, .high = {2, 1}, .multiple = {4, 2}};
  check<double>(pad, std::array<index_t, 4>{1, 2, 13, 9});
  const Pad<Zero, Zero, Zero> levels{.high = {0, 1, 1}, .multiple = {0, 2, 2}};
  check<double>(levels, std::array<index_t, 5>{1, 2, 3, 7, 9});
  Random random(seed());
  for (int round = 0; round < 20; ++round) {
    const Partition rows  = random_partition(13, 5, random);
    const auto partitions = pad.output_partitions(std::array<Partition, 4>{
        Partition::whole(1), Partition::whole(2), rows, Partition::balanced(9, 4)});
    const Partition unrounded =
        EarthPad{.low = {1, 0}, .high = {2, 1}}.output_partitions(std::array<Partition, 4>{
            Partition::whole(1), Partition::whole(2), rows, Partition::whole(9)})[2];
    for (int r = 0; r < 5; ++r) {
      EXPECT_EQ(partitions[2].begin(r) % 4, 0) << rows.describe();
      EXPECT_GE(partitions[2].begin(r), unrounded.begin(r));
      EXPECT_LT(partitions[2].begin(r), unrounded.begin(r) + 4);
    }
    for (int r = 0; r < 4; ++r) EXPECT_EQ(partitions[3].begin(r) % 2, 0);
    EXPECT_NO_THROW(PixelUnshuffle<2>{}.output_partitions(partitions));
  }
  // the last shard ends where the field does
  const Pad<Zero> whole{.multiple = 4};
  const auto ends = whole.output_partitions(std::array<Partition, 3>{
      Partition::whole(1), Partition::whole(1), Partition::explicit_begins({0, 9, 10})});
  EXPECT_EQ(ends[2], Partition::explicit_begins({0, 10, 10}));
}

/// The owners keep their cells: only what wraps round the world is sent, once.
TEST(pad, nothing_is_sent_but_the_ends) {
  const ScopedVariable by_messages("SHARD_TRANSPORT", "mpi"), unchecked("SHARD_CHECK", "0");
  const int ranks = world_size();
  const Grid rows(MPI_COMM_WORLD, {ranks, 1}), columns(MPI_COMM_WORLD, {1, ranks});
  const MirrorPad pad{.low = {1, 2}, .high = {1, 2}};
  const Space space;
  const auto sent = [&](const Grid& mesh) {
    const Plane x("x", mesh, {1, 1, 2 * ranks, 4 * ranks}), dx = x.like("dx");
    const Plane y("y", mesh, pad.output_partitions(x.partitions()));
    pad.apply(space, y, x);
    const Counts forward = count([&] { pad.apply(space, y, x); });
    pad.pullback(space, dx, y, x);
    const Counts backward = count([&] { pad.pullback(space, dx, y, x); });
    EXPECT_EQ(backward.messages, forward.messages) << forward << backward;
    EXPECT_EQ(backward.allocations, 0);
    const Counts none = count([&] { pad.pullback(space, not_wanted, y, x); });
    EXPECT_EQ(none.messages + none.kernels, 0);
    const Unpad<2> unpad{.low = pad.low, .high = pad.high};
    unpad.apply(space, x, y);
    EXPECT_EQ(count([&] { unpad.apply(space, x, y); }).messages, 0);
    return forward;
  };
  EXPECT_EQ(sent(rows).messages, 0);
  const bool at_an_end = rank() == 0 || rank() == ranks - 1;
  const Counts wrapped = sent(columns);
  EXPECT_EQ(wrapped.messages, ranks > 1 && at_an_end ? 1 : 0) << wrapped;
}

TEST(pad, what_does_not_fit_throws_on_every_rank) {
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const Plane x("x", mesh, {1, 1, 5, 7}), y("y", mesh, {1, 1, 7, 7}),
      one("one", mesh, {1, 1, 1, 8}), three("three", mesh, {1, 1, 3, 8}),
      gone("gone", mesh, {1, 1, 0, 7});
  const auto refused = [&](const auto& layer, const Plane& to, const Plane& from) {
    return message_thrown_by<ArgumentError>([&] { layer.apply(Space(), to, from); });
  };
  expect_parts(refused(EarthPad{.low = {1, 0}, .high = {1, 0}}, y, x),
               {"even number of longitudes", "7"});
  expect_parts(refused(MirrorPad{.low = {1, 0}, .high = {2, 0}}, y, x),
               {"has 7 cells; 5 of \"x\" become 8"});
  expect_parts(refused(MirrorPad{.low = {1, 0}, .high = {1, 0}}, three, one), {"only cell"});
  expect_parts(refused(MirrorPad{.low = {-1, 0}}, y, x), {"Unpad takes cells away"});
  expect_parts(refused(Unpad<2>{.low = {-2, 0}}, y, x), {"Pad adds cells"});
  expect_parts(refused(Unpad<2>{.low = {6, 0}}, gone, x), {"5 of \"x\" become -1"});
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 Unpad<2>{.low = {6, 0}}.output_partitions(x.partitions());
               }),
               {"would lose 6"});
}

}  // namespace
}  // namespace shard::testing
