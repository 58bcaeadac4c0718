// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Neighbourhood attention against plain attention over lists of cells, with all gradients.

#include "shard/layers/attention/attention_neighbourhood.hpp"

#include "layers/bits.hpp"
#include "layers/plain_attention.hpp"
#include "shard/layers/impl/dot.hpp"
#include "support/counting.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

using Right = Kokkos::LayoutRight;

/// A window along one dimension, as NATTEN's get_window_start has it: clipped within the cells of
/// the same residue.
struct Along {
  index_t n, kernel, dilation = 1;
  bool periodic = false;

  /// Number of the cell in the window of i, or -1.
  index_t tap(index_t i, index_t j) const {
    for (index_t t = 0; t < kernel; ++t)
      if (cell(i, t) == j) return t;
    return -1;
  }
  index_t cell(index_t i, index_t t) const {
    const index_t reach = kernel / 2 * dilation;
    if (periodic) return ((i - reach + t * dilation) % n + n) % n;
    index_t start = i - reach;
    while (start < 0) start += dilation;
    while (start + (kernel - 1) * dilation >= n) start -= dilation;
    return start + t * dilation;
  }
  /// (j - i) / dilation + kernel - 1
  index_t row(index_t i, index_t j) const {
    const index_t t = tap(i, j);
    if (periodic) return t - kernel / 2 + kernel - 1;
    return (cell(i, t) - i) / dilation + kernel - 1;
  }
};

template <int Rank>
Sees<Rank> neighbours(const std::array<Along, Rank - 2>& along) {
  return [=](const std::array<index_t, Rank>& i, const std::array<index_t, Rank>& j) {
    for (std::size_t d = 0; d < Rank - 2; ++d)
      if (along[d].tap(i[d + 2], j[d + 2]) < 0) return false;
    return true;
  };
}

/// The fields of a plane: queries without halo, keys with those that the layer needs.
template <class T, class Layer, class LatBoundary, class LonBoundary, class Layout = Right>
struct Plane {
  using Query = ShardedView<T****, Layout, ShardDim<2, Lat>, ShardDim<3, Lon>>;
  using Key   = ShardedView<T****, Layout, ShardDim<2, Lat, required_halo_t<Layer, 0>, LatBoundary>,
                          ShardDim<3, Lon, required_halo_t<Layer, 1>, LonBoundary>>;
};

template <class T, class Query, class Key, class Layer, std::size_t Rank>
void check(const Layer& layer, const std::array<index_t, Rank>& n,
           const std::array<Along, Rank - 2>& along) {
  constexpr int rank = static_cast<int>(Rank);
  Random random(seed());
  const auto nk        = key_extents(n, layer.heads, layer.key_heads);
  const World<rank> q0 = random_world(n, random), k0 = random_world(nk, random),
                    v0 = random_world(nk, random), dy0 = random_world(n, random);
  const World<rank> t0[3] = {random_world(n, random), random_world(nk, random),
                             random_world(nk, random)};
  const Serial<rank> serial(q0, k0, v0, dy0, t0, layer.heads, neighbours<rank>(along));
  const double tolerance = std::is_same_v<T, float> ? 1e-4 : 1e-12;
  const Space space;
  const auto run = [&](const Grid& mesh, auto parts, MPI_Comm comm, bool checks) {
    const Query q("q", mesh, parts), y = q.like("y"), dq = q.like("dq"), ty = q.like("ty");
    parts[1] = Partition::balanced(nk[1], 1);
    const Key k("k", mesh, parts), v = k.like("v"), dk = k.like("dk"), dv = k.like("dv");
    scatter(q, q0);
    scatter(k, k0);
    scatter(v, v0);
    auto state = layer.state(q);
    layer.apply(space, state, y, q, k, v);
    std::vector<double> bits = gathered(y, comm).v;
    if (checks) {
      EXPECT_LT(difference(y, serial.y), tolerance);
      for (int f = 0; f < 3; ++f) f == 0 ? scatter(dq, t0[f]) : scatter(f == 1 ? dk : dv, t0[f]);
      layer.pushforward(space, state, ty, dq, dk, dv, q, k, v);
      EXPECT_LT(difference(ty, serial.ty), tolerance);
      // each tangent by itself: <ty, dy> = <t, its gradient>
      scatter(y, dy0);
      layer.pushforward(space, state, ty, not_wanted, dk, not_wanted, q, k, v);
      const double one   = dot(space, ty, y);
      const Key gradient = k.like("gradient"), other = k.like("other");
      layer.pullback(space, state, not_wanted, gradient, not_wanted, y, q, k, v);
      const double same = dot(space, dk, gradient);
      EXPECT_NEAR(one, same, tolerance * (std::abs(same) + 1.0));
      layer.pushforward(space, state, ty, not_wanted, not_wanted, dv, q, k, v);
      layer.pullback(space, state, not_wanted, not_wanted, other, y, q, k, v);
      const double two = dot(space, ty, y), too = dot(space, dv, other);
      EXPECT_NEAR(two, too, tolerance * (std::abs(too) + 1.0));
    }
    scatter(y, dy0);
    layer.pullback(space, state, dq, dk, dv, y, q, k, v);
    const auto more = gathered(dq, comm).v;
    bits.insert(bits.end(), more.begin(), more.end());
    if (checks) {
      EXPECT_LT(difference(dq, serial.dq), tolerance);
      EXPECT_LT(difference(dk, serial.dk), tolerance);
      EXPECT_LT(difference(dv, serial.dv), tolerance);
    }
    return bits;
  };
  std::array<Partition, Rank> whole;
  for (std::size_t d = 0; d < Rank; ++d) whole[d] = Partition::balanced(n[d], 1);
  const auto one = run(Grid(MPI_COMM_SELF, {1, 1}), whole, MPI_COMM_SELF, false);
  on_shapes(4, [&](const Grid& mesh, const auto& shape, int which) {
    if (rank == 3 && shape[1] > 1) return;
    const auto bits = run(mesh, some_partitions(n, shape, which, random), MPI_COMM_WORLD, true);
    EXPECT_EQ(different_bits(bits, one), 0);
  });
}

TEST(attention_neighbourhood, WindowsAreShiftedAtTheEndsAndWrapRound) {
  using Layer = NeighbourhoodAttention<Kernel<5, 3>, PaddingMode<Zero, Periodic>>;
  using Of    = Plane<double, Layer, Zero, Periodic>;
  const std::array<index_t, 4> n{2, 4, 9, 12};
  check<double, Of::Query, Of::Key>(Layer{.heads = 2}, n, {{{9, 5}, {12, 3, 1, true}}});
  using Both = NeighbourhoodAttention<Kernel<3, 5>>;
  using Ends = Plane<double, Both, Zero, Zero>;
  check<double, Ends::Query, Ends::Key>(Both{.heads = 1}, std::array<index_t, 4>{1, 3, 7, 40},
                                        {{{7, 3}, {40, 5}}});
  // as wide as the domain
  check<double, Ends::Query, Ends::Key>(Both{.heads = 1}, std::array<index_t, 4>{1, 2, 3, 5},
                                        {{{3, 3}, {5, 5}}});
  using Float = Plane<float, Both, Zero, Zero, Kokkos::LayoutLeft>;
  check<float, Float::Query, Float::Key>(Both{.heads = 2, .key_heads = 1},
                                         std::array<index_t, 4>{1, 4, 8, 11}, {{{8, 3}, {11, 5}}});
}

/// More points of a row than lanes, so that blocks are whole; more points of a window than are
/// taken at once.
TEST(attention_neighbourhood, LongRowsAndWideWindows) {
  using Layer = NeighbourhoodAttention<Kernel<3, 11>>;
  using Of    = Plane<double, Layer, Zero, Zero>;
  check<double, Of::Query, Of::Key>(Layer{.heads = 2}, std::array<index_t, 4>{1, 4, 3, 150},
                                    {{{3, 3}, {150, 11}}});
  using Wraps = NeighbourhoodAttention<Kernel<1, 9>, PaddingMode<Zero, Periodic>>;
  using OfIt  = Plane<float, Wraps, Zero, Periodic>;
  check<float, OfIt::Query, OfIt::Key>(Wraps{.heads = 1}, std::array<index_t, 4>{1, 3, 2, 210},
                                       {{{2, 1}, {210, 9, 1, true}}});
}

TEST(attention_neighbourhood, DilatedWindowsStayInTheirClass) {
  using Layer = NeighbourhoodAttention<Kernel<3, 3>, Dilation<2, 3>>;
  using Of    = Plane<double, Layer, Zero, Zero>;
  check<double, Of::Query, Of::Key>(Layer{.heads = 2}, std::array<index_t, 4>{1, 4, 7, 14},
                                    {{{7, 3, 2}, {14, 3, 3}}});
  using Wraps = NeighbourhoodAttention<Kernel<3, 5>, Dilation<1, 2>, PaddingMode<Zero, Periodic>>;
  using OfIt  = Plane<double, Wraps, Zero, Periodic>;
  check<double, OfIt::Query, OfIt::Key>(Wraps{.heads = 1}, std::array<index_t, 4>{1, 2, 5, 11},
                                        {{{5, 3}, {11, 5, 2, true}}});
}

TEST(attention_neighbourhood, QueriesShareHeadsOfKeysInAllDimensions) {
  using Layer = NeighbourhoodAttention<Kernel<3, 3, 3>, PaddingMode<Zero, Zero, Periodic>>;
  using Query = ShardedView<double*****, Right, ShardDim<3, Lat>, ShardDim<4, Lon>>;
  using Key   = ShardedView<double*****, Right, ShardDim<3, Lat, required_halo_t<Layer, 1>, Zero>,
                          ShardDim<4, Lon, required_halo_t<Layer, 2>, Periodic>>;
  check<double, Query, Key>(Layer{.heads = 6, .key_heads = 2},
                            std::array<index_t, 5>{1, 6, 4, 5, 6},
                            {{{4, 3}, {5, 3}, {6, 3, 1, true}}});
  using Line      = NeighbourhoodAttention<Kernel<7>>;
  using LineQuery = ShardedView<double***, Right, ShardDim<2, Lat>>;
  using LineKey   = ShardedView<double***, Right, ShardDim<2, Lat, required_halo_t<Line, 0>, Zero>>;
  check<double, LineQuery, LineKey>(Line{.heads = 2}, std::array<index_t, 3>{2, 4, 19},
                                    {{{19, 7}}});
}

/// The bias is added, and its gradient is that of the output along a direction of it.
TEST(attention_neighbourhood, HasARelativeBias) {
  using Attention = NeighbourhoodAttention<Kernel<5, 3>, PaddingMode<Zero, Periodic>>;
  using Of        = Plane<double, Attention, Zero, Periodic>;
  const Biased<Attention, RelativeBias> layer{{.heads = 4, .key_heads = 2}};
  const std::array<index_t, 4> n{2, 8, 9, 37}, nk{2, 4, 9, 37};
  const std::array<Along, 2> along{{{9, 5}, {37, 3, 1, true}}};
  Random random(seed());
  const World<4> q0 = random_world(n, random), k0 = random_world(nk, random),
                 v0 = random_world(nk, random), dy0 = random_world(n, random);
  const World<4> t0[3] = {random_world(n, random), random_world(nk, random),
                          random_world(nk, random)};
  std::vector<double> table(4 * 9 * 5), change = table, slope = table;
  for (double& t : table) t = random.real();
  for (double& t : change) t = random.real();
  const auto entry = [&](index_t h, const auto& i, const auto& j) {
    return static_cast<std::size_t>((h * 9 + along[0].row(i[2], j[2])) * 5 +
                                    along[1].row(i[3], j[3]));
  };
  PlainBias<4> bias;
  bias.value   = [&](index_t h, const auto& i, const auto& j) { return table[entry(h, i, j)]; };
  bias.tangent = [&](index_t h, const auto& i, const auto& j) { return change[entry(h, i, j)]; };
  bias.pull    = [&](index_t h, const auto& i, const auto& j, double s) {
    slope[entry(h, i, j)] += s;
  };
  const Serial<4> serial(q0, k0, v0, dy0, t0, 4, neighbours<4>(along), bias);
  const Space space;
  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    auto parts = some_partitions(n, shape, which, random);
    const Of::Query q("q", mesh, parts), y = q.like("y"), dq = q.like("dq");
    parts[1] = Partition::balanced(4, 1);
    const Of::Key k("k", mesh, parts), v = k.like("v"), dk = k.like("dk"), dv = k.like("dv");
    scatter(q, q0);
    scatter(k, k0);
    scatter(v, v0);
    scatter(dq, t0[0]);
    scatter(dk, t0[1]);
    scatter(dv, t0[2]);
    const auto p = make_parameters<double>(layer, "p"), g = make_parameters<double>(layer, "g"),
               tp = make_parameters<double>(layer, "tp");
    set_values(p.weight, table);
    set_values(tp.weight, change);
    auto state = layer.state(q);
    layer.apply(space, state, p, y, q, k, v);
    EXPECT_LT(difference(y, serial.y), 1e-12);
    layer.pushforward(space, state, p, tp, y, dq, dk, dv, q, k, v);
    EXPECT_LT(difference(y, serial.ty), 1e-12);
    scatter(y, dy0);
    layer.pullback(space, state, p, g, dq, dk, dv, y, q, k, v);
    EXPECT_LT(difference(summed(g.weight, q), slope), 1e-12);
    EXPECT_LT(difference(dq, serial.dq), 1e-12);
    EXPECT_LT(difference(dk, serial.dk), 1e-12);
    EXPECT_LT(difference(dv, serial.dv), 1e-12);
  });
}

/// Half a window is enough where shards at the ends have more; else all ranks throw.
TEST(attention_neighbourhood, HalosAreChecked) {
  using Layer = NeighbourhoodAttention<Kernel<5>>;
  static_assert(std::is_same_v<required_halo_t<Layer, 0>, Halo<4, 4>>);
  static_assert(std::is_same_v<aligned_halo_t<Layer, 0>, Halo<2, 2>>);
  using Periodically = NeighbourhoodAttention<Kernel<5>, Dilation<3>, PaddingMode<Periodic>>;
  static_assert(std::is_same_v<required_halo_t<Periodically, 0>, Halo<6, 6>>);
  const int ranks = world_size();
  const Grid mesh(MPI_COMM_WORLD, {ranks, 1});
  using F           = ShardedView<double***, Right, ShardDim<2, Lat, Halo<2>>>;
  const auto whole  = [](index_t m) { return Partition::balanced(m, 1); };
  const auto called = [&](const Partition& p) {
    const F q("q", mesh, {whole(1), whole(2), p}), y = q.like("y");
    const Layer layer;
    auto state = layer.state(q);
    layer.apply(Space(), state, y, q, q, q);
  };
  called(Partition::balanced(3 * ranks + 2, ranks));
  if (ranks > 1) {
    std::vector<index_t> begins(static_cast<std::size_t>(ranks) + 1, 9);
    begins[0] = 0;
    begins[1] = 2;
    expect_parts(
        message_thrown_by<ArgumentError>([&] { called(Partition::explicit_begins(begins)); }),
        {"NeighbourhoodAttention", "halo"});
  }
  expect_parts(message_thrown_by<ArgumentError>([&] { called(Partition::balanced(4, ranks)); }),
               {"4 cells", "fewer than the 5 of a window"});
}

/// One message per neighbour brings k and v, and one brings their gradients back.
TEST(attention_neighbourhood, Messages) {
  const ScopedVariable by_messages("SHARD_TRANSPORT", "mpi"), unchecked("SHARD_CHECK", "0");
  using Layer     = NeighbourhoodAttention<Kernel<3>>;
  using F         = ShardedView<double***, Right, ShardDim<2, Lat, required_halo_t<Layer, 0>>>;
  const int ranks = world_size();
  int rank        = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const Grid mesh(MPI_COMM_WORLD, {ranks, 1});
  const F q("q", mesh, {1, 2, 5 * ranks}), k = q.like("k"), v = q.like("v"), y = q.like("y"),
                                           dk = q.like("dk"), dv = q.like("dv");
  const Layer layer;
  auto state      = layer.state(q);
  const auto both = [&] {
    layer.apply(Space(), state, y, q, k, v);
    layer.pullback(Space(), state, not_wanted, dk, dv, y, q, k, v);
  };
  both();
  const Counts passed  = count(both);
  const int neighbours = (rank > 0 ? 1 : 0) + (rank + 1 < ranks ? 1 : 0);
  EXPECT_EQ(passed.messages, 2 * neighbours);
  EXPECT_EQ(passed.allocations, 0) << passed;
}

}  // namespace
}  // namespace shard::testing
