// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// ElementwiseLayerNorm against plain loops, with the derivatives of mean and variance written out:
// any cut, parameters as fields and as Views of the world.

#include "shard/layers/norm/elementwise_layer_norm.hpp"

#include "layers/bits.hpp"
#include "layers/cut_anywhere.hpp"
#include "layers/reference.hpp"
#include "shard/layers/norm/instance_norm.hpp"
#include "support/counting.hpp"

namespace shard::testing {
namespace {

using Layer = ElementwiseLayerNorm<2>;

/// PyTorch's LayerNorm([C, H, W]) on the whole world.
struct Plain {
  std::array<index_t, 4> n;
  World<4> x, dy, tx, y, dx, ty, ty_of_x, ty_of_parameters;
  World<3> w, b, tw, tb, dw, db;

  Plain(const std::array<index_t, 4>& extents, double eps, Random& random)
      : n(extents),
        x(random_world(n, random)),
        dy(random_world(n, random)),
        tx(random_world(n, random)) {
    for (World<3>* p : {&w, &b, &tw, &tb})
      *p = random_world(std::array<index_t, 3>{n[1], n[2], n[3]}, random);
    for (double& v : x.v) v += 3.0;
    run(eps);
  }

  void run(double eps) {
    y = dx = ty = ty_of_x = ty_of_parameters = World<4>(n);
    dw = db                 = World<3>(w.n);
    const std::size_t cells = w.v.size();
    const auto count        = static_cast<double>(cells);
    for (std::size_t e = 0; e < static_cast<std::size_t>(n[0]); ++e) {
      const auto at = [&](std::size_t i) { return e * cells + i; };
      double mean = 0.0, variance = 0.0, t_mean = 0.0, t_variance = 0.0;
      double d_mean = 0.0, d_variance = 0.0;
      for (std::size_t i = 0; i < cells; ++i) mean += x.v[at(i)] / count;
      for (std::size_t i = 0; i < cells; ++i) {
        variance += std::pow(x.v[at(i)] - mean, 2) / count;
        t_mean += tx.v[at(i)] / count;
      }
      const double rstd = 1.0 / std::sqrt(variance + eps), cube = std::pow(rstd, 3);
      for (std::size_t i = 0; i < cells; ++i) {
        const double d = x.v[at(i)] - mean, g = dy.v[at(i)];
        y.v[at(i)] = d * rstd * w.v[i] + b.v[i];
        dw.v[i] += d * rstd * g;
        db.v[i] += g;
        t_variance += 2.0 * d * (tx.v[at(i)] - t_mean) / count;
        d_mean -= g * w.v[i] * rstd;
        d_variance -= 0.5 * g * w.v[i] * d * cube;
      }
      for (std::size_t i = 0; i < cells; ++i) {
        const double d   = x.v[at(i)] - mean;
        ty_of_x.v[at(i)] = w.v[i] * ((tx.v[at(i)] - t_mean) * rstd - 0.5 * d * cube * t_variance);
        ty_of_parameters.v[at(i)] = tw.v[i] * d * rstd + tb.v[i];
        ty.v[at(i)]               = ty_of_x.v[at(i)] + ty_of_parameters.v[at(i)];
        dx.v[at(i)] = dy.v[at(i)] * w.v[i] * rstd + (d_mean + 2.0 * d * d_variance) / count;
      }
    }
  }
};

/// Everything of the layer on fields X, whose batch, channels and cells may be cut.
template <class X>
void check(const std::array<index_t, 4>& n) {
  const Space space;
  Random random(seed());
  const Plain plain(n, 1e-4, random);
  const Layer layer{{n[1], n[2], n[3]}, 1e-4};
  on_all_cuts<X>(n, {1, 1, 1, 1}, [&](const Grid& mesh, const auto& partitions) {
    const X x("x", mesh, partitions), y = x.like("y"), dy = x.like("dy"), t = x.like("t"),
                                      dx = x.like("dx");
    auto state                           = layer.state(x);
    auto parameters = layer.parameters(mesh, x, "p"), tangents = layer.parameters(mesh, x, "t");
    auto gradients = layer.gradients(mesh, x, "g");
    EXPECT_EQ(difference(parameters.weight,
                         [&] {
                           World<3> ones(plain.w.n);
                           for (double& v : ones.v) v = 1.0;
                           return ones;
                         }()),
              0.0);
    scatter(parameters.weight, plain.w);
    scatter(parameters.bias, plain.b);
    scatter(tangents.weight, plain.tw);
    scatter(tangents.bias, plain.tb);
    scatter(x, plain.x);
    scatter(dy, plain.dy);
    scatter(t, plain.tx);

    layer.apply(space, state, parameters, y, x);
    EXPECT_LT(difference(y, plain.y), 1e-12);
    layer.pullback(space, state, parameters, gradients, dx, dy, x);
    EXPECT_LT(difference(dx, plain.dx), 1e-12);
    using Summed = elementwise_parameter_t<X>;
    EXPECT_LT(difference(redistribute<Summed>(space, gradients.weight), plain.dw), 1e-12);
    EXPECT_LT(difference(redistribute<Summed>(space, gradients.bias), plain.db), 1e-12);
    layer.pushforward(space, state, parameters, tangents, y, t, x);
    EXPECT_LT(difference(y, plain.ty), 1e-12);
    layer.pushforward(space, state, parameters, not_wanted, y, t, x);
    EXPECT_LT(difference(y, plain.ty_of_x), 1e-12);
    layer.pushforward(space, state, parameters, tangents, y, not_wanted, x);
    EXPECT_LT(difference(y, plain.ty_of_parameters), 1e-12);

    // the same parameters as Views of the world on every rank
    const auto views  = make_parameters<double>(layer, "p"),
               slopes = make_parameters<double>(layer, "t"),
               sums   = make_parameters<double>(layer, "g");
    set_values(views.weight, plain.w.v);
    set_values(views.bias, plain.b.v);
    set_values(slopes.weight, plain.tw.v);
    set_values(slopes.bias, plain.tb.v);
    layer.apply(space, state, views, y, x);
    EXPECT_LT(difference(y, plain.y), 1e-12);
    layer.pushforward(space, state, views, slopes, y, t, x);
    EXPECT_LT(difference(y, plain.ty), 1e-12);
    layer.pullback_parameters(space, state, sums, dy, x);
    layer.pullback_parameters(space, state, sums, dy, x);  // adds
    layer.pullback_input(space, state, views, dy, dy, x);  // in place
    EXPECT_LT(difference(dy, plain.dx), 1e-12);
    std::vector<double> twice = plain.dw.v;
    for (double& v : twice) v *= 2.0;
    EXPECT_LT(difference(summed(sums.weight, x), twice), 1e-12);
  });
}

TEST(elementwise_norm, space_cut) {
  using X = ShardedView<double****, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<1>>,
                        ShardDim<3, Lon, Halo<2, 1>, Periodic>>;
  using W = ShardedView<double***, Kokkos::LayoutRight, ShardDim<1, Lat>, ShardDim<2, Lon>>;
  static_assert(std::is_same_v<elementwise_parameter_t<X>, W>);
  static_assert(std::is_same_v<elementwise_gradient_t<X>, W>);
  static_assert(Layer::sharding == LayerSharding::collective);
  check<X>({2, 3, 7, 19});
}

TEST(elementwise_norm, channels_and_batch_cut) {
  check<ShardedView<double****, Kokkos::LayoutRight, ShardDim<1, Lat>, ShardDim<3, Lon, Halo<1>>>>(
      {2, 5, 3, 6});
  using X = ShardedView<double****, Kokkos::LayoutLeft, ShardDim<0, Lat>, ShardDim<2, Lon>>;
  using G = ShardedView<double***, Kokkos::LayoutRight, ShardDim<1, Lon>, Partial<Lat, Sum>>;
  static_assert(std::is_same_v<elementwise_gradient_t<X>, G>);
  check<X>({5, 2, 6, 3});
}

/// One rank has the bits of a SpatialLayerNorm without weights, times the weight, plus the bias.
TEST(elementwise_norm, bits_and_no_weights) {
  using X = OutputOf<double, 2>;
  const Grid alone(MPI_COMM_SELF, {1, 1});
  const std::array<index_t, 4> n{2, 3, 5, 37};
  Random random(seed());
  const Plain plain(n, 1e-5, random);
  const X x("x", alone, {2, 3, 5, 37}), y = x.like("y"), hat = x.like("xhat");
  scatter(x, plain.x);
  Layer layer{{3, 5, 37}};
  const SpatialLayerNorm bare{3, 1e-5, false};
  const auto parameters = layer.parameters(alone, x, "p");
  scatter(parameters.weight, plain.w);
  scatter(parameters.bias, plain.b);
  auto state = layer.state(x), other = bare.state(x);
  const auto nothing = make_parameters<double>(bare, "none");
  layer.apply(Space(), state, parameters, y, x);
  bare.apply(Space(), other, nothing, hat, x);
  World<4> expected = gathered(hat, MPI_COMM_SELF);
  for (std::size_t i = 0; i < expected.v.size(); ++i) {
    volatile double product = expected.v[i] * plain.w.v[i % plain.w.v.size()];
    expected.v[i]           = product + plain.b.v[i % plain.b.v.size()];
  }
  EXPECT_EQ(different_bits(gathered(y, MPI_COMM_SELF).v, expected.v), 0);

  layer.affine = false;
  EXPECT_TRUE(layer.parameter_shapes().empty());
  const X t = x.like("t"), u = x.like("u");
  scatter(t, plain.tx);
  layer.apply(Space(), state, not_wanted, y, x);
  EXPECT_EQ(different_bits(gathered(y, MPI_COMM_SELF).v, gathered(hat, MPI_COMM_SELF).v), 0);
  layer.pullback(Space(), state, not_wanted, not_wanted, y, t, x);
  bare.pullback(Space(), other, nothing, not_wanted, u, t, x);
  EXPECT_EQ(different_bits(gathered(y, MPI_COMM_SELF).v, gathered(u, MPI_COMM_SELF).v), 0);
  layer.pushforward(Space(), state, not_wanted, not_wanted, y, t, x);
  bare.pushforward(Space(), other, nothing, not_wanted, u, t, x);
  EXPECT_EQ(different_bits(gathered(y, MPI_COMM_SELF).v, gathered(u, MPI_COMM_SELF).v), 0);
}

/// In a model the parameters are Views of the world's, named and shaped as PyTorch has them; the
/// sum of the ranks' gradients is the serial one.
TEST(elementwise_norm, in_a_model) {
  const std::array<index_t, 4> n{2, 3, 6, 5};
  Random random(seed());
  const Plain plain(n, 1e-5, random);
  const auto model = sequential<double>(Layer{{3, 6, 5}});
  set_values(model.get<0>().weight(), plain.w.v);
  set_values(model.get<0>().bias(), plain.b.v);
  for (const auto& shape : shapes(world_size())) {
    const Grid mesh(MPI_COMM_WORLD, {shape[0], shape[1]});
    auto sharded = domain_parallel<Lat, Lon>(model, mesh);
    auto x       = sharded.input("x", {2, 3, 6, 5});
    auto dx      = x.like("dx");
    scatter(x, plain.x);
    const auto& y = sharded(Space(), x);
    EXPECT_LT(difference(y, plain.y), 1e-12);
    const auto dy = y.like("dy");
    scatter(dy, plain.dy);
    Kokkos::deep_copy(sharded.gradients().values(), 0.0);
    sharded.pullback(Space(), dx, dy, x);
    EXPECT_LT(difference(dx, plain.dx), 1e-12);
    std::vector<double> both = plain.dw.v;
    both.insert(both.end(), plain.db.v.begin(), plain.db.v.end());
    EXPECT_LT(difference(summed(sharded.gradients().values(), x), both), 1e-12);
  }
}

/// One collective each way, none for what isn't wanted; nothing is allocated.
TEST(elementwise_norm, collectives_and_allocations) {
  using X = OutputOf<double, 2>;
  const Space space;
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const X x("x", mesh, {2, 3, 9, 5}), y = x.like("y"), dy = x.like("dy"), dx = x.like("dx");
  const Layer layer{{3, 9, 5}};
  auto state             = layer.state(x);
  const auto p           = layer.parameters(mesh, x, "p");
  const auto g           = layer.gradients(mesh, x, "g");
  const std::int64_t one = world_size() > 1 ? 1 : 0;
  const auto expect      = [&](std::int64_t collectives, const auto& what) {
    space.fence();
    const Counts counted = count(what);
    EXPECT_EQ(counted.collectives, collectives) << counted;
    EXPECT_EQ(counted.messages, 0) << counted;
    EXPECT_EQ(counted.allocations, 0) << counted;
  };
  expect(one, [&] { layer.apply(space, state, p, y, x); });
  expect(one, [&] { layer.pushforward(space, state, p, p, y, dy, x); });
  expect(0, [&] { layer.pushforward(space, state, p, p, y, not_wanted, x); });
  expect(one, [&] { layer.pullback(space, state, p, g, dx, dy, x); });
  expect(0, [&] { layer.pullback_parameters(space, state, g, dy, x); });
}

TEST(elementwise_norm, what_does_not_fit_throws_on_every_rank) {
  using X = OutputOf<double, 2>;
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1}), other(MPI_COMM_WORLD, {1, world_size()});
  const X x("x", mesh, {2, 3, 9, 5});
  const Layer layer{{3, 9, 5}};
  auto state   = layer.state(x);
  const auto p = layer.parameters(mesh, x, "p");
  EXPECT_THROW((Layer{{3, 9, 4}}.apply(Space(), state, p, x, x)), ArgumentError);
  EXPECT_THROW((Layer{{4, 9, 5}}.apply(Space(), state, p, x, x)), ArgumentError);
  const auto elsewhere = layer.parameters(other, X("x", other, {2, 3, 9, 5}), "p");
  EXPECT_THROW(layer.apply(Space(), state, elsewhere, x, x), ArgumentError);
  const auto smaller = layer.parameters(mesh, X("x", mesh, {2, 3, 8, 5}), "p");
  EXPECT_THROW(layer.apply(Space(), state, smaller, x, x), ArgumentError);
  const auto views = make_parameters<double>(Layer{{3, 9, 4}}, "p");
  EXPECT_THROW(layer.apply(Space(), state, views, x, x), ArgumentError);
}

}  // namespace
}  // namespace shard::testing
