// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions cell by cell, softmax and dropout: values, tangents and gradients on every mesh.

#include "shard/layers/pointwise/activations.hpp"

#include <functional>

#include "layers/bits.hpp"
#include "layers/reference.hpp"
#include "shard/layers/pointwise/dropout.hpp"
#include "shard/layers/pointwise/softmax.hpp"
#include "shard/layers/pointwise/spatial_softmax.hpp"
#include "support/counting.hpp"

namespace shard::testing {
namespace {

using Field    = OutputOf<double, 2>;
using Function = std::function<double(double)>;

double normal(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double inner(double x) { return std::sqrt(2.0 / std::acos(-1.0)) * (x + 0.044715 * x * x * x); }

/// Calls use(layer, name, f, f') for every function.
template <class Use>
void for_activations(const Use& use) {
  use(
      ReLU{}, "ReLU", [](double x) { return x < 0.0 ? 0.0 : x; },
      [](double x) { return x <= 0.0 ? 0.0 : 1.0; });
  use(
      LeakyReLU{}, "LeakyReLU", [](double x) { return x > 0.0 ? x : 0.01 * x; },
      [](double x) { return x > 0.0 ? 1.0 : 0.01; });
  use(
      LeakyReLU{0.3}, "LeakyReLU 0.3", [](double x) { return x > 0.0 ? x : 0.3 * x; },
      [](double x) { return x > 0.0 ? 1.0 : 0.3; });
  use(
      SiLU{}, "SiLU", [](double x) { return x * sigmoid(x); },
      [](double x) { return sigmoid(x) * (1.0 + x * (1.0 - sigmoid(x))); });
  use(
      GELU{}, "GELU", [](double x) { return x * normal(x); },
      [](double x) {
        return normal(x) + x * std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::acos(-1.0));
      });
  use(
      GELU{GeluForm::fast}, "GELU fast", [](double x) { return x * normal(x); },
      [](double x) {
        return normal(x) + x * std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::acos(-1.0));
      });
  use(
      GELU{GeluForm::tanh}, "GELU tanh",
      [](double x) { return 0.5 * x * (1.0 + std::tanh(inner(x))); },
      [](double x) {
        const double t = std::tanh(inner(x));
        return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * std::sqrt(2.0 / std::acos(-1.0)) *
                                     (1.0 + 3.0 * 0.044715 * x * x);
      });
  use(
      Tanh{}, "Tanh", [](double x) { return std::tanh(x); },
      [](double x) { return 1.0 - std::pow(std::tanh(x), 2); });
  use(Sigmoid{}, "Sigmoid", sigmoid, [](double x) { return sigmoid(x) * (1.0 - sigmoid(x)); });
}

World<4> mapped(const World<4>& x, const Function& f) {
  World<4> y(x.n);
  for (std::size_t i = 0; i < x.v.size(); ++i) y.v[i] = f(x.v[i]);
  return y;
}
World<4> product(const World<4>& a, const World<4>& b) {
  World<4> y(a.n);
  for (std::size_t i = 0; i < a.v.size(); ++i) y.v[i] = a.v[i] * b.v[i];
  return y;
}

TEST(activations, values_tangents_and_gradients) {
  const std::array<index_t, 4> n{2, 3, 5, 19};
  Random random(seed());
  World<4> x0 = random_world(n, random);
  for (double& v : x0.v) v *= 4.0;
  x0.v[3]           = 0.0;
  const World<4> t0 = random_world(n, random);
  const Space space;
  on_meshes(n, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {
    const Haloed x("x", mesh, partitions), dx = x.like("dx");
    const Field y("y", mesh, partitions), t = y.like("t"), dy = y.like("dy");
    scatter(x, x0);
    for_activations([&](const auto& layer, const char* name, const Function& f, const Function& d) {
      SCOPED_TRACE(name);
      static_assert(std::remove_cvref_t<decltype(layer)>::sharding == LayerSharding::local);
      scatter(t, t0);
      layer.apply(space, y, x);
      EXPECT_LT(difference(y, mapped(x0, f)), 1e-14);
      const World<4> expected = product(t0, mapped(x0, d));
      layer.pushforward(space, y, t, x);
      EXPECT_LT(difference(y, expected), 1e-14);
      layer.pullback(space, dx, t, x);
      EXPECT_LT(difference(dx, expected), 1e-14);
      layer.pullback(space, t, t, x);  // in place
      EXPECT_LT(difference(t, expected), 1e-14);
      layer.pullback(space, not_wanted, t, x);
    });
  });
}

/// Channels and batch cut, 1 and 3 dimensions in space, LayoutLeft, float, const.
TEST(activations, any_field) {
  const Space space;
  Random random(seed());
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const std::array<index_t, 5> n{2, 7, 3, 2, 5};
  const auto x0 = random_world(n, random);
  using Channels =
      ShardedView<float*****, Kokkos::LayoutLeft, ShardDim<1, Lat>, ShardDim<4, Lon, Halo<1>>>;
  using Const = ShardedView<const float*****, Kokkos::LayoutLeft, ShardDim<1, Lat>,
                            ShardDim<4, Lon, Halo<1>>>;
  const Channels x("x", mesh, {2, 7, 3, 2, 5}), y = x.like("y");
  scatter(x, x0);
  auto y0 = x0;
  for (double& v : y0.v) v = std::tanh(v);
  Tanh{}.apply(space, y, Const(x));
  EXPECT_LT(difference(y, y0), 1e-6);

  using Batch   = ShardedView<double***, Kokkos::LayoutRight, ShardDim<0, Lat>>;
  const auto z0 = random_world(std::array<index_t, 3>{5, 2, 4}, random);
  const Batch z("z", mesh, {5, 2, 4});
  scatter(z, z0);
  auto w0 = z0;
  for (double& v : w0.v) v = v < 0.0 ? 0.0 : v;
  ReLU{}.apply(space, z, z);
  EXPECT_EQ(difference(z, w0), 0.0);

  const Channels other("other", mesh, {2, 6, 3, 2, 5});
  EXPECT_THROW(Tanh{}.apply(space, other, x), ArgumentError);
  if (world_size() > 1) {  // channels that other ranks own
    std::vector<index_t> begins(static_cast<std::size_t>(world_size()) + 1, 7);
    begins[0]                           = 0;
    const Partition whole               = Partition::explicit_begins(begins);
    std::array<Partition, 5> partitions = x.partitions();
    partitions[1]                       = whole;
    const Channels elsewhere("elsewhere", mesh, partitions);
    EXPECT_THROW(Tanh{}.apply(space, elsewhere, x), ArgumentError);
  }
}

/// The bits of the unsharded layer, and for those written with the standard library's functions of
/// the plain loop.
TEST(activations, bits_of_the_unsharded_layer) {
  const std::array<index_t, 4> n{1, 2, 9, 23};
  Random random(seed());
  World<4> x0 = random_world(n, random);
  for (double& v : x0.v) v *= 6.0;
  const Space space;
  const Grid alone(MPI_COMM_SELF, {1, 1});
  const Field whole("whole", alone, {1, 2, 9, 23}), f_whole = whole.like("f(whole)");
  scatter(whole, x0);
  on_meshes(n, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {
    const Haloed x("x", mesh, partitions);
    const Field y("y", mesh, partitions);
    scatter(x, x0);
    for_activations([&](const auto& layer, const char* name, const Function& f, const Function&) {
      SCOPED_TRACE(name);
      layer.apply(space, f_whole, whole);
      layer.apply(space, y, x);
      const auto serial = gathered(f_whole, MPI_COMM_SELF).v;
      EXPECT_EQ(different_bits(gathered(y, MPI_COMM_WORLD).v, serial), 0);
      using Layer = std::remove_cvref_t<decltype(layer)>;
      if (computes_on_host && (std::is_same_v<Layer, ReLU> || std::is_same_v<Layer, LeakyReLU>)) {
        EXPECT_EQ(different_bits(serial, mapped(x0, f).v), 0);
      }
    });
  });
}

TEST(activations, far_out_and_not_a_number) {
  const double infinity = std::numeric_limits<double>::infinity();
  const Grid alone(MPI_COMM_SELF, {1, 1});
  const Space space;
  const OutputOf<double, 1> x("x", alone, {1, 1, 4}), y = x.like("y");
  World<3> x0({1, 1, 4});
  x0.v = {-1e200, 1e200, infinity, std::nan("")};
  scatter(x, x0);
  const auto values = [&](const auto& layer) {
    layer.apply(space, y, x);
    return gathered(y, MPI_COMM_SELF).v;
  };
  for (const auto& v : {values(ReLU{}), values(SiLU{}), values(GELU{}),
                        values(GELU{GeluForm::tanh}), values(LeakyReLU{0.0})}) {
    EXPECT_NEAR(v[0], 0.0, 1e-100);
    EXPECT_EQ(v[1], 1e200);
    EXPECT_EQ(v[2], infinity);
    EXPECT_TRUE(std::isnan(v[3]));
  }
  for (const auto& v : {values(Tanh{}), values(Sigmoid{})}) {
    EXPECT_EQ(v[1], 1.0);
    EXPECT_EQ(v[2], 1.0);
    EXPECT_TRUE(std::isnan(v[3]));
  }
}

TEST(softmax, over_channels) {
  const std::array<index_t, 4> n{2, 5, 7, 19};
  Random random(seed());
  World<4> x0 = random_world(n, random), y0(n), dx0(n);
  for (double& v : x0.v) v = 800.0 + 30.0 * v;  // whose exponentials overflow
  const World<4> dy0 = random_world(n, random);
  for (index_t e = 0; e < 2; ++e)
    for (index_t i = 0; i < 7 * 19; ++i) {
      const auto at = [&](index_t c) { return x0.at({e, c, i / 19, i % 19}); };
      double most = x0.v[at(0)], sum = 0.0, dot = 0.0;
      for (index_t c = 0; c < 5; ++c) most = std::max(most, x0.v[at(c)]);
      for (index_t c = 0; c < 5; ++c) sum += std::exp(x0.v[at(c)] - most);
      for (index_t c = 0; c < 5; ++c) {
        y0.v[at(c)] = std::exp(x0.v[at(c)] - most) / sum;
        dot += y0.v[at(c)] * dy0.v[at(c)];
      }
      for (index_t c = 0; c < 5; ++c) dx0.v[at(c)] = y0.v[at(c)] * (dy0.v[at(c)] - dot);
    }
  const Space space;
  on_meshes(n, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {
    const Haloed x("x", mesh, partitions);
    const Field y("y", mesh, partitions), t = y.like("t");
    scatter(x, x0);
    scatter(t, dy0);
    Softmax{}.apply(space, y, x);
    EXPECT_LT(difference(y, y0), 1e-14);
    Softmax{}.pushforward(space, y, t, x);
    EXPECT_LT(difference(y, dx0), 1e-14);
    Softmax{}.pullback(space, t, t, x);  // in place
    EXPECT_LT(difference(t, dx0), 1e-14);
    Softmax{}.pullback(space, not_wanted, t, x);
    Softmax{}.apply(space, x, x);
    EXPECT_LT(difference(x, y0), 1e-14);
  });
}

/// Along dimension D in space of [2, 2, 5, 6].
template <int D>
void check_spatial_softmax() {
  const std::array<index_t, 4> n{2, 2, 5, 6};
  constexpr index_t length = D == 0 ? 5 : 6, others = 30 / length;
  Random random(seed());
  World<4> x0 = random_world(n, random), y0(n), dx0(n);
  for (double& v : x0.v) v = -900.0 + 40.0 * v;
  for (std::size_t i = 0; i < 17; ++i) x0.v[7 * i] = -std::numeric_limits<double>::infinity();
  const World<4> dy0 = random_world(n, random);
  for (index_t e = 0; e < 4; ++e)
    for (index_t o = 0; o < others; ++o) {
      const auto at = [&](index_t i) {
        return D == 0 ? x0.at({e / 2, e % 2, i, o}) : x0.at({e / 2, e % 2, o, i});
      };
      double most = x0.v[at(0)], sum = 0.0, dot = 0.0;
      for (index_t i = 0; i < length; ++i) most = std::max(most, x0.v[at(i)]);
      for (index_t i = 0; i < length; ++i) sum += std::exp(x0.v[at(i)] - most);
      for (index_t i = 0; i < length; ++i) {
        y0.v[at(i)] = std::exp(x0.v[at(i)] - most) / sum;
        dot += y0.v[at(i)] * dy0.v[at(i)];
      }
      for (index_t i = 0; i < length; ++i) dx0.v[at(i)] = y0.v[at(i)] * (dy0.v[at(i)] - dot);
    }
  const Space space;
  const SpatialSoftmax<D> layer;
  static_assert(layer.sharding == LayerSharding::collective);
  on_meshes(n, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {
    const Haloed x("x", mesh, partitions);
    const Field y("y", mesh, partitions), t = y.like("t");
    scatter(x, x0);
    scatter(t, dy0);
    auto state             = layer.state(x);
    const int parts        = D == 0 ? mesh.template size<Lat>() : mesh.template size<Lon>();
    const std::int64_t one = parts > 1 ? 1 : 0;
    const auto collectives = [&](const auto& what) {
      const Counts counted = count(what);
      EXPECT_EQ(counted.allocations, 0) << counted;
      return counted.collectives;
    };
    EXPECT_EQ(collectives([&] { layer.apply(space, state, y, x); }), one);
    EXPECT_LT(difference(y, y0), 1e-12);
    EXPECT_EQ(collectives([&] { layer.pushforward(space, state, y, t, x); }), one);
    EXPECT_LT(difference(y, dx0), 1e-12);
    EXPECT_EQ(collectives([&] { layer.pullback(space, state, not_wanted, t, x); }), 0);
    EXPECT_EQ(collectives([&] { layer.pullback(space, state, t, t, x); }), one);  // in place
    EXPECT_LT(difference(t, dx0), 1e-12);
    layer.apply(space, state, x, x);
    EXPECT_LT(difference(x, y0), 1e-12);
  });
}

TEST(softmax, along_a_cut_dimension) {
  check_spatial_softmax<0>();
  check_spatial_softmax<1>();
}

/// What a dropout keeps, from the global index.
World<4> dropped(const World<4>& x, double p, std::uint64_t mask_seed, std::uint64_t step) {
  World<4> y(x.n);
  for (std::size_t i = 0; i < x.v.size(); ++i)
    y.v[i] = impl::counter_uniform(mask_seed, step, i) >= p ? x.v[i] * (1.0 / (1.0 - p)) : 0.0;
  return y;
}

TEST(dropout, the_same_mask_for_every_mesh) {
  const std::array<index_t, 4> n{3, 4, 11, 13};
  Random random(seed());
  World<4> x0        = random_world(n, random);
  const World<4> dy0 = random_world(n, random);
  const Space space;
  const Dropout layer{0.3, 77};
  EXPECT_EQ(layer.sharding, LayerSharding::local);
  on_meshes(n, [&](const Grid& mesh, const std::array<Partition, 4>& partitions) {
    const Haloed x("x", mesh, partitions);
    const Field y("y", mesh, partitions), dy = y.like("dy"), dx = y.like("dx");
    scatter(x, x0);
    scatter(dy, dy0);
    auto state = layer.state(x);
    World<4> first;
    for (std::uint64_t step : {1u, 2u, 3u}) {
      layer.apply(space, state, y, x);
      EXPECT_EQ(state.step, step);
      const World<4> expected = dropped(x0, 0.3, 77, step);
      EXPECT_EQ(difference(y, expected), 0.0);
      layer.pullback(space, state, dx, dy, x);
      EXPECT_EQ(difference(dx, dropped(dy0, 0.3, 77, step)), 0.0);
      layer.pushforward(space, state, dx, dy, x);
      EXPECT_EQ(difference(dx, dropped(dy0, 0.3, 77, step)), 0.0);
      if (step == 1)
        first = expected;
      else
        EXPECT_NE(expected.v, first.v);
    }
    layer.pullback(space, state, not_wanted, dy, x);
  });
  index_t zeros = 0;
  for (double v : dropped(x0, 0.3, 77, 1).v) zeros += v == 0.0;
  EXPECT_NEAR(static_cast<double>(zeros) / static_cast<double>(x0.v.size()), 0.3, 0.05);
}

TEST(dropout, batch_and_channels_cut) {
  using X = ShardedView<double***, Kokkos::LayoutLeft, ShardDim<0, Lat>, ShardDim<1, Lon>>;
  Random random(seed());
  World<4> x0 = random_world(std::array<index_t, 4>{5, 7, 1, 3}, random);
  World<3> x3({5, 7, 3}), y3({5, 7, 3});
  x3.v = x0.v;
  y3.v = dropped(x0, 0.5, 0, 1).v;
  for (const auto& shape : shapes(world_size())) {
    const Grid mesh(MPI_COMM_WORLD, {shape[0], shape[1]});
    const X x("x", mesh, {5, 7, 3});
    scatter(x, x3);
    Dropout::State state;
    Dropout{}.apply(Space(), state, x, x);
    EXPECT_EQ(difference(x, y3), 0.0);
  }
}

TEST(dropout, nothing_all_and_evaluation) {
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  Random random(seed());
  const World<4> x0 = random_world(std::array<index_t, 4>{1, 2, 9, 5}, random);
  const Field x("x", mesh, {1, 2, 9, 5}), y = x.like("y");
  scatter(x, x0);
  Dropout::State state;
  const Space space;
  Dropout{0.0}.apply(space, state, y, x);
  EXPECT_EQ(difference(y, x0), 0.0);
  Dropout{1.0}.apply(space, state, y, x);
  EXPECT_EQ(difference(y, World<4>(x0.n)), 0.0);
  EXPECT_EQ(state.step, 2u);
  Dropout{0.9, 0, false}.apply(space, state, y, x);
  EXPECT_EQ(difference(y, x0), 0.0);
  EXPECT_EQ(state.step, 2u);
  Dropout{0.9, 0, false}.pullback(space, state, y, x, x);
  EXPECT_EQ(difference(y, x0), 0.0);
  for (double p : {-0.1, 1.5, std::nan("")})
    EXPECT_THROW(Dropout{p}.apply(space, state, y, x), ArgumentError);
}

}  // namespace
}  // namespace shard::testing
