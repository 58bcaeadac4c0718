// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The errors of layers in float: at most twice those of plain loops in float, each against the
// layer in double on the same numbers.

#include "layers/layer_support.hpp"
#include "shard/layers/norm/elementwise_layer_norm.hpp"
#include "shard/layers/pointwise/linear.hpp"
#include "shard/layers/pointwise/softmax.hpp"
#include "shard/layers/pointwise/spatial_softmax.hpp"
#include "shard/layers/resampling/interpolate.hpp"
#include "shard/layers/resampling/pool.hpp"
#include "shard/layers/window/conv.hpp"

namespace shard::testing {
namespace {

constexpr index_t channels = 96, rows = 11, columns = 70;
using Shape = std::array<index_t, 4>;
using Plane = World<4>;

/// Numbers that float has.
Plane numbers(const Shape& n, int seed_of, double scale = 1.0) {
  Random random(static_cast<std::uint64_t>(seed_of));
  Plane w = random_world(n, random);
  for (double& v : w.v) v = static_cast<double>(static_cast<float>(scale * v));
  return w;
}

template <class T>
using Field =
    ShardedView<T****, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<3>>, ShardDim<3, Lon, Halo<3>>>;

template <class T>
Field<T> field(const Grid& mesh, const Plane& w) {
  const Field<T> f("f", mesh, w.n);
  scatter(f, w);
  return f;
}
template <class F>
Plane values(const F& f, const Shape& n) {
  Plane w(n);
  const auto host = create_mirror_view(f);
  deep_copy(Space(), host, f);
  Space().fence();
  for_owned(host, [&](const auto& i, auto& v) { w.v[w.at(i)] = static_cast<double>(v); });
  return w;
}

double worst(const Plane& a, const Plane& b) {
  double most = 0.0;
  for (std::size_t i = 0; i < a.v.size(); ++i) most = std::max(most, std::abs(a.v[i] - b.v[i]));
  return most;
}
void expect_small(const char* name, const Plane& floats, const Plane& doubles, const Plane& plain) {
  const double allowed = 2.0 * worst(plain, doubles);
  EXPECT_GT(allowed, 0.0) << name;
  EXPECT_LT(allowed, 1e-4 * doubles.largest()) << name << ": the plain loop is another function";
  EXPECT_LE(worst(floats, doubles), allowed) << name;
}

/// Loops over an array in float; at(n, c, y, x).
struct Floats {
  Shape n;
  std::vector<float> v;
  explicit Floats(const Shape& extents)
      : n(extents),
        v(static_cast<std::size_t>(extents[0] * extents[1] * extents[2] * extents[3])) {}
  explicit Floats(const Plane& w) : Floats(w.n) {
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(w.v[i]);
  }
  float& at(index_t c, index_t y, index_t x) {
    return v[static_cast<std::size_t>((c * n[2] + y) * n[3] + x)];
  }
  Plane plane() const {
    Plane w(n);
    for (std::size_t i = 0; i < v.size(); ++i) w.v[i] = static_cast<double>(v[i]);
    return w;
  }
};

/// y and dx of a layer without parameters.
template <class T, class Layer>
std::array<Plane, 2> run(const Grid& mesh, const Layer& layer, const Plane& x0, const Plane& dy0) {
  const Space space;
  const auto x = field<T>(mesh, x0), dx = x.like("dx"), dy = field<T>(mesh, dy0), y = dy.like("y");
  if constexpr (requires { layer.state(x); }) {
    auto state = layer.state(x);
    layer.apply(space, state, y, x);
    layer.pullback(space, state, dx, dy, x);
  } else {
    layer.apply(space, y, x);
    layer.pullback(space, dx, dy, x);
  }
  return {values(y, dy0.n), values(dx, x0.n)};
}

template <class Layer, class Plain>
void check(const char* name, const Layer& layer, const Plane& x, const Plane& dy,
           const Plain& plain) {
  const Grid mesh(MPI_COMM_WORLD, {1, 1});
  const auto doubles = run<double>(mesh, layer, x, dy), floats = run<float>(mesh, layer, x, dy);
  Floats in(x), outer(dy), y(dy.n), dx(x.n);
  plain(in, outer, y, dx);
  expect_small(name, floats[0], doubles[0], y.plane());
  expect_small(name, floats[1], doubles[1], dx.plane());
}

/// A softmax of `count` numbers, at(i) of each.
template <class At>
void plain_softmax(index_t count, const At& at) {
  float most = -INFINITY, sum = 0, dot = 0;
  for (index_t i = 0; i < count; ++i) most = std::max(most, *at(i).x);
  for (index_t i = 0; i < count; ++i) sum += std::exp(*at(i).x - most);
  for (index_t i = 0; i < count; ++i) *at(i).y = std::exp(*at(i).x - most) / sum;
  for (index_t i = 0; i < count; ++i) dot += *at(i).y * *at(i).dy;
  for (index_t i = 0; i < count; ++i) *at(i).dx = *at(i).y * (*at(i).dy - dot);
}
struct Cell {
  float *x, *y, *dy, *dx;
};

TEST(FloatError, OfSoftmaxIsSmall) {
  const Shape n{1, channels, rows, columns};
  const Plane x = numbers(n, 1, 4.0), dy = numbers(n, 2);
  check("channels", Softmax{}, x, dy, [](Floats& in, Floats& outer, Floats& y, Floats& dx) {
    for (index_t i = 0; i < rows; ++i)
      for (index_t j = 0; j < columns; ++j)
        plain_softmax(channels, [&](index_t c) {
          return Cell{&in.at(c, i, j), &y.at(c, i, j), &outer.at(c, i, j), &dx.at(c, i, j)};
        });
  });
  check("columns", SpatialSoftmax<1>{}, x, dy,
        [](Floats& in, Floats& outer, Floats& y, Floats& dx) {
          for (index_t c = 0; c < channels; ++c)
            for (index_t i = 0; i < rows; ++i)
              plain_softmax(columns, [&](index_t j) {
                return Cell{&in.at(c, i, j), &y.at(c, i, j), &outer.at(c, i, j), &dx.at(c, i, j)};
              });
        });
  check("rows", SpatialSoftmax<0>{}, x, dy, [](Floats& in, Floats& outer, Floats& y, Floats& dx) {
    for (index_t c = 0; c < channels; ++c)
      for (index_t j = 0; j < columns; ++j)
        plain_softmax(rows, [&](index_t i) {
          return Cell{&in.at(c, i, j), &y.at(c, i, j), &outer.at(c, i, j), &dx.at(c, i, j)};
        });
  });
}

TEST(FloatError, OfInterpolationAndPoolingIsSmall) {
  const Shape coarse{1, 8, rows, columns}, fine{1, 8, 3 * rows, 3 * columns},
      half{1, 8, (rows + 1) / 2, columns / 2};
  check("linear", Interpolate<2>{.scale = 3}, numbers(coarse, 3), numbers(fine, 4),
        [](Floats& in, Floats& outer, Floats& y, Floats& dx) {
          for (index_t c = 0; c < 8; ++c)
            for (index_t i = 0; i < y.n[2]; ++i)
              for (index_t j = 0; j < y.n[3]; ++j) {
                const auto source = [](index_t o, index_t n, index_t* cell, float* share) {
                  const float at = std::max(0.0f, (static_cast<float>(o) + 0.5f) / 3.0f - 0.5f);
                  cell[0]        = static_cast<index_t>(at);
                  cell[1]        = std::min(cell[0] + 1, n - 1);
                  share[1]       = at - static_cast<float>(cell[0]);
                  share[0]       = 1.0f - share[1];
                };
                index_t cy[2], cx[2];
                float sy[2], sx[2], sum = 0;
                source(i, rows, cy, sy);
                source(j, columns, cx, sx);
                for (int a = 0; a < 2; ++a)
                  for (int b = 0; b < 2; ++b) {
                    sum += sy[a] * sx[b] * in.at(c, cy[a], cx[b]);
                    dx.at(c, cy[a], cx[b]) += sy[a] * sx[b] * outer.at(c, i, j);
                  }
                y.at(c, i, j) = sum;
              }
        });
  check("average", AvgPool<Kernel<3, 3>, Stride<2, 2>, Padding<1, 1>>{}, numbers(coarse, 5),
        numbers(half, 6), [](Floats& in, Floats& outer, Floats& y, Floats& dx) {
          for (index_t c = 0; c < 8; ++c)
            for (index_t i = 0; i < y.n[2]; ++i)
              for (index_t j = 0; j < y.n[3]; ++j) {
                float sum = 0;
                for (index_t a = std::max<index_t>(2 * i - 1, 0); a < std::min(2 * i + 2, rows);
                     ++a)
                  for (index_t b = std::max<index_t>(2 * j - 1, 0);
                       b < std::min(2 * j + 2, columns); ++b) {
                    sum += in.at(c, a, b);
                    dx.at(c, a, b) += outer.at(c, i, j) / 9.0f;
                  }
                y.at(c, i, j) = sum / 9.0f;
              }
        });
}

/// y, dx and the gradients of a layer with parameters.
template <class T, class Layer>
std::array<Plane, 3> run_with_weights(const Layer& layer, const Plane& x0, const Plane& dy0,
                                      const Plane& w) {
  const Grid mesh(MPI_COMM_WORLD, {1, 1});
  const Space space;
  const auto x = field<T>(mesh, x0), dx = x.like("dx"), dy = field<T>(mesh, dy0), y = dy.like("y");
  const auto p = make_parameters<T>(layer, "p"), g = make_parameters<T>(layer, "g");
  const auto weight = Kokkos::create_mirror_view(p.weight),
             result = Kokkos::create_mirror_view(g.weight);
  for (std::size_t i = 0; i < w.v.size(); ++i) weight.data()[i] = static_cast<T>(w.v[i]);
  Kokkos::deep_copy(p.weight, weight);
  if constexpr (requires { layer.state(x); }) {
    auto state = layer.state(x);
    layer.apply(space, state, p, y, x);
    layer.pullback(space, state, p, g, dx, dy, x);
  } else {
    layer.apply(space, p, y, x);
    layer.pullback(space, p, g, dx, dy, x);
  }
  space.fence();
  Kokkos::deep_copy(result, g.weight);
  Plane dw(w.n);
  for (std::size_t i = 0; i < w.v.size(); ++i) dw.v[i] = static_cast<double>(result.data()[i]);
  return {values(y, dy0.n), values(dx, x0.n), dw};
}

TEST(FloatError, OfDepthwiseConvolutionIsSmall) {
  const Shape n{1, 8, rows, columns};
  const Plane x = numbers(n, 7), dy = numbers(n, 8), w = numbers({8, 1, 5, 5}, 9);
  const Conv<Kernel<5, 5>, Padding<2, 2>> layer{8, 8, 8};
  const auto doubles = run_with_weights<double>(layer, x, dy, w),
             floats  = run_with_weights<float>(layer, x, dy, w);
  Floats in(x), outer(dy), weight(w), y(n), dx(n);
  for (index_t c = 0; c < 8; ++c)
    for (index_t i = 0; i < rows; ++i)
      for (index_t j = 0; j < columns; ++j)
        for (index_t a = 0; a < 5; ++a)
          for (index_t b = 0; b < 5; ++b) {
            const float f  = weight.v[static_cast<std::size_t>((c * 5 + a) * 5 + b)];
            const auto add = [&](Floats& to, Floats& from, index_t k, index_t l) {
              if (k >= 0 && k < rows && l >= 0 && l < columns)
                to.at(c, i, j) += f * from.at(c, k, l);
            };
            add(y, in, i + a - 2, j + b - 2);
            add(dx, outer, i - a + 2, j - b + 2);
          }
  expect_small("depthwise", floats[0], doubles[0], y.plane());
  expect_small("depthwise dx", floats[1], doubles[1], dx.plane());
}

TEST(FloatError, OfElementwiseNormIsSmall) {
  const Shape n{1, 4, rows, columns};
  const Plane x = numbers(n, 10), dy = numbers(n, 11), w = numbers(n, 12);
  const ElementwiseLayerNorm<2> layer{{4, rows, columns}};
  const auto doubles = run_with_weights<double>(layer, x, dy, w),
             floats  = run_with_weights<float>(layer, x, dy, w);
  Floats in(x), outer(dy), weight(w), y(n), dx(n), dw(n);
  const auto count = static_cast<float>(in.v.size());
  float mean = 0, square = 0, s1 = 0, s2 = 0;
  for (const float v : in.v) mean += v / count;
  for (const float v : in.v) square += (v - mean) * (v - mean) / count;
  const float rstd = 1.0f / std::sqrt(square + 1e-5f);
  for (std::size_t i = 0; i < in.v.size(); ++i) {
    const float hat = (in.v[i] - mean) * rstd, g = outer.v[i] * weight.v[i];
    y.v[i]  = hat * weight.v[i];
    dw.v[i] = outer.v[i] * hat;
    s1 += g / count;
    s2 += g * hat / count;
  }
  for (std::size_t i = 0; i < in.v.size(); ++i)
    dx.v[i] = rstd * (outer.v[i] * weight.v[i] - s1 - (in.v[i] - mean) * rstd * s2);
  expect_small("norm", floats[0], doubles[0], y.plane());
  expect_small("norm dx", floats[1], doubles[1], dx.plane());
  expect_small("norm dw", floats[2], doubles[2], dw.plane());
}

}  // namespace
}  // namespace shard::testing
