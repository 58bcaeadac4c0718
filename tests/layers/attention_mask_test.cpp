// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention with masks that are added to the scores against plain attention over lists of cells.

#include "shard/layers/attention/attention_mask.hpp"

#include "layers/bits.hpp"
#include "layers/plain_attention.hpp"
#include "shard/layers/attention/attention_bias.hpp"
#include "shard/layers/impl/dot.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

using Right            = Kokkos::LayoutRight;
using Mask             = Kokkos::View<double****, Right, Kokkos::HostSpace>;
constexpr double never = -Kokkos::Experimental::infinity_v<double>;

/// Random numbers, of which some are -infinity: all of some queries.
Mask random_mask(index_t windows, index_t heads, index_t tokens) {
  const Mask mask("mask", static_cast<std::size_t>(windows), static_cast<std::size_t>(heads),
                  static_cast<std::size_t>(tokens), static_cast<std::size_t>(tokens));
  Random random(seed() + 7);
  const auto n = static_cast<std::size_t>(tokens);
  for (std::size_t i = 0; i < mask.size(); ++i)
    mask.data()[i] = random.below(3) == 0 || i / n % 5 == 2 ? never : 2.0 * random.real();
  return mask;
}

/// The window of a cell and its number in it, after the shift; of grids with `spread`.
template <std::size_t Rank>
struct Windows {
  std::array<index_t, Rank> n;
  std::array<index_t, Rank - 2> size;
  std::array<index_t, Rank - 2> shift{};
  bool spread = false;

  index_t count(std::size_t d) const { return (n[d + 2] + size[d] - 1) / size[d]; }
  index_t window(const std::array<index_t, Rank>& i) const {
    index_t w = 0;
    for (std::size_t d = 0; d < Rank - 2; ++d) {
      const index_t at = (i[d + 2] - shift[d] + n[d + 2]) % n[d + 2];
      w                = w * count(d) + (spread ? at % count(d) : at / size[d]);
    }
    return w;
  }
  index_t token(const std::array<index_t, Rank>& i) const {
    index_t t = 0;
    for (std::size_t d = 0; d < Rank - 2; ++d) {
      const index_t at = (i[d + 2] - shift[d] + n[d + 2]) % n[d + 2];
      t                = t * size[d] + (spread ? at / count(d) : at % size[d]);
    }
    return t;
  }
  index_t windows() const {
    index_t all = 1;
    for (std::size_t d = 0; d < Rank - 2; ++d) all *= count(d);
    return all;
  }
  index_t tokens() const {
    index_t all = 1;
    for (const index_t w : size) all *= w;
    return all;
  }
  double at(const decltype(Masked<WindowAttention<1>>::mask)& mask, index_t h,
            const std::array<index_t, Rank>& i, const std::array<index_t, Rank>& j) const {
    return mask(mask.extent(0) > 1 ? window(i) : 0, mask.extent(1) > 1 ? h : 0, token(i), token(j));
  }
};

template <class T, class Layer, std::size_t Rank>
void check(const Layer& layer, const Windows<Rank>& windows) {
  constexpr int rank = static_cast<int>(Rank);
  using F            = OutputOf<T, rank - 2>;
  const auto& n      = windows.n;
  Random random(seed());
  const World<rank> q0 = random_world(n, random), k0 = random_world(n, random),
                    v0 = random_world(n, random), dy0 = random_world(n, random);
  const World<rank> t0[3] = {random_world(n, random), random_world(n, random),
                             random_world(n, random)};
  PlainBias<rank> bias;
  bias.value = [&](index_t h, const auto& i, const auto& j) {
    return windows.at(layer.mask, h, i, j);
  };
  const Serial<rank> serial(
      q0, k0, v0, dy0, t0, layer.heads,
      [&](const auto& i, const auto& j) { return windows.window(i) == windows.window(j); }, bias);
  const double tolerance = std::is_same_v<T, float> ? 1e-4 : 1e-12;
  const Space space;
  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    const F q("q", mesh, some_partitions(n, shape, which, random)),
        k = q.like("k"), v = q.like("v"), y = q.like("y"), dq = q.like("dq"), dk = q.like("dk"),
        dv = q.like("dv"), ty = q.like("ty");
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
    layer.pushforward(space, state, ty, dq, not_wanted, not_wanted, q, k, v);
    const double one = dot(space, ty, y), same = dot(space, dq, dq);
    EXPECT_NEAR(one, same, tolerance * (same + 1.0));
  });
}

TEST(attention_mask, IsAddedToTheScoresOfEachWindow) {
  const Windows<4> plain{{2, 4, 8, 6}, {4, 3}}, odd{{1, 6, 7, 10}, {3, 4}, {1, 2}};
  for (const bool each : {true, false})
    for (const index_t heads : {2, 1})
      check<double>(
          Masked<WindowAttention<4, 3>>{
              {.heads = 2}, random_mask(each ? plain.windows() : 1, heads, plain.tokens())},
          plain);
  check<double>(Masked<WindowAttention<3, 4>>{{.heads = 3, .shift = {1, 2}},
                                              random_mask(odd.windows(), 3, odd.tokens())},
                odd);
  const Windows<4> grid{{2, 4, 12, 10}, {3, 5}, {}, true};
  check<double>(
      Masked<GridAttention<3, 5>>{{.heads = 2}, random_mask(grid.windows(), 1, grid.tokens())},
      grid);
  const Windows<5> space{{1, 2, 4, 5, 6}, {2, 3, 3}};
  check<double>(Masked<WindowAttention<2, 3, 3>>{{.heads = 1},
                                                 random_mask(space.windows(), 1, space.tokens())},
                space);
  const Windows<3> line{{2, 4, 13}, {5}};
  check<float>(
      Masked<WindowAttention<5>>{{.heads = 2}, random_mask(line.windows(), 2, line.tokens())},
      line);
  // heads of more features than the tiles' buffers hold
  const Windows<3> wide{{1, 8200, 5}, {3}};
  check<double>(
      Masked<WindowAttention<3>>{{.heads = 1}, random_mask(wide.windows(), 1, wide.tokens())},
      wide);
}

/// A learned bias beside a mask: where nothing is excluded, the sum of both as a mask.
TEST(attention_mask, HasALearnedBiasBesideIt) {
  const std::array<index_t, 4> n{2, 4, 8, 6};
  const Windows<4> windows{n, {4, 3}};
  const Mask mask = random_mask(windows.windows(), 2, 12),
             both = random_mask(mask.extent(0), 2, 12);
  const Biased<Masked<WindowAttention<4, 3>>, RelativeBias> layer{{{.heads = 2}, mask}};
  const auto p = make_parameters<double>(layer, "p"), g = make_parameters<double>(layer, "g");
  Random random(seed());
  std::vector<double> table(p.weight.size());
  for (double& t : table) t = random.real();
  set_values(p.weight, table);
  for (std::size_t w = 0; w < mask.extent(0); ++w)
    for (std::size_t h = 0; h < 2; ++h)
      for (index_t i = 0; i < 12; ++i)
        for (index_t j = 0; j < 12; ++j) {
          const index_t row = (i / 3 - j / 3 + 3) * 5 + i % 3 - j % 3 + 2;
          both(w, h, i, j)  = mask(w, h, i, j) + table[static_cast<std::size_t>(row * 2) + h];
        }
  const Masked<WindowAttention<4, 3>> summed_up{{.heads = 2}, both};
  const World<4> q0 = random_world(n, random), k0 = random_world(n, random),
                 dy0 = random_world(n, random);
  const Space space;
  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    const OutputOf<double, 2> q("q", mesh, some_partitions(n, shape, which, random));
    const auto k = q.like("k"), y = q.like("y"), dy = q.like("dy"), a = q.like("a"),
               b = q.like("b"), z = q.like("z"), none = q.like("none");
    scatter(q, q0);
    scatter(k, k0);
    scatter(dy, dy0);
    auto state = layer.state(q);
    auto other = summed_up.state(q);
    layer.apply(space, state, p, y, q, k, k);
    summed_up.apply(space, other, z, q, k, k);
    EXPECT_LT(difference(z, gathered(y, MPI_COMM_WORLD)), 1e-12);
    set_values(g.weight, std::vector<double>(table.size(), 0.0));
    layer.pullback(space, state, p, g, a, none, none, dy, q, k, k);
    summed_up.pullback(space, other, b, none, none, dy, q, k, k);
    EXPECT_LT(difference(a, gathered(b, MPI_COMM_WORLD)), 1e-12);
    // the parameters' gradient along a direction is that of the output
    const auto tp = make_parameters<double>(layer, "tp");
    set_values(tp.weight, table);
    layer.pushforward(space, state, p, tp, z, not_wanted, not_wanted, not_wanted, q, k, k);
    const auto gradient = summed(g.weight, q);
    double along        = 0.0;
    for (std::size_t i = 0; i < table.size(); ++i) along += gradient[i] * table[i];
    EXPECT_NEAR(dot(space, z, dy), along, 1e-12 * (std::abs(along) + 1.0));
  });
}

TEST(attention_mask, WhatDoesNotFitThrowsOnEveryRank) {
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const OutputOf<double, 2> q("q", mesh, {1, 4, 8, 6});
  const auto made = [&](const Mask& mask) {
    return message_thrown_by<ArgumentError>([&] {
      Masked<WindowAttention<4, 3>>{{.heads = 2}, mask}.state(q);
    });
  };
  expect_parts(made(random_mask(3, 1, 12)), {"\"mask\" has 3 windows", "4"});
  expect_parts(made(random_mask(4, 4, 12)), {"\"mask\" has 4 heads", "2"});
  expect_parts(made(random_mask(4, 1, 11)), {"\"mask\" has 11 queries", "12"});
  if (world_size() == 1) return;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const Mask mask = random_mask(4, 1, 12);
  if (rank == 1) mask(2, 0, 3, 4) = 17.0;
  const auto differs = [&] { Masked<WindowAttention<4, 3>>{{.heads = 2}, mask}.state(q); };
  expect_parts(message_thrown_by<AgreementError>(differs), {"Masked", "digest"});
}

}  // namespace
}  // namespace shard::testing
