// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rotary and wave embeddings, learned queries, normal numbers, stochastic depth, patches in both
// orders.

#include "shard/layers/pointwise/rotary.hpp"

#include "layers/bits.hpp"
#include "layers/derivatives.hpp"
#include "layers/layer_support.hpp"
#include "shard/layers/pointwise/dropout.hpp"
#include "shard/layers/pointwise/learned_queries.hpp"
#include "shard/layers/pointwise/wave_embedding.hpp"
#include "shard/layers/resampling/pixel_shuffle.hpp"

namespace shard::testing {
namespace {

using N4     = std::array<index_t, 4>;
using Field  = OutputOf<double, 2>;
using Values = std::vector<double>;

/// Every pair of features rotated, written out from the formula.
World<4> rotated(const World<4>& x, const Rotary& r, double direction) {
  World<4> y             = x;
  const index_t features = x.n[1] / r.heads, count = r.count == 0 ? features - r.first : r.count;
  for (index_t b = 0; b < x.n[0]; ++b)
    for (index_t h = 0; h < r.heads; ++h)
      for (index_t k = 0; k < count / 2; ++k)
        for (index_t i = 0; i < x.n[2]; ++i)
          for (index_t j = 0; j < x.n[3]; ++j) {
            const bool halves   = r.pairs == RotaryPairs::halves;
            const index_t begin = h * features + r.first;
            const auto one      = x.at({b, begin + (halves ? k : 2 * k), i, j}),
                       two      = x.at({b, begin + (halves ? k + count / 2 : 2 * k + 1), i, j});
            const double angle =
                direction * static_cast<double>(r.dim == 0 ? i : j) /
                std::pow(r.theta, 2.0 * static_cast<double>(k) / static_cast<double>(count));
            y.v[one] = x.v[one] * std::cos(angle) - x.v[two] * std::sin(angle);
            y.v[two] = x.v[two] * std::cos(angle) + x.v[one] * std::sin(angle);
          }
  return y;
}

TEST(rotary, both_orders_on_every_mesh) {
  static_assert(Rotary::sharding == LayerSharding::local);
  const N4 n{2, 12, 7, 19};
  Random random(seed());
  const World<4> x0 = random_world(n, random), dy0 = random_world(n, random);
  const Space space;
  const Grid alone(MPI_COMM_SELF, {1, 1});
  const Field whole("whole", alone, n);
  for (const Rotary& layer :
       {Rotary{2}, Rotary{2, RotaryPairs::halves}, Rotary{3, RotaryPairs::halves, 100.0, 1},
        Rotary{2, RotaryPairs::neighbours, 10000.0, 1, 2, 2},
        Rotary{2, RotaryPairs::halves, 50.0, 0, 0, 4}}) {
    scatter(whole, x0);
    layer.apply(space, layer.state(whole), whole, whole);
    const Values one = gathered(whole, MPI_COMM_SELF).v;
    on_meshes(n, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {
      const Haloed x("x", mesh, partitions), dx = x.like("dx");
      const Field y("y", mesh, partitions), dy  = y.like("dy");
      scatter(x, x0);
      scatter(dy, dy0);
      const auto state = layer.state(x);
      layer.apply(space, state, y, x);
      EXPECT_LT(difference(y, rotated(x0, layer, 1.0)), 1e-14);
      EXPECT_EQ(different_bits(gathered(y, MPI_COMM_WORLD).v, one), 0);
      layer.pullback(space, state, dx, dy, x);
      EXPECT_LT(difference(dx, rotated(dy0, layer, -1.0)), 1e-14);
      EXPECT_NEAR(dot(gathered(y, MPI_COMM_WORLD).v, dy0.v),
                  dot(x0.v, gathered(dx, MPI_COMM_WORLD).v), 1e-11);
      layer.pushforward(space, state, y, dy, x);
      EXPECT_LT(difference(y, rotated(dy0, layer, 1.0)), 1e-14);
      layer.pullback(space, state, not_wanted, dy, x);
      layer.apply(space, state, x, x);  // in place
      EXPECT_EQ(different_bits(gathered(x, MPI_COMM_WORLD).v, one), 0);
    });
  }
}

/// Heads over a mesh axis, sequences of one dimension, and what doesn't fit.
TEST(rotary, heads_over_an_axis) {
  using Heads = ShardedView<double***, Kokkos::LayoutLeft, ShardDim<1, Lat>, ShardDim<2, Lon>>;
  Random random(seed());
  const std::array<index_t, 3> n{2, 12, 9};
  const auto x0 = random_world(n, random);
  World<4> x4({2, 12, 9, 1});
  x4.v = x0.v;
  const Rotary layer{3};
  World<3> y0(n);
  y0.v = rotated(x4, layer, 1.0).v;
  on_shapes(2, [&](const Grid& mesh, const auto& shape, int which) {
    const std::array<Partition, 3> p{
        Partition::whole(2), impl::regrouped(some_partition(3, shape[0], which, random), 1, 4),
        some_partition(9, shape[1], which, random)};
    const Heads x("x", mesh, p);
    scatter(x, x0);
    layer.apply(Space(), layer.state(x), x, x);
    EXPECT_LT(difference(x, y0), 1e-14);
    if (shape[0] > 1) {
      auto split = p;
      split[1]   = Partition::balanced(12, shape[0]);
      if (!impl::keeps_groups_whole(split[1], 6)) {
        EXPECT_THROW(Rotary{2}.state(Heads("split", mesh, split)), ArgumentError);
      }
    }
  });
  const Grid mesh(MPI_COMM_WORLD, {1, world_size()});
  const Heads x("x", mesh, n);
  for (const Rotary& wrong :
       {Rotary{5}, Rotary{.heads = 4}, Rotary{.heads = 3, .dim = 1}, Rotary{.heads = 3, .first = 1},
        Rotary{.heads = 3, .count = 6}, Rotary{.heads = 3, .first = -2}})
    EXPECT_THROW(wrong.state(x), ArgumentError);
}

TEST(waves, values_and_derivatives) {
  using Numbers = Kokkos::View<double*, Kokkos::LayoutRight>;
  using Rows    = Kokkos::View<double**, Kokkos::LayoutRight>;
  const Space space;
  const Values t0{0.0, 1.5, -3.25, 7.0}, tt0{1.0, -2.0, 0.5, 0.25};
  Random random(seed());
  const Values dy0 = random_world(std::array<index_t, 2>{4, 6}, random).v;
  const double pi  = std::acos(-1.0);
  const auto check = [&](const WaveEmbedding<>& embedding, const Values& frequencies,
                         bool cosines_first) {
    const auto plain = [&](const Values& t) {
      Values y;
      for (const double at : t)
        for (int part = 0; part < 2; ++part)
          for (const double f : frequencies)
            y.push_back((part == 0) == cosines_first ? std::cos(f * at) : std::sin(f * at));
      return y;
    };
    const Numbers t("t", 4), tt("tt", 4), dt("dt", 4);
    const Rows dy("dy", 4, 6);
    set_values(t, t0);
    set_values(tt, tt0);
    set_values(dy, dy0);
    const auto y      = embedding.output(t);
    const auto values = [&](const auto& v) {
      space.fence();
      const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), v);
      return Values(host.data(), host.data() + host.size());
    };
    embedding.apply(space, y, t);
    EXPECT_LT(difference(values(y), plain(t0)), 1e-14);
    embedding.pushforward(space, y, tt, t);
    EXPECT_LT(difference(values(y), tangent_by_differences(plain, t0, tt0)), 1e-8);
    embedding.pullback(space, dt, dy, t);
    EXPECT_LT(difference(values(dt), gradient_by_differences(
                                         [&](const Values& v) { return dot(dy0, plain(v)); }, t0)),
              1e-8);
    EXPECT_NEAR(dot(values(y), dy0), dot(tt0, values(dt)), 1e-12);
    EXPECT_THROW(embedding.apply(space, Rows("rows", 4, 8), t), ArgumentError);
  };
  check(WaveEmbedding<>::sinusoidal(6),
        {1.0, std::pow(10000.0, -1.0 / 3.0), std::pow(10000.0, -2.0 / 3.0)}, false);
  check(WaveEmbedding<>::sinusoidal(6, 100.0, true),
        {1.0, std::pow(100.0, -1.0 / 3.0), std::pow(100.0, -2.0 / 3.0)}, true);
  check(WaveEmbedding<>::fourier(6, 1.0, 100.0), {2.0 * pi, 2.0 * pi / 10.0, 2.0 * pi / 100.0},
        false);
  EXPECT_THROW(WaveEmbedding<>::sinusoidal(5), ArgumentError);
  EXPECT_THROW(WaveEmbedding<>::fourier(6, 2.0, 1.0), ArgumentError);
  EXPECT_THROW(WaveEmbedding<>::fourier(6, 0.0, 1.0), ArgumentError);
}

/// Sets the points of a field [batch, channel, token, space...] to weight[token, channel].
template <int Rank>
World<Rank> at_every_point(const std::array<index_t, static_cast<std::size_t>(Rank)>& n,
                           const Values& weight) {
  World<Rank> y(n);
  const std::size_t points = y.v.size() / static_cast<std::size_t>(n[0] * n[1] * n[2]);
  for (std::size_t i = 0; i < y.v.size(); ++i) {
    const auto l = i / points % static_cast<std::size_t>(n[2]),
               c = i / points / static_cast<std::size_t>(n[2]) % static_cast<std::size_t>(n[1]);
    y.v[i]       = weight[l * static_cast<std::size_t>(n[1]) + c];
  }
  return y;
}

/// On fields of type F, x with these partitions.
template <class F, std::size_t Rank>
void check_queries(const Grid& mesh, const std::array<Partition, Rank>& partitions,
                   const LearnedQueries& layer, Random& random) {
  constexpr int rank = static_cast<int>(Rank);
  const Space space;
  const auto after = layer.output_partitions(partitions);
  std::array<index_t, Rank> n, nx;
  for (std::size_t d = 0; d < Rank; ++d) {
    n[d]  = after[d].size();
    nx[d] = partitions[d].size();
  }
  const auto values = [&] {
    return random_world(std::array<index_t, 2>{layer.tokens, layer.channels}, random).v;
  };
  const Values w0 = values(), tw0 = values();
  const World<rank> x0 = random_world(nx, random), dy0 = random_world(n, random);
  const Values dw0 = gradient_by_differences(
      [&](const Values& w) { return dot(at_every_point<rank>(n, w).v, dy0.v); }, w0);
  const auto weights   = make_parameters<double>(layer, "w"),
             gradients = make_parameters<double>(layer, "g"),
             moved     = make_parameters<double>(layer, "t");
  set_values(weights.weight, w0);
  set_values(moved.weight, tw0);
  const F x("x", mesh, partitions), dx = x.like("dx");
  const F y("y", mesh, after), dy      = y.like("dy");
  scatter(x, x0);
  scatter(dy, dy0);
  layer.apply(space, weights, y, x);
  EXPECT_EQ(difference(y, at_every_point<rank>(n, w0)), 0.0);
  layer.pushforward(space, weights, moved, y, x, x);
  EXPECT_EQ(difference(y, at_every_point<rank>(n, tw0)), 0.0);
  layer.pushforward(space, weights, not_wanted, y, x, x);
  EXPECT_EQ(difference(y, World<rank>(n)), 0.0);
  layer.pullback(space, weights, gradients, dx, dy, x);
  EXPECT_EQ(difference(dx, World<rank>(nx)), 0.0);
  Values dw = summed(gradients.weight, x);
  EXPECT_LT(difference(dw, dw0), 1e-8);
  EXPECT_NEAR(dot(at_every_point<rank>(n, tw0).v, dy0.v), dot(tw0, dw), 1e-12 * dot(dy0.v, dy0.v));
  layer.pullback(space, weights, gradients, not_wanted, dy, x);  // adds
  dw = summed(gradients.weight, x);
  for (double& g : dw) g *= 0.5;
  EXPECT_LT(difference(dw, dw0), 1e-8);
  layer.pullback(space, weights, not_wanted, dx, dy, x);
}

TEST(learned_queries, the_same_at_every_point) {
  static_assert(LearnedQueries::sharding == LayerSharding::local);
  static_assert(!LearnedQueries::can_be_sharded(0) && LearnedQueries::can_be_sharded(1));
  using Volume   = OutputOf<double, 3>;
  using Haloed3  = ShardedView<double*****, Kokkos::LayoutLeft, ShardDim<3, Lat, Halo<1>>,
                              ShardDim<4, Lon, Halo<2>>>;
  using Plane    = ShardedView<double****, Kokkos::LayoutRight, ShardDim<0, Lat>, ShardDim<3, Lon>>;
  using Channels = ShardedView<double****, Kokkos::LayoutRight, ShardDim<1, Lat>, ShardDim<3, Lon>>;
  using Column   = ShardedView<double***, Kokkos::LayoutRight, ShardDim<0, Lat>>;
  Random random(seed());
  on_meshes(std::array<index_t, 5>{2, 3, 4, 5, 7},
            [&](const Grid& mesh, const std::array<Partition, 5>& p) {
              check_queries<Volume>(mesh, p, {3, 6}, random);
              check_queries<Haloed3>(mesh, p, {5, 2}, random);
            });
  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    const auto part = [&](index_t n, int axis) {
      return some_partition(n, shape[static_cast<std::size_t>(axis)], which, random);
    };
    const Partition two = Partition::whole(2), three = Partition::whole(3);
    check_queries<Plane>(mesh, std::array{part(4, 0), two, three, part(9, 1)}, {2, 5}, random);
    check_queries<Channels>(mesh, std::array{two, part(6, 0), three, part(9, 1)}, {2, 5}, random);
    check_queries<Column>(mesh, std::array{part(4, 0), two, three}, {4, 5}, random);
  });
}

TEST(learned_queries, what_does_not_fit_throws_on_every_rank) {
  using Volume = OutputOf<double, 3>;
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const LearnedQueries layer{3, 2};
  const auto w = make_parameters<double>(layer, "w");
  const Volume x("x", mesh, {2, 5, 4, 8, 3});
  for (const std::array<index_t, 5>& wrong : {std::array<index_t, 5>{2, 3, 3, 8, 3},
                                              {2, 2, 4, 8, 3},
                                              {1, 2, 3, 8, 3},
                                              {2, 2, 3, 7, 3},
                                              {2, 2, 3, 8, 4}})
    EXPECT_THROW(layer.apply(Space(), w, Volume("y", mesh, wrong), x), ArgumentError);
  const Volume y("y", mesh, {2, 2, 3, 8, 3});
  EXPECT_NO_THROW(layer.apply(Space(), w, y, x));
}

TEST(normal, the_same_on_every_mesh) {
  const N4 n{2, 3, 41, 43};
  World<4> expected(n);
  const double two_pi = 2.0 * std::acos(-1.0);
  for (std::size_t i = 0; i < expected.v.size(); ++i) {
    const double radius = impl::counter_uniform(5, 7, 2 * i) + 0x1.0p-53,
                 turn   = impl::counter_uniform(5, 7, 2 * i + 1);
    expected.v[i]       = std::sqrt(-2.0 * std::log(radius)) * std::cos(two_pi * turn);
  }
  const Space space;
  const Grid alone(MPI_COMM_SELF, {1, 1});
  const Field whole("whole", alone, n);
  normal(space, whole, 5, 7);
  const Values one = gathered(whole, MPI_COMM_SELF).v;
  double sum = 0.0, squares = 0.0, fourth = 0.0, beside = 0.0;
  for (std::size_t i = 0; i < one.size(); ++i) {
    sum += one[i];
    squares += one[i] * one[i];
    fourth += std::pow(one[i], 4);
    beside += i > 0 ? one[i] * one[i - 1] : 0.0;
  }
  const auto count = static_cast<double>(one.size());  // 10 578: four standard deviations
  EXPECT_NEAR(sum / count, 0.0, 0.04);
  EXPECT_NEAR(squares / count, 1.0, 0.055);
  EXPECT_NEAR(fourth / count, 3.0, 0.4);
  EXPECT_NEAR(beside / count, 0.0, 0.04);
  on_meshes(n, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {
    const Haloed y("y", mesh, partitions);
    normal(space, y, 5, 7);
    EXPECT_LT(difference(y, expected), 1e-14);
    EXPECT_EQ(different_bits(gathered(y, MPI_COMM_WORLD).v, one), 0);
    normal(space, y, 5, 8);
    EXPECT_GT(difference(y, expected), 0.1);
  });
}

TEST(drop_path, of_samples) {
  const N4 n{40, 2, 3, 5};
  Random random(seed());
  const World<4> x0 = random_world(n, random), dy0 = random_world(n, random);
  const DropPath layer{0.25, 11};
  const auto dropped = [&](const World<4>& x, std::uint64_t step) {
    World<4> y(n);
    for (std::size_t i = 0; i < x.v.size(); ++i)
      y.v[i] = impl::counter_uniform(11, step, i / 30) >= 0.25 ? x.v[i] * (1.0 / 0.75) : 0.0;
    return y;
  };
  int zeros = 0;
  for (std::size_t b = 0; b < 40; ++b) zeros += dropped(x0, 1).v[30 * b] == 0.0 ? 1 : 0;
  EXPECT_GT(zeros, 2);
  EXPECT_LT(zeros, 20);
  using Batch = ShardedView<double****, Kokkos::LayoutRight, ShardDim<0, Lat>, ShardDim<2, Lon>>;
  const Space space;
  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    const std::array<Partition, 4> p{
        some_partition(40, shape[0], which, random), Partition::whole(2),
        some_partition(3, shape[1], which, random), Partition::whole(5)};
    const Batch x("x", mesh, p), y = x.like("y"), dy = x.like("dy");
    scatter(x, x0);
    scatter(dy, dy0);
    auto state = layer.state(x);
    for (std::uint64_t step : {1u, 2u}) {
      layer.apply(space, state, y, x);
      EXPECT_EQ(state.step, step);
      EXPECT_EQ(difference(y, dropped(x0, step)), 0.0);
      layer.pushforward(space, state, y, dy, x);
      EXPECT_EQ(difference(y, dropped(dy0, step)), 0.0);
      layer.pullback(space, state, y, dy, x);
      EXPECT_EQ(difference(y, dropped(dy0, step)), 0.0);
    }
    layer.pullback(space, state, not_wanted, dy, x);
    DropPath{0.9, 0, false}.apply(space, state, y, x);
    EXPECT_EQ(difference(y, x0), 0.0);
    EXPECT_THROW(DropPath{1.5}.apply(space, state, y, x), ArgumentError);
  });
}

/// Patches in the order (p1 p2 c): y[n, c, i R + j] = x[n, j C + c, i].
TEST(patches, points_first) {
  const auto check = [](auto shuffle, auto unshuffle, index_t r) {
    const index_t channels = 3;
    const N4 n{2, channels * r * r, 5, 7}, fine{2, channels, 5 * r, 7 * r};
    Random random(seed());
    const World<4> x0 = random_world(n, random);
    World<4> y0(fine);
    for (index_t b = 0; b < 2; ++b)
      for (index_t c = 0; c < channels; ++c)
        for (index_t i = 0; i < 5 * r; ++i)
          for (index_t j = 0; j < 7 * r; ++j)
            y0.v[y0.at({b, c, i, j})] =
                x0.v[x0.at({b, (i % r * r + j % r) * channels + c, i / r, j / r})];
    on_meshes(n, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {
      const Haloed x("x", mesh, partitions), dx = x.like("dx");
      const Field y("y", mesh, shuffle.output_partitions(partitions));
      scatter(x, x0);
      shuffle.apply(Space(), y, x);
      EXPECT_EQ(difference(y, y0), 0.0);
      shuffle.pullback(Space(), dx, y, x);
      EXPECT_EQ(difference(dx, x0), 0.0);
      const Field back("back", mesh, unshuffle.output_partitions(y.partitions()));
      unshuffle.apply(Space(), back, y);
      EXPECT_EQ(difference(back, x0), 0.0);
      unshuffle.pullback(Space(), y, back, y);
      EXPECT_EQ(difference(y, y0), 0.0);
    });
  };
  constexpr auto first = PixelOrder::points_first;
  check(PixelShuffle<2, 2, first>{}, PixelUnshuffle<2, 2, first>{}, 2);
  check(PixelShuffle<3, 2, first>{}, PixelUnshuffle<3, 2, first>{}, 3);
  check(PixelShuffle<5, 2, first>{}, PixelUnshuffle<5, 2, first>{}, 5);
}

}  // namespace
}  // namespace shard::testing
