// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention in windows, in groups spread over the world, and round a ring, against plain attention
// over lists of cells, with all gradients.

#include "layers/bits.hpp"
#include "layers/layer_support.hpp"
#include "layers/plain_attention.hpp"
#include "shard/layers/attention/attention.hpp"
#include "shard/layers/attention/attention_column.hpp"
#include "shard/layers/attention/attention_ring.hpp"
#include "shard/layers/impl/dot.hpp"
#include "support/counting.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

template <class T, class Layout, class Layer, std::size_t Rank>
void check(const Layer& layer, const std::array<index_t, Rank>& n,
           const Sees<static_cast<int>(Rank)>& sees, int partitions = 3) {
  constexpr int rank = static_cast<int>(Rank);
  using F            = OutputOf<T, rank - 2, Layout>;
  Random random(seed());
  const auto nk        = key_extents(n, layer.heads, layer.key_heads);
  const World<rank> q0 = random_world(n, random), k0 = random_world(nk, random),
                    v0 = random_world(nk, random), dy0 = random_world(n, random);
  const World<rank> t0[3] = {random_world(n, random), random_world(nk, random),
                             random_world(nk, random)};
  const Serial<rank> serial(q0, k0, v0, dy0, t0, layer.heads, sees);
  const double tolerance = std::is_same_v<T, float> ? 1e-4 : 1e-12;
  const Space space;
  on_shapes(partitions, [&](const Grid& mesh, const auto& shape, int which) {
    auto parts = some_partitions(n, shape, which, random);
    const F q("q", mesh, parts), y = q.like("y"), dq = q.like("dq"), ty = q.like("ty");
    parts[1] = Partition::balanced(nk[1], 1);
    const F k("k", mesh, parts), v = k.like("v"), dk = k.like("dk"), dv = k.like("dv");
    scatter(q, q0);
    scatter(k, k0);
    scatter(v, v0);
    auto state = layer.state(q);
    layer.apply(space, state, y, q, k, v);
    EXPECT_LT(difference(y, serial.y), tolerance);
    for (int f = 0; f < 3; ++f) scatter(f == 0 ? dq : f == 1 ? dk : dv, t0[f]);
    layer.pushforward(space, state, ty, dq, dk, dv, q, k, v);
    EXPECT_LT(difference(ty, serial.ty), tolerance);
    scatter(y, dy0);
    layer.pullback(space, state, dq, dk, dv, y, q, k, v);
    EXPECT_LT(difference(dq, serial.dq), tolerance);
    EXPECT_LT(difference(dk, serial.dk), tolerance);
    EXPECT_LT(difference(dv, serial.dv), tolerance);
    if (which > 0) return;  // one at a time
    layer.pushforward(space, state, ty, dq, not_wanted, not_wanted, q, k, v);
    const double one = dot(space, ty, y), same = dot(space, dq, dq);
    EXPECT_NEAR(one, same, tolerance * (same + 1.0));
    scatter(dk, World<rank>(nk));
    layer.pullback(space, state, not_wanted, dk, not_wanted, y, q, k, v);
    EXPECT_LT(difference(dk, serial.dk), tolerance);
    scatter(dv, World<rank>(nk));
    layer.pullback(space, state, not_wanted, not_wanted, dv, y, q, k, v);
    EXPECT_LT(difference(dv, serial.dv), tolerance);
    scatter(dq, World<rank>(n));
    layer.pullback(space, state, dq, not_wanted, not_wanted, y, q, k, v);
    EXPECT_LT(difference(dq, serial.dq), tolerance);
  });
}

using Right = Kokkos::LayoutRight;

TEST(attention, windows_that_straddle_shards_are_served) {
  const std::array<index_t, 4> n{2, 4, 8, 6};
  check<double, Right>(WindowAttention<4, 3>{.heads = 2}, n, same_window<4>(n, {4, 3}));
  const std::array<index_t, 4> odd{1, 3, 7, 10};  // the last windows are smaller
  check<double, Right>(WindowAttention<3, 4>{.heads = 1}, odd, same_window<4>(odd, {3, 4}));
  const std::array<index_t, 3> line{2, 4, 13};
  check<float, Kokkos::LayoutLeft>(WindowAttention<5>{.heads = 2}, line, same_window<3>(line, {5}));
}

TEST(attention, shifted_windows_wrap_round_the_world_or_stop_at_its_seam) {
  const std::array<index_t, 4> n{1, 4, 8, 12};
  check<double, Right>(WindowAttention<4, 4>{.heads = 2, .shift = {2, 2}}, n,
                       same_window<4>(n, {4, 4}, {2, 2}));
  check<double, Right>(WindowAttention<4, 4>{.heads = 2, .shift = {2, 1}, .masked = {true, false}},
                       n, same_window<4>(n, {4, 4}, {2, 1}, {true, false}));
  check<double, Right>(WindowAttention<4, 4>{.heads = 1, .shift = {-6, 10}, .masked = true}, n,
                       same_window<4>(n, {4, 4}, {2, 10}, {true, true}));
}

/// The mask of Aurora's shifted blocks: groups of the rolled points, cut at -w and -s, of which
/// longitude's last two are one; pads at both sides are a group of their own.
TEST(attention, centred_windows_are_auroras) {
  const auto aurora = [](std::array<index_t, 5> n, std::array<index_t, 3> w,
                         std::array<index_t, 3> s) -> Sees<5> {
    return [=](const std::array<index_t, 5>& i, const std::array<index_t, 5>& j) {
      for (std::size_t d = 0; d < 3; ++d) {
        const index_t m = n[d + 2], front = (w[d] - m % w[d]) % w[d] / 2;
        const auto rolled = [&](index_t x) { return (x - s[d] + m) % m; };
        const auto group  = [&](index_t c) {
          if (s[d] == 0 || c >= m - s[d]) return 2;
          return c < m - w[d] ? 0 : d == 2 ? 2 : 1;
        };
        const index_t a = rolled(i[d + 2]), b = rolled(j[d + 2]);
        if ((a + front) / w[d] != (b + front) / w[d] || group(a) != group(b)) return false;
      }
      return true;
    };
  };
  const std::array<index_t, 5> n{1, 4, 3, 7, 10}, whole{1, 2, 4, 6, 8}, wide{2, 2, 2, 5, 5};
  check<double, Right>(
      WindowAttention<2, 3, 4>{
          .heads = 2, .shift = {1, 1, 2}, .masked = {true, true, false}, .centred = true},
      n, aurora(n, {2, 3, 4}, {1, 1, 2}));
  check<double, Right>(
      WindowAttention<2, 3, 4>{
          .heads = 1, .shift = {1, 1, 2}, .masked = {true, true, false}, .centred = true},
      whole, aurora(whole, {2, 3, 4}, {1, 1, 2}));
  check<double, Right>(
      WindowAttention<2, 3, 4>{
          .heads = 1, .shift = {0, 1, 2}, .masked = {true, true, false}, .centred = true},
      wide, aurora(wide, {2, 3, 4}, {0, 1, 2}));
  check<double, Right>(WindowAttention<3, 3, 4>{.heads = 1, .centred = true}, n,
                       aurora(n, {3, 3, 4}, {0, 0, 0}));
}

/// Their long attention groups the rows of each shard by themselves.
TEST(attention, B10_grid_attention_groups_over_the_whole_world) {
  const auto grid = [](std::array<index_t, 4> n, std::array<index_t, 2> size) -> Sees<4> {
    return [=](const std::array<index_t, 4>& i, const std::array<index_t, 4>& j) {
      return i[2] % (n[2] / size[0]) == j[2] % (n[2] / size[0]) &&
             i[3] % (n[3] / size[1]) == j[3] % (n[3] / size[1]);
    };
  };
  const std::array<index_t, 4> issue{1, 2, 16, 2};  // group 0 is {0, 4, 8, 12}
  check<double, Right>(GridAttention<4, 1>{.heads = 1}, issue, grid(issue, {4, 1}));
  const std::array<index_t, 4> n{2, 4, 12, 10};
  check<double, Right>(GridAttention<3, 5>{.heads = 2}, n, grid(n, {3, 5}));
  check<double, Right>(GridAttention<12, 2>{.heads = 4}, n, grid(n, {12, 2}));
}

TEST(attention, ring_over_a_cut_sequence) {
  for (const bool causal : {false, true}) {
    const Sees<3> sees = [causal](const auto& i, const auto& j) { return !causal || j[2] <= i[2]; };
    check<double, Right>(RingAttention{.heads = 2, .causal = causal},
                         std::array<index_t, 3>{2, 6, 17}, sees, 4);
    check<double, Right>(RingAttention{.heads = 1, .causal = causal},
                         std::array<index_t, 3>{1, 2, 3}, sees, 4);
  }
  check<float, Kokkos::LayoutLeft>(RingAttention{.heads = 2}, std::array<index_t, 3>{1, 4, 11},
                                   [](const auto&, const auto&) { return true; });
}

TEST(attention, QueriesShareHeadsOfKeys) {
  const std::array<index_t, 4> n{2, 12, 7, 6};
  check<double, Right>(WindowAttention<4, 3>{.heads = 6, .shift = {1, 2}, .key_heads = 2}, n,
                       same_window<4>(n, {4, 3}, {1, 2}));
  check<double, Right>(WindowAttention<4, 3>{.heads = 4, .key_heads = 1}, n,
                       same_window<4>(n, {4, 3}));
  const std::array<index_t, 4> grid{1, 6, 4, 6};
  check<double, Right>(
      GridAttention<2, 3>{.heads = 6, .key_heads = 3}, grid,
      [](const auto& i, const auto& j) { return i[2] % 2 == j[2] % 2 && i[3] % 2 == j[3] % 2; });
  for (const bool causal : {false, true})
    check<double, Right>(RingAttention{.heads = 4, .causal = causal, .key_heads = 2},
                         std::array<index_t, 3>{2, 8, 17}, [causal](const auto& i, const auto& j) {
                           return !causal || j[2] <= i[2];
                         });
  const std::array<index_t, 3> line{1, 6, 11};
  check<float, Kokkos::LayoutLeft>(WindowAttention<5>{.heads = 3, .key_heads = 1}, line,
                                   same_window<3>(line, {5}));
}

/// Heads of more features than the tiles' buffers hold.
TEST(attention, QueriesShareWideHeadsOfKeys) {
  const std::array<index_t, 3> n{1, 2 * 8200, 5};
  check<double, Right>(WindowAttention<3>{.heads = 2, .key_heads = 1}, n, same_window<3>(n, {3}));
}

/// A part of a world along dimension 2.
template <std::size_t Rank>
World<static_cast<int>(Rank)> tokens_of(const World<static_cast<int>(Rank)>& all,
                                        std::array<index_t, Rank> n, index_t begin) {
  World<static_cast<int>(Rank)> part(n);
  std::array<index_t, Rank> i{};
  for (std::size_t at = 0; at < part.v.size(); ++at) {
    auto rest = static_cast<index_t>(at);
    for (std::size_t d = Rank; d-- > 0; rest /= n[d]) i[d] = rest % n[d];
    i[2] += begin;
    part.v[at] = all.v[all.at(i)];
  }
  return part;
}

/// The oracle has queries and keys one after the other along one dimension.
template <class T, class F, std::size_t Rank>
void check_columns(std::array<index_t, Rank> n, index_t queries, index_t keys,
                   const ColumnAttention& layer = {.heads = 2}) {
  constexpr int rank = static_cast<int>(Rank);
  Random random(seed());
  n[2]                 = queries + keys;
  auto nk              = key_extents(n, layer.heads, layer.key_heads);
  const World<rank> q0 = random_world(n, random), k0 = random_world(nk, random),
                    v0 = random_world(nk, random), dy0 = random_world(n, random);
  const World<rank> t0[3] = {random_world(n, random), random_world(nk, random),
                             random_world(nk, random)};
  const Serial<rank> serial(q0, k0, v0, dy0, t0, layer.heads, [&](const auto& i, const auto& j) {
    for (std::size_t d = 3; d < Rank; ++d)
      if (i[d] != j[d]) return false;
    return i[2] < queries && j[2] >= queries;
  });
  auto nq                = n;
  nq[2]                  = queries;
  nk[2]                  = keys;
  const auto of_q        = [&](const World<rank>& w) { return tokens_of(w, nq, 0); };
  const auto of_k        = [&](const World<rank>& w) { return tokens_of(w, nk, queries); };
  const double tolerance = std::is_same_v<T, float> ? 1e-4 : 1e-12;
  const Space space;
  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    auto partitions = some_partitions(nq, shape, which, random);
    partitions[2]   = Partition::balanced(queries, 1);
    const F q("q", mesh, partitions), y = q.like("y"), dq = q.like("dq"), ty = q.like("ty");
    partitions[1] = Partition::balanced(nk[1], 1);
    partitions[2] = Partition::balanced(keys, 1);
    const F k("k", mesh, partitions), v = k.like("v"), dk = k.like("dk"), dv = k.like("dv");
    scatter(q, of_q(q0));
    scatter(k, of_k(k0));
    scatter(v, of_k(v0));
    auto state = layer.state(q, k, v);
    layer.apply(space, state, y, q, k, v);
    EXPECT_LT(difference(y, of_q(serial.y)), tolerance);
    scatter(dq, of_q(t0[0]));
    scatter(dk, of_k(t0[1]));
    scatter(dv, of_k(t0[2]));
    layer.pushforward(space, state, ty, dq, dk, dv, q, k, v);
    EXPECT_LT(difference(ty, of_q(serial.ty)), tolerance);
    scatter(y, of_q(dy0));
    layer.pullback(space, state, dq, dk, dv, y, q, k, v);
    EXPECT_LT(difference(dq, of_q(serial.dq)), tolerance);
    EXPECT_LT(difference(dk, of_k(serial.dk)), tolerance);
    EXPECT_LT(difference(dv, of_k(serial.dv)), tolerance);
    scatter(dk, World<rank>(nk));
    layer.pullback(space, state, not_wanted, dk, not_wanted, y, q, k, v);
    EXPECT_LT(difference(dk, of_k(serial.dk)), tolerance);
    scatter(dv, World<rank>(nk));
    layer.pullback(space, state, not_wanted, not_wanted, dv, y, q, k, v);
    EXPECT_LT(difference(dv, of_k(serial.dv)), tolerance);
  });
}

TEST(attention, columns_of_other_lengths_than_their_queries) {
  using Levels = OutputOf<double, 3>;
  check_columns<double, Levels>(std::array<index_t, 5>{2, 6, 0, 5, 4}, 3, 7);
  check_columns<double, Levels>(std::array<index_t, 5>{1, 4, 0, 3, 20}, 9, 2);
  check_columns<double, Levels>(std::array<index_t, 5>{1, 2, 0, 2, 3}, 1, 1);
  check_columns<float, OutputOf<float, 3, Kokkos::LayoutLeft>>(
      std::array<index_t, 5>{1, 6, 0, 3, 4}, 4, 13);
  check_columns<double, Levels>(std::array<index_t, 5>{1, 12, 0, 3, 4}, 3, 4,
                                {.heads = 6, .key_heads = 2});
  // of one further dimension of space
  check_columns<double, ShardedView<double****, Right, ShardDim<3, Lon>>>(
      std::array<index_t, 4>{2, 6, 0, 7}, 5, 3);
}

/// Scores far apart: the largest of all blocks is what the others are measured by.
TEST(attention, ring_keeps_the_range_of_large_scores) {
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  using F = OutputOf<double, 1>;
  const std::array<index_t, 3> n{1, 1, 16};
  World<3> q0(n), v0(n), y0(n);
  for (std::size_t i = 0; i < 16; ++i) {
    q0.v[i] = 100.0 * static_cast<double>(i % 5) - 150.0;
    v0.v[i] = static_cast<double>(i);
  }
  for (std::size_t i = 0; i < 16; ++i) {
    double largest = -1e300, sum = 0.0;
    for (std::size_t j = 0; j < 16; ++j) largest = std::max(largest, q0.v[i] * q0.v[j]);
    for (std::size_t j = 0; j < 16; ++j) {
      const double p = std::exp(q0.v[i] * q0.v[j] - largest);
      sum += p;
      y0.v[i] += p * v0.v[j];
    }
    y0.v[i] /= sum;
  }
  const F q("q", mesh, n), v = q.like("v"), y = q.like("y");
  scatter(q, q0);
  scatter(v, v0);
  const RingAttention layer;
  auto state = layer.state(q);
  layer.apply(Space(), state, y, q, q, v);
  EXPECT_LT(difference(y, y0), 1e-12);
}

TEST(attention, heads_may_be_cut_and_share_nothing) {
  using F         = ShardedView<double***, Right, ShardDim<1, Lat>, ShardDim<2, Lon>>;
  const int ranks = world_size();
  const Grid mesh(MPI_COMM_WORLD, {ranks % 2 == 0 ? 2 : 1, ranks % 2 == 0 ? ranks / 2 : ranks});
  Random random(seed());
  const std::array<index_t, 3> n{1, 6, 9};
  const World<3> q0 = random_world(n, random), k0 = random_world(n, random);
  const World<3> t0[3] = {World<3>(n), World<3>(n), World<3>(n)};
  const Serial<3> serial(q0, k0, q0, k0, t0, 2, [](const auto&, const auto&) { return true; });
  const F q("q", mesh, n), k = q.like("k"), y = q.like("y"), dq = q.like("dq");
  scatter(q, q0);
  scatter(k, k0);
  const RingAttention layer{.heads = 2};
  auto state = layer.state(q);
  layer.apply(Space(), state, y, q, k, q);
  EXPECT_LT(difference(y, serial.y), 1e-12);
  layer.pullback(Space(), state, dq, not_wanted, not_wanted, k, q, k, q);
  EXPECT_LT(difference(dq, serial.dq), 1e-12);
  if (ranks % 2 == 0) {
    const RingAttention whole{.heads = 1};
    expect_parts(message_thrown_by<ArgumentError>([&] { whole.state(q); }), {"within heads of 6"});
  }
}

/// Channels are cut between heads of keys; some ranks have none.
TEST(attention, SharedHeadsMayBeCut) {
  using F         = ShardedView<double***, Right, ShardDim<1, Lat>, ShardDim<2, Lon>>;
  const int ranks = world_size();
  const Grid mesh(MPI_COMM_WORLD, {ranks, 1});
  Random random(seed());
  const std::array<index_t, 3> n{1, 12, 9}, nk{1, 4, 9};
  const World<3> q0 = random_world(n, random), k0 = random_world(nk, random),
                 v0 = random_world(nk, random), dy0 = random_world(n, random);
  const World<3> t0[3] = {random_world(n, random), random_world(nk, random),
                          random_world(nk, random)};
  const Serial<3> serial(q0, k0, v0, dy0, t0, 6, [](const auto&, const auto&) { return true; });
  std::vector<index_t> begins(static_cast<std::size_t>(ranks) + 1, 0);
  if (ranks > 1) begins[static_cast<std::size_t>(ranks) - 1] = 6;
  begins.back() = 12;
  auto of_keys  = begins;
  for (index_t& b : of_keys) b /= 3;
  const auto whole = [](index_t m) { return Partition::balanced(m, 1); };
  const F q("q", mesh, {whole(1), Partition::explicit_begins(begins), whole(9)}),
      y = q.like("y"), dq = q.like("dq"), ty = q.like("ty");
  const F k("k", mesh, {whole(1), Partition::explicit_begins(of_keys), whole(9)}),
      v = k.like("v"), dk = k.like("dk"), dv = k.like("dv");
  scatter(q, q0);
  scatter(k, k0);
  scatter(v, v0);
  const auto run = [&](const auto& layer) {
    auto state = layer.state(q);
    layer.apply(Space(), state, y, q, k, v);
    EXPECT_LT(difference(y, serial.y), 1e-12);
    scatter(dq, t0[0]);
    scatter(dk, t0[1]);
    scatter(dv, t0[2]);
    layer.pushforward(Space(), state, ty, dq, dk, dv, q, k, v);
    EXPECT_LT(difference(ty, serial.ty), 1e-12);
    scatter(y, dy0);
    layer.pullback(Space(), state, dq, dk, dv, y, q, k, v);
    EXPECT_LT(difference(dq, serial.dq), 1e-12);
    EXPECT_LT(difference(dk, serial.dk), 1e-12);
    EXPECT_LT(difference(dv, serial.dv), 1e-12);
  };
  run(WindowAttention<9>{.heads = 6, .key_heads = 2});
  run(RingAttention{.heads = 6, .key_heads = 2});
  if (ranks > 1)
    expect_parts(message_thrown_by<ArgumentError>(
                     [&] { RingAttention{.heads = 6, .key_heads = 1}.state(q); }),
                 {"the 12 channels that share a head of keys"});
}

/// The gradients of shared heads have the bits of one rank.
TEST(attention, BitsOfSharedHeadsAreTheSameOnEveryMesh) {
  using F = OutputOf<double, 2>;
  Random random(seed());
  const std::array<index_t, 4> n{2, 8, 7, 10}, nk{2, 2, 7, 10};
  const World<4> q0 = random_world(n, random), k0 = random_world(nk, random),
                 v0 = random_world(nk, random), dy0 = random_world(n, random);
  const WindowAttention<3, 4> layer{.heads = 4, .shift = {1, 2}, .key_heads = 1};
  const auto run = [&](const Grid& mesh, std::array<Partition, 4> parts, MPI_Comm comm) {
    const F q("q", mesh, parts), y = q.like("y"), dq = q.like("dq");
    parts[1] = Partition::balanced(2, 1);
    const F k("k", mesh, parts), v = k.like("v"), dk = k.like("dk"), dv = k.like("dv");
    scatter(q, q0);
    scatter(k, k0);
    scatter(v, v0);
    auto state = layer.state(q);
    layer.apply(Space(), state, y, q, k, v);
    std::vector<double> all = gathered(y, comm).v;
    scatter(y, dy0);
    layer.pullback(Space(), state, dq, dk, dv, y, q, k, v);
    for (const F* d : {&dq, &dk, &dv}) {
      const auto more = gathered(*d, comm).v;
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  };
  std::array<Partition, 4> whole;
  for (std::size_t d = 0; d < 4; ++d) whole[d] = Partition::balanced(n[d], 1);
  const auto one = run(Grid(MPI_COMM_SELF, {1, 1}), whole, MPI_COMM_SELF);
  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    EXPECT_EQ(
        different_bits(run(mesh, some_partitions(n, shape, which, random), MPI_COMM_WORLD), one),
        0);
  });
}

/// More tokens than a block or a chunk has, and more features than a block of terms.
TEST(attention, LargeWindowsAndWideHeads) {
  const std::array<index_t, 4> n{1, 4, 14, 27}, wide{1, 150, 5, 9};
  check<double, Right>(WindowAttention<13, 13>{.heads = 2}, n, same_window<4>(n, {13, 13}), 1);
  check<float, Right>(WindowAttention<13, 13>{.heads = 1, .shift = {3, 5}, .masked = true}, n,
                      same_window<4>(n, {13, 13}, {3, 5}, {true, true}), 1);
  check<double, Right>(WindowAttention<4, 5>{.heads = 1}, wide, same_window<4>(wide, {4, 5}), 1);
}

/// All gradients at once come from one pass, some of them from two.
TEST(attention, GradientsHaveTheSameBitsWhicheverAreWanted) {
  using F = OutputOf<float, 2>;
  Random random(seed());
  const std::array<index_t, 4> n{1, 24, 21, 19}, nk{1, 12, 21, 19};
  const WindowAttention<10, 10> layer{.heads = 4, .key_heads = 2};
  const Grid mesh(MPI_COMM_SELF, {1, 1});
  const auto field = [&](const std::array<index_t, 4>& extents) {
    std::array<Partition, 4> whole;
    for (std::size_t d = 0; d < 4; ++d) whole[d] = Partition::balanced(extents[d], 1);
    const F f("f", mesh, whole);
    scatter(f, random_world(extents, random));
    return f;
  };
  const F q = field(n), y = field(n), dy = field(n), dq = field(n), dq_alone = field(n),
          k = field(nk), v = field(nk), dk = field(nk), dv = field(nk), dk_alone = field(nk),
          dv_alone = field(nk);
  auto state       = layer.state(q);
  layer.apply(Space(), state, y, q, k, v);
  layer.pullback(Space(), state, dq, dk, dv, dy, q, k, v);
  layer.pullback(Space(), state, dq_alone, not_wanted, not_wanted, dy, q, k, v);
  layer.pullback(Space(), state, not_wanted, dk_alone, dv_alone, dy, q, k, v);
  const auto different = [](const F& a, const F& b) {
    return different_bits(gathered(a, MPI_COMM_SELF).v, gathered(b, MPI_COMM_SELF).v);
  };
  EXPECT_EQ(different(dq, dq_alone), 0);
  EXPECT_EQ(different(dk, dk_alone), 0);
  EXPECT_EQ(different(dv, dv_alone), 0);
}

/// What is sent: nothing where windows fit; once round for a ring; nothing for what isn't wanted.
TEST(attention, messages) {
  const ScopedVariable by_messages("SHARD_TRANSPORT", "mpi"), unchecked("SHARD_CHECK", "0");
  const int ranks = world_size();
  const Grid mesh(MPI_COMM_WORLD, {ranks, 1});
  const Space space;
  const OutputOf<double, 2> q("q", mesh, {1, 2, 4 * ranks, 4}), y = q.like("y");
  const WindowAttention<4, 4> windows{.heads = 1};
  auto state          = windows.state(q);
  const Counts inside = count([&] {
    windows.apply(space, state, y, q, q, q);
    windows.pullback(space, state, y, not_wanted, y, q, q, q, q);
  });
  EXPECT_EQ(inside.messages + inside.allocations, 0) << inside;
  const Counts none = count(
      [&] { windows.pullback(space, state, not_wanted, not_wanted, not_wanted, q, q, q, q); });
  EXPECT_EQ(none.kernels, 0);

  const OutputOf<double, 1> line("line", mesh, {1, 2, 5 * ranks}), out = line.like("out");
  const RingAttention ring;
  auto round      = ring.state(line);
  const auto both = [&] {
    ring.apply(space, round, out, line, line, line);
    ring.pullback(space, round, not_wanted, out, not_wanted, line, line, line, line);
  };
  both();
  const Counts passed = count(both);
  EXPECT_EQ(passed.messages, ranks == 1 ? 0 : 2 * ranks - 1);
  EXPECT_EQ(passed.allocations, 0) << passed;
}

TEST(attention, what_does_not_fit_throws_on_every_rank) {
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const OutputOf<double, 2> q("q", mesh, {1, 6, 9, 4}), other("other", mesh, {1, 4, 9, 4});
  expect_parts(message_thrown_by<ArgumentError>([&] { GridAttention<2, 2>{}.state(q); }),
               {"dimension 0 in space has 9 cells", "2 tokens"});
  expect_parts(
      message_thrown_by<ArgumentError>([&] { WindowAttention<2, 2>{.heads = 4}.state(q); }),
      {"6 channels", "4 heads"});
  using Levels = OutputOf<double, 3>;
  const Levels levels("q", mesh, {1, 4, 3, 9, 4}), none("none", mesh, {1, 4, 0, 9, 4}),
      fewer("fewer", mesh, {1, 4, 3, 8, 4});
  const ColumnAttention columns{.heads = 2};
  auto of_columns = columns.state(levels);
  expect_parts(message_thrown_by<ArgumentError>(
                   [&] { columns.apply(Space(), of_columns, levels, levels, none, none); }),
               {"ColumnAttention", "\"none\"", "no keys"});
  expect_parts(message_thrown_by<ArgumentError>(
                   [&] { columns.apply(Space(), of_columns, levels, levels, fewer, fewer); }),
               {"\"fewer\""});
  expect_parts(message_thrown_by<ArgumentError>(
                   [&] { WindowAttention<2, 2>{.heads = 6, .key_heads = 4}.state(q); }),
               {"6 heads of queries", "4 heads of keys"});
  const WindowAttention<2, 2> shared{.heads = 6, .key_heads = 2};
  auto of_shared = shared.state(q);
  expect_parts(
      message_thrown_by<ArgumentError>([&] { shared.apply(Space(), of_shared, q, q, q, q); }),
      {"WindowAttention", "channels", "2"});
  const OutputOf<double, 2> keys("keys", mesh, {1, 2, 9, 4});
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 shared.pullback(Space(), of_shared, q, other, not_wanted, q, q, keys, keys);
               }),
               {"\"other\"", "channels"});
  const WindowAttention<3, 2> windows{.heads = 2};
  auto state = windows.state(q);
  expect_parts(
      message_thrown_by<ArgumentError>([&] { windows.apply(Space(), state, q, q, other, q); }),
      {"\"other\""});
}

}  // namespace
}  // namespace shard::testing
