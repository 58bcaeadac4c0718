// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gated linear units, RMSNorm and LayerScale against plain loops and central differences.

#include "shard/layers/pointwise/gated.hpp"

#include <functional>

#include "layers/bits.hpp"
#include "layers/derivatives.hpp"
#include "layers/layer_support.hpp"
#include "shard/layers/norm/layer_norm.hpp"
#include "shard/layers/pointwise/layer_scale.hpp"

namespace shard::testing {
namespace {

using N4     = std::array<index_t, 4>;
using Field  = OutputOf<double, 2>;
using Values = std::vector<double>;

World<4> world_of(const N4& n, Values v) {
  World<4> w(n);
  w.v = std::move(v);
  return w;
}

double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

/// y = a f(b), or f(a) b, of the halves of the channels of x.
Values gated(const std::function<double(double)>& f, bool first, const N4& n, const Values& x) {
  const World<4> at(n);
  Values y;
  for (index_t b = 0; b < n[0]; ++b)
    for (index_t c = 0; c < n[1] / 2; ++c)
      for (index_t i = 0; i < n[2]; ++i)
        for (index_t j = 0; j < n[3]; ++j) {
          const double one = x[at.at({b, c, i, j})], two = x[at.at({b, c + n[1] / 2, i, j})];
          y.push_back(first ? f(one) * two : one * f(two));
        }
  return y;
}

template <class Layer>
void check_gated(const char* name, const Layer& layer, const std::function<double(double)>& f) {
  SCOPED_TRACE(name);
  const N4 n{2, 6, 5, 7}, half{2, 3, 5, 7};
  Random random(seed());
  World<4> x0        = random_world(n, random);
  const World<4> tx0 = random_world(n, random), dy0 = random_world(half, random);
  for (double& v : x0.v) v += v > 0.0 ? 0.1 : -0.1;  // away from the kink of ReLU
  const auto y0    = [&](const Values& v) { return gated(f, layer.activates_first, n, v); };
  const Values ty0 = tangent_by_differences(y0, x0.v, tx0.v);
  const Values dx0 =
      gradient_by_differences([&](const Values& v) { return dot(dy0.v, y0(v)); }, x0.v);
  const Space space;
  const Grid alone(MPI_COMM_SELF, {1, 1});
  const Field whole("whole", alone, n), y_whole("y", alone, half), dx_whole = whole.like("dx"),
                                                                   dy_whole = y_whole.like("dy");
  scatter(whole, x0);
  scatter(dy_whole, dy0);
  layer.apply(space, y_whole, whole);
  layer.pullback(space, dx_whole, dy_whole, whole);
  const auto y1 = gathered(y_whole, MPI_COMM_SELF).v, dx1 = gathered(dx_whole, MPI_COMM_SELF).v;
  on_meshes(n, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {
    const Haloed x("x", mesh, partitions), dx = x.like("dx");
    const Field tx("tx", mesh, partitions);
    const Field y("y", mesh, layer.output_partitions(partitions)), dy = y.like("dy");
    scatter(x, x0);
    scatter(tx, tx0);
    scatter(dy, dy0);
    layer.pushforward(space, y, tx, x);
    EXPECT_LT(difference(y, world_of(half, ty0)), 1e-9);
    const Values ty = gathered(y, MPI_COMM_WORLD).v;
    layer.apply(space, y, x);
    EXPECT_LT(difference(y, world_of(half, y0(x0.v))), 1e-14);
    EXPECT_EQ(different_bits(gathered(y, MPI_COMM_WORLD).v, y1), 0);
    layer.pullback(space, dx, dy, x);
    EXPECT_LT(difference(dx, world_of(n, dx0)), 1e-9);
    const Values mine = gathered(dx, MPI_COMM_WORLD).v;
    EXPECT_EQ(different_bits(mine, dx1), 0);
    EXPECT_NEAR(dot(ty, dy0.v), dot(tx0.v, mine), 1e-12 * dot(dy0.v, dy0.v));
    layer.pullback(space, not_wanted, dy, x);
  });
}

TEST(gated, halves_of_the_channels) {
  static_assert(GLU::sharding == LayerSharding::local);
  const auto silu = [](double x) { return x * sigmoid(x); };
  check_gated("GLU", GLU{}, sigmoid);
  check_gated("SwiGLU", SwiGLU{}, silu);
  check_gated("SwiGLU, first", SwiGLU{.activates_first = true}, silu);
  check_gated("GEGLU", GEGLU{}, [](double x) { return 0.5 * x * std::erfc(-x / std::sqrt(2.0)); });
  check_gated("GEGLU, tanh", GEGLU{{GeluForm::tanh}}, [](double x) {
    const double root = std::sqrt(2.0 / std::acos(-1.0));
    return 0.5 * x * (1.0 + std::tanh(root * (x + 0.044715 * x * x * x)));
  });
  check_gated("ReGLU", ReGLU{}, [](double x) { return x > 0.0 ? x : 0.0; });
}

TEST(gated, wrong_channels) {
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const Field five("five", mesh, {1, 5, 9, 4}), four("four", mesh, {1, 4, 9, 4});
  EXPECT_THROW(GLU{}.output_partitions(five.partitions()), ArgumentError);
  EXPECT_THROW(GLU{}.apply(Space(), four, five), ArgumentError);
}

/// w x / sqrt(mean of x^2 over channels + eps).
Values normalised(const N4& n, double eps, const Values& w, const Values& x) {
  const World<4> at(n);
  Values y(x.size());
  for (index_t b = 0; b < n[0]; ++b)
    for (index_t i = 0; i < n[2]; ++i)
      for (index_t j = 0; j < n[3]; ++j) {
        double squares = 0.0;
        for (index_t c = 0; c < n[1]; ++c) squares += std::pow(x[at.at({b, c, i, j})], 2);
        const double r = 1.0 / std::sqrt(squares / static_cast<double>(n[1]) + eps);
        for (index_t c = 0; c < n[1]; ++c)
          y[at.at({b, c, i, j})] = w[static_cast<std::size_t>(c)] * x[at.at({b, c, i, j})] * r;
      }
  return y;
}

/// w[c] x
Values scaled(const N4& n, const Values& w, const Values& x) {
  const auto cells = static_cast<std::size_t>(n[2] * n[3]);
  Values y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    y[i] = w[i / cells % static_cast<std::size_t>(n[1])] * x[i];
  return y;
}

/// A layer with a weight per channel against f(weight, x) on every mesh.
template <class Layer, class F>
void check_weighted(const Layer& layer, const N4& n, const F& f) {
  Random random(seed());
  const auto channels = static_cast<std::size_t>(n[1]);
  const World<4> x0 = random_world(n, random), tx0 = random_world(n, random),
                 dy0 = random_world(n, random);
  const auto numbers = [&] { return random_world(std::array<index_t, 1>{n[1]}, random).v; };
  const Values w0 = numbers(), tw0 = numbers();
  ASSERT_EQ(parameter_count(layer), n[1]);
  const auto of_x = [&](const Values& v) { return f(w0, v); };
  const auto of_w = [&](const Values& v) { return f(v, x0.v); };
  Values with_tx  = tangent_by_differences(of_x, x0.v, tx0.v),
         with_tw = tangent_by_differences(of_w, w0, tw0), both = with_tx;
  for (std::size_t i = 0; i < both.size(); ++i) both[i] += with_tw[i];
  const Values dx0 =
      gradient_by_differences([&](const Values& v) { return dot(dy0.v, of_x(v)); }, x0.v);
  const Values dw0 =
      gradient_by_differences([&](const Values& v) { return dot(dy0.v, of_w(v)); }, w0);
  const Space space;
  const auto parameters = make_parameters<double>(layer, "p"),
             tangents   = make_parameters<double>(layer, "t");
  EXPECT_EQ(parameters.weight.size(), channels);
  EXPECT_EQ(parameters.bias.size(), 0u);
  set_values(parameters.weight, w0);
  set_values(tangents.weight, tw0);
  /// Calls the layer with its state, if it has one.
  const auto with_state = [&](const auto& x, const auto& call) {
    if constexpr (requires { layer.state(x); }) {
      auto state = layer.state(x);
      call(state);
    } else {
      call();
    }
  };
  const Grid alone(MPI_COMM_SELF, {1, 1});
  const Field whole("whole", alone, n), y_whole = whole.like("y"), dy_whole = whole.like("dy");
  scatter(whole, x0);
  scatter(dy_whole, dy0);
  Values y1, dx1;
  with_state(whole, [&](auto&... state) {
    layer.apply(space, state..., parameters, y_whole, whole);
    y1 = gathered(y_whole, MPI_COMM_SELF).v;
    layer.pullback(space, state..., parameters, not_wanted, y_whole, dy_whole, whole);
    dx1 = gathered(y_whole, MPI_COMM_SELF).v;
  });
  on_meshes(n, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {
    const Haloed x("x", mesh, partitions), dx = x.like("dx");
    const Field y("y", mesh, partitions), tx = y.like("tx"), dy = y.like("dy");
    scatter(x, x0);
    scatter(tx, tx0);
    scatter(dy, dy0);
    const auto gradients = make_parameters<double>(layer, "g");
    with_state(x, [&](auto&... state) {
      layer.apply(space, state..., parameters, y, x);
      EXPECT_LT(difference(y, world_of(n, f(w0, x0.v))), 1e-14);
      EXPECT_EQ(different_bits(gathered(y, MPI_COMM_WORLD).v, y1), 0);
      layer.pushforward(space, state..., parameters, tangents, y, tx, x);
      EXPECT_LT(difference(y, world_of(n, both)), 1e-8);
      const Values ty = gathered(y, MPI_COMM_WORLD).v;
      layer.pushforward(space, state..., parameters, not_wanted, y, tx, x);
      EXPECT_LT(difference(y, world_of(n, with_tx)), 1e-8);
      layer.pushforward(space, state..., parameters, tangents, y, not_wanted, x);
      EXPECT_LT(difference(y, world_of(n, with_tw)), 1e-8);
      layer.pullback(space, state..., parameters, gradients, dx, dy, x);
      EXPECT_LT(difference(dx, world_of(n, dx0)), 1e-8);
      const Values mine = gathered(dx, MPI_COMM_WORLD).v, dw = summed(gradients.weight, x);
      EXPECT_EQ(different_bits(mine, dx1), 0);
      EXPECT_LT(difference(dw, dw0), 1e-8);
      EXPECT_NEAR(dot(ty, dy0.v), dot(tx0.v, mine) + dot(tw0, dw), 1e-12 * dot(dy0.v, dy0.v));
      layer.pullback(space, state..., parameters, gradients, not_wanted, dy, x);  // adds
      Values twice = summed(gradients.weight, x);
      for (double& v : twice) v *= 0.5;
      EXPECT_LT(difference(twice, dw0), 1e-8);
      layer.pullback(space, state..., parameters, not_wanted, dy, dy, x);  // in place
      EXPECT_EQ(different_bits(gathered(dy, MPI_COMM_WORLD).v, dx1), 0);
      layer.apply(space, state..., parameters, x, x);
      EXPECT_EQ(different_bits(gathered(x, MPI_COMM_WORLD).v, y1), 0);
    });
  });
}

TEST(rms_norm, over_channels) {
  static_assert(RMSNorm::sharding == LayerSharding::local);
  const N4 n{2, 6, 5, 19}, few{2, 3, 4, 5};
  check_weighted(RMSNorm{6, 1e-2}, n,
                 [&](const Values& w, const Values& x) { return normalised(n, 1e-2, w, x); });
  check_weighted(RMSNorm{3}, few, [&](const Values& w, const Values& x) {
    return normalised(few, std::numeric_limits<double>::epsilon(), w, x);
  });
}

/// The default eps is that of the value type, and x of zeros gives zeros.
TEST(rms_norm, default_eps) {
  const Grid alone(MPI_COMM_SELF, {1, 1});
  const OutputOf<float, 1> x("x", alone, {1, 1, 2}), y = x.like("y");
  World<3> x0({1, 1, 2});
  x0.v = {1e-4, 0.0};
  scatter(x, x0);
  const RMSNorm norm{1, RMSNorm::machine_eps, false};
  auto state = norm.state(x);
  norm.apply(Space(), state, make_parameters<float>(norm, "none"), y, x);
  const auto v = gathered(y, MPI_COMM_SELF).v;
  EXPECT_NEAR(v[0], 1e-4 / std::sqrt(1e-8 + 1.1920928955078125e-7), 1e-6);
  EXPECT_EQ(v[1], 0.0);
}

TEST(layer_scale, of_channels) {
  static_assert(LayerScale::sharding == LayerSharding::local);
  const N4 n{2, 3, 5, 19};
  check_weighted(LayerScale{3}, n,
                 [&](const Values& w, const Values& x) { return scaled(n, w, x); });
  const auto p = make_parameters<double>(LayerScale{4, 0.25}, "p");
  initialise(Space(), LayerScale{4, 0.25}, p, 1, 0);
  Space().fence();
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), p.weight);
  for (std::size_t c = 0; c < 4; ++c) EXPECT_EQ(host(c), 0.25);
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const Field x("x", mesh, n);
  EXPECT_THROW((LayerScale{4}.apply(Space(), p, x, x)), ArgumentError);
}

}  // namespace
}  // namespace shard::testing
