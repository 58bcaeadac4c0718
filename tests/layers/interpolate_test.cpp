// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Interpolation by every rule, size and scale against matrices of weights that are written out.

#include <functional>

#include "layers/bits.hpp"
#include "shard/layers/impl/dot.hpp"
#include "shard/layers/resampling/interpolate.hpp"
#include "support/counting.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

/// Weights of one dimension, [output][input].
using Matrix = std::vector<std::vector<double>>;

Matrix zeros(index_t m, index_t n) {
  return Matrix(static_cast<std::size_t>(m), std::vector<double>(static_cast<std::size_t>(n), 0.0));
}
void add_to(Matrix& w, index_t o, index_t i, double value) {
  const auto n = static_cast<index_t>(w[static_cast<std::size_t>(o)].size());
  w[static_cast<std::size_t>(o)]
   [static_cast<std::size_t>(std::min(std::max<index_t>(i, 0), n - 1))] += value;
}

double keys(double x) {
  x = std::abs(x);
  if (x <= 1.0) return 1.25 * x * x * x - 2.25 * x * x + 1.0;
  return x < 2.0 ? -0.75 * (x * x * x - 5.0 * x * x + 8.0 * x - 4.0) : 0.0;
}

/// The rule of a layer from n to m cells; `step` is 1 / scale, 0 for extents.
template <class Layer>
Matrix weights(index_t n, index_t m, double step) {
  Matrix w      = zeros(m, n);
  const auto nn = static_cast<double>(n), mm = static_cast<double>(m);
  for (index_t o = 0; o < m; ++o) {
    const auto oo = static_cast<double>(o);
    if (Layer::rule == impl::InterpolationRule::area) {
      const index_t first = o * n / m, last = ((o + 1) * n + m - 1) / m;
      for (index_t i = first; i < last; ++i)
        add_to(w, o, i, 1.0 / static_cast<double>(last - first));
    } else if (Layer::rule == impl::InterpolationRule::nearest) {
      add_to(w, o, step > 0.0 ? static_cast<index_t>(std::floor(oo * step)) : o * n / m, 1.0);
    } else {
      double x = (oo + 0.5) * (step > 0.0 ? step : nn / mm) - 0.5;
      if (Layer::align_corners) x = m > 1 ? oo * (nn - 1.0) / (mm - 1.0) : 0.0;
      if (Layer::rule == impl::InterpolationRule::linear) x = std::max(x, 0.0);
      const auto i = static_cast<index_t>(std::floor(x));
      for (index_t k = i - 1; k <= i + 2; ++k) {
        const double away = std::abs(x - static_cast<double>(k));
        add_to(
            w, o, k,
            Layer::rule == impl::InterpolationRule::cubic ? keys(away) : std::max(0.0, 1.0 - away));
      }
    }
  }
  return w;
}

/// y = rows x columns' of the last two dimensions, or its transpose.
World<4> through(const World<4>& x, const Matrix& rows, const Matrix& columns, bool transposed) {
  const auto m = static_cast<index_t>(rows.size()), k = static_cast<index_t>(columns.size());
  const auto n = static_cast<index_t>(rows[0].size()), l = static_cast<index_t>(columns[0].size());
  World<4> y({x.n[0], x.n[1], transposed ? n : m, transposed ? l : k});
  for (index_t b = 0; b < x.n[0]; ++b)
    for (index_t c = 0; c < x.n[1]; ++c)
      for (index_t o = 0; o < m; ++o)
        for (index_t p = 0; p < k; ++p)
          for (index_t i = 0; i < n; ++i)
            for (index_t j = 0; j < l; ++j) {
              const double w = rows[static_cast<std::size_t>(o)][static_cast<std::size_t>(i)] *
                               columns[static_cast<std::size_t>(p)][static_cast<std::size_t>(j)];
              if (w == 0.0) continue;
              if (transposed)
                y.v[y.at({b, c, i, j})] += w * x.v[x.at({b, c, o, p})];
              else
                y.v[y.at({b, c, o, p})] += w * x.v[x.at({b, c, i, j})];
            }
  return y;
}

/// On every mesh and several partitions: forward, tangent, gradient.
template <class T, class Layer, class Layout = Kokkos::LayoutRight>
void check(const Layer& layer, const std::array<index_t, 4>& n, const std::array<index_t, 2>& m) {
  using X = typename InputOf<T, Layer, Periodic, Zero, 2, Layout>::type;
  using Y = OutputOf<T, 2, Layout>;
  SCOPED_TRACE("from " + std::to_string(n[2]) + " x " + std::to_string(n[3]) + " to " +
               std::to_string(m[0]) + " x " + std::to_string(m[1]));
  const double tolerance = std::is_same_v<T, float> ? 1e-5 : 1e-12;
  const Space space;
  Random random(seed());
  const auto step = [&layer](int d) {
    return layer.scale[d] > 0.0 && !layer.recompute_scale_factor ? 1.0 / layer.scale[d] : 0.0;
  };
  const Matrix rows    = weights<Layer>(n[2], m[0], step(0)),
               columns = weights<Layer>(n[3], m[1], step(1));
  const World<4> x0 = random_world<4>(n, random), y0 = through(x0, rows, columns, false),
                 dy0 = random_world<4>(y0.n, random), dx0 = through(dy0, rows, columns, true);
  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    const X x("x", mesh, some_partitions(n, shape, which, random));
    const bool given = layer.size[0] > 0 || layer.scale[0] > 0.0;
    const Y y("y", mesh,
              given ? layer.output_partitions(x.partitions())
                    : layer.output_partitions(x.partitions(), m));
    const Y dy = y.like("dy"), ty = y.like("ty");
    const X dx = x.like("dx");
    scatter(x, x0);
    layer.apply(space, y, x);
    EXPECT_LT(difference(y, y0), tolerance);
    scatter(dx, x0);
    layer.pushforward(space, ty, dx, x);
    EXPECT_LT(difference(ty, y0), tolerance);
    scatter(dy, dy0);
    scatter(dx, World<4>(n));
    layer.pullback(space, dx, dy, x);
    EXPECT_LT(difference(dx, dx0), tolerance);
  });
}

template <class Layer>
void check_sizes(std::initializer_list<std::array<index_t, 2>> sizes) {
  for (const auto& m : sizes) {
    check<double>(Layer{}, {2, 2, 11, 12}, m);
    check<double>(Layer{.size = {m[0], m[1]}}, {1, 1, 7, 6}, m);
  }
}

TEST(interpolate, B6_integer_and_other_ratios_up_and_down_to_the_poles) {
  check_sizes<Interpolate<2>>({{22, 24}, {16, 20}, {5, 6}, {11, 12}, {1, 7}});
  check_sizes<Interpolate<2, LinearCorners>>({{22, 24}, {16, 20}, {5, 6}, {1, 7}});
  check_sizes<Interpolate<2, Nearest>>({{22, 24}, {16, 20}, {5, 6}, {7, 1}});
  check_sizes<Interpolate<2, Bicubic>>({{22, 24}, {33, 48}, {16, 20}, {5, 6}, {1, 7}});
  check_sizes<Interpolate<2, BicubicCorners>>({{22, 24}, {16, 20}, {5, 6}, {1, 7}});
  check_sizes<Interpolate<2, Area<3>>>({{22, 24}, {16, 20}, {5, 6}, {4, 4}, {11, 12}});
  check<float, Interpolate<2, Bicubic>, Kokkos::LayoutLeft>({}, {1, 3, 9, 8}, {14, 5});
}

TEST(interpolate, B6_scales_give_global_extents_and_positions) {
  check<double>(Interpolate<2>{.scale = 2}, {1, 2, 5, 7}, {10, 14});
  check<double>(Interpolate<2>{.scale = {1.7, 0.6}}, {1, 2, 10, 9}, {17, 5});
  check<double>(Interpolate<2>{.scale = {1.7, 0.6}, .recompute_scale_factor = true}, {1, 2, 9, 9},
                {15, 5});
  check<double>(Interpolate<2, Nearest>{.scale = {2.3, 0.37}}, {1, 2, 9, 11}, {20, 4});
  check<double>(Interpolate<2, Bicubic>{.scale = {0.45, 1.9}}, {1, 2, 12, 7}, {5, 13});
  check<double>(Interpolate<2, Area<3>>{.scale = 0.4, .recompute_scale_factor = true},
                {1, 2, 12, 7}, {4, 2});
}

/// What 1.4 says of theirs: wrong at the poles, shifted by half a row, or a row too many.
TEST(interpolate, B6_their_ratios) {
  for (const std::array<index_t, 2>& rows : {std::array<index_t, 2>{16, 32},
                                             {16, 48},
                                             {16, 64},
                                             {16, 24},
                                             {16, 20},
                                             {12, 20},
                                             {16, 8},
                                             {32, 16},
                                             {13, 26}})
    check<double>(Interpolate<2>{}, {1, 1, rows[0], 5}, {rows[1], 7});
  check<double>(Interpolate<2>{.size = 12}, {1, 2, 7, 9}, {12, 12});  // one number for all
  for (index_t n = 1; n < 200; ++n)  // 158 of these pairs came out too long
    for (index_t factor = 1; factor <= 8; ++factor)
      ASSERT_EQ((Interpolate<1>{.scale = factor}.output_extent(0, n)), n * factor);
}

TEST(interpolate, one_dimension) {
  using Layer = Interpolate<1, Bicubic>;
  using X     = InputOf<double, Layer, Zero, Zero, 1>::type;
  using Y     = OutputOf<double, 1>;
  const Space space;
  Random random(seed());
  const std::array<index_t, 3> n{2, 3, 11};
  const World<3> x0 = random_world<3>(n, random), dy0 = random_world<3>({2, 3, 17}, random);
  const Matrix w = weights<Layer>(11, 17, 0.0);
  World<3> y0({2, 3, 17}), dx0(n);
  for (std::size_t plane = 0; plane < 6; ++plane)
    for (std::size_t o = 0; o < 17; ++o)
      for (std::size_t i = 0; i < 11; ++i) {
        y0.v[plane * 17 + o] += w[o][i] * x0.v[plane * 11 + i];
        dx0.v[plane * 11 + i] += w[o][i] * dy0.v[plane * 17 + o];
      }
  const Layer layer{.size = 17};
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  for (int which = 0; which < 3; ++which) {
    const X x("x", mesh, some_partitions(n, {world_size(), 1}, which, random)), dx = x.like("dx");
    const Y y("y", mesh, layer.output_partitions(x.partitions())), dy              = y.like("dy");
    scatter(x, x0);
    layer.apply(space, y, x);
    EXPECT_LT(difference(y, y0), 1e-12);
    scatter(dy, dy0);
    layer.pullback(space, dx, dy, x);
    EXPECT_LT(difference(dx, dx0), 1e-12);
  }
}

TEST(interpolate, three_dimensions) {
  using Layer = Interpolate<3, Bicubic>;
  const Layer layer{.size = {5, 4, 9}};
  Random random(seed());
  const std::array<index_t, 5> n{1, 2, 3, 6, 7};
  const World<5> x0 = random_world<5>(n, random);
  const Matrix w[3] = {weights<Layer>(3, 5, 0.0), weights<Layer>(6, 4, 0.0),
                       weights<Layer>(7, 9, 0.0)};
  World<5> y0({1, 2, 5, 4, 9}), dx0(n);
  const World<5> dy0 = random_world<5>(y0.n, random);
  for (index_t c = 0; c < 2; ++c)
    for (std::size_t a = 0; a < 5 * 4 * 9; ++a)
      for (std::size_t b = 0; b < 3 * 6 * 7; ++b) {
        const std::size_t o[3] = {a / 36, a / 9 % 4, a % 9}, i[3] = {b / 42, b / 7 % 6, b % 7};
        const double weight = w[0][o[0]][i[0]] * w[1][o[1]][i[1]] * w[2][o[2]][i[2]];
        const auto at       = static_cast<std::size_t>(c);
        y0.v[at * 180 + a] += weight * x0.v[at * 126 + b];
        dx0.v[at * 126 + b] += weight * dy0.v[at * 180 + a];
      }
  const Space space;
  using X = InputOf<double, Layer, Zero, Zero, 3>::type;
  using Y = OutputOf<double, 3>;
  for (const auto& shape : shapes(world_size())) {
    const Grid mesh(MPI_COMM_WORLD, {shape[0], shape[1]});
    const X x("x", mesh, some_partitions(n, shape, 1, random)), dx    = x.like("dx");
    const Y y("y", mesh, layer.output_partitions(x.partitions())), dy = y.like("dy");
    scatter(x, x0);
    layer.apply(space, y, x);
    EXPECT_LT(difference(y, y0), 1e-12);
    scatter(dy, dy0);
    layer.pullback(space, dx, dy);
    EXPECT_LT(difference(dx, dx0), 1e-12);
  }
}

static_assert(std::is_same_v<required_halo_t<Interpolate<2, Bicubic>, 1>, Halo<1, 2>>);
static_assert(std::is_same_v<required_halo_t<Interpolate<2, Area<4>>, 0>, Halo<0, 4>>);
static_assert(Interpolate<2, Nearest>::sharding == LayerSharding::local);
static_assert(has_sharding_rule_v<Interpolate<2>, 1>);

TEST(interpolate, nothing_is_done_for_a_gradient_that_is_not_wanted) {
  using Layer = Interpolate<2, Bicubic>;
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const InputOf<double, Layer, Zero, Zero, 2>::type x("x", mesh, {1, 1, 9, 4});
  const Layer layer{.scale = 2};
  const OutputOf<double, 2> dy("dy", mesh, layer.output_partitions(x.partitions()));
  const Counts counts = count([&] { layer.pullback(Space(), not_wanted, dy, x); });
  EXPECT_EQ(counts.kernels + counts.messages + counts.copies, 0) << counts;
}

TEST(interpolate, what_does_not_fit_throws_on_every_rank) {
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  using X = ShardedView<double****, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<0, 4>>,
                        ShardDim<3, Lon, Halo<0, 4>>>;
  using Y = OutputOf<double, 2>;
  const X x("x", mesh, {1, 1, 16, 16});
  const Interpolate<2> none, sized{.size = 8};
  expect_parts(message_thrown_by<ArgumentError>([&] { none.output_partitions(x.partitions()); }),
               {"neither a size nor a scale"});
  const Y y("y", mesh, none.output_partitions(x.partitions(), {8, 9}));
  expect_parts(message_thrown_by<ArgumentError>([&] { sized.apply(Space(), y, x); }),
               {"9 cells along a spatial dimension", "gives or takes 8"});
  if (world_size() == 1) return;
  const Interpolate<2, Area<2>> narrow{.size = {2, 16}};  // eight inputs in one output
  std::vector<index_t> begins(static_cast<std::size_t>(world_size()) + 1, 1);
  begins.front()  = 0;
  begins.back()   = 16;
  auto partitions = x.partitions();
  partitions[2]   = Partition::explicit_begins(begins);
  const X skew("x", mesh, partitions);
  const Y few("y", mesh, narrow.output_partitions(skew.partitions()));
  expect_parts(message_thrown_by<ArgumentError>([&] { narrow.apply(Space(), few, skew); }),
               {"cells beyond those it owns"});
}

}  // namespace
}  // namespace shard::testing
