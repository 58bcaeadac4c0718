// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ordered gradients of poolings and cross-scale embeddings: the bits of one rank on any number of
// ranks, mesh and partition.

#include "layers/bits.hpp"
#include "shard/layers/window/cross_embed.hpp"
#include "shard/layers/resampling/pool.hpp"

namespace shard::testing {
namespace {

template <class T, class Layer, class B0, class B1>
using Input =
    ShardedView<T****, Kokkos::LayoutRight, ShardDim<2, Lat, required_halo_t<Layer, 0>, B0>,
                ShardDim<3, Lon, required_halo_t<Layer, 1>, B1>>;
template <class T, class Layer>
using Gradient =
    ShardedView<T****, Kokkos::LayoutRight, ShardDim<2, Lat, ordered_halo_t<Layer, 0>, Clamp>,
                ShardDim<3, Lon, ordered_halo_t<Layer, 1>, Periodic>>;

/// What pulls dy back to dx by one of the orders, after apply to x.
template <class Layer>
struct Pull {
  Layer layer;

  template <Determinism Order, class X, class Y>
  void operator()(std::integral_constant<Determinism, Order>, const X& dx, const Y& dy,
                  const X& x) const {
    const Space space;
    if constexpr (requires { typename Layer::template Parameters<double>; }) {
      using T      = typename X::non_const_value_type;
      const auto p = make_parameters<T>(layer, "p");
      initialise(space, layer, p, 3, 0);
      layer.template pullback<Order>(space, p, not_wanted, dx, dy, x);
    } else if constexpr (requires { layer.ordered_state(x, dy); }) {
      const auto state = layer.ordered_state(x, dy);
      const Y y        = dy.like("y");
      layer.apply(space, state, y, x);
      layer.template pullback<Order>(space, state, dx, dy, x);
    } else {
      layer.template pullback<Order>(space, dx, dy, x);
    }
  }
};

template <class T, class B0, class B1, class Layer>
void check(const Layer& layer, const std::array<index_t, 4>& n, index_t out) {
  SCOPED_TRACE("seed " + std::to_string(seed()));
  using X = Input<T, Layer, B0, B1>;
  using Y = Gradient<T, Layer>;
  constexpr std::integral_constant<Determinism, Determinism::on_one_mesh> plain;
  constexpr std::integral_constant<Determinism, Determinism::ordered> ordered;
  const Pull<Layer> pull{layer};
  Random random(seed());
  const Grid alone(MPI_COMM_SELF, {1, 1});
  const X x_whole("x", alone, n), whole = x_whole.like("dx of one rank"),
                                  also = x_whole.like("the same, ordered");
  const Y dy_whole("dy", alone, layer.output_partitions(whole.partitions()));
  World<4> x0 = random_world(n, random);
  const World<4> dy0 =
      random_world<4>({n[0], out, dy_whole.global_extent(2), dy_whole.global_extent(3)}, random);
  for (double& v : x0.v) v = std::round(2.0 * v);  // of equal cells the first
  scatter(x_whole, x0);
  scatter(dy_whole, dy0);
  pull(plain, whole, dy_whole, x_whole);
  pull(ordered, also, dy_whole, x_whole);
  const World<4> expected = gathered(whole, MPI_COMM_SELF);
  EXPECT_EQ(different_bits(gathered(also, MPI_COMM_SELF).v, expected.v), 0) << "on one rank";
  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    const X x("x", mesh, some_partitions(n, shape, which, random)), dx = x.like("dx");
    const Y dy("dy", mesh, layer.output_partitions(x.partitions()));
    scatter(x, x0);
    scatter(dy, dy0);
    scatter(dx, World<4>(n));
    pull(ordered, dx, dy, x);
    EXPECT_EQ(different_bits(gathered(dx, MPI_COMM_WORLD).v, expected.v), 0);
    EXPECT_EQ(largest_in_halo(dx), 0.0);
  });
}

TEST(ordered, maxima) {
  check<double, Zero, Zero>(MaxPool<Kernel<3, 3>, Stride<1, 2>, Padding<1, 1>>{}, {2, 2, 9, 8}, 2);
  check<float, Reflect, Periodic>(
      MaxPool<Kernel<4, 2>, Stride<1, 1>, Padding<2, low_high<0, 1>>, Dilation<1, 3>, CeilMode>{},
      {1, 2, 9, 8}, 2);
}

TEST(ordered, means) {
  check<double, Clamp, Periodic>(AvgPool<Kernel<3, 4>, Stride<1, 2>, Padding<1, 2>>{}, {1, 2, 9, 8},
                                 2);
  check<double, Zero, Zero>(
      AvgPool<Kernel<5, 3>, Stride<2, 2>, Padding<2, 1>, CeilMode, ExcludePadding>{}, {1, 2, 10, 7},
      2);
}

TEST(ordered, cross_embeddings) {
  using Scales = CrossEmbed<Stride<2, 2>, Kernel<2, 4>, Kernel<6, 5>>;
  check<double, Zero, Zero>(Scales{3, {4, 2}}, {1, 3, 9, 8}, 6);
  check<double, Symmetric, Periodic>(Scales{2, {1, 3}}, {2, 2, 10, 8}, 4);
}

/// dy lies elsewhere than its halo reaches: every rank throws.
TEST(ordered, a_far_pooling_throws_on_every_rank) {
  if (world_size() == 1) GTEST_SKIP() << "one rank has it all";
  using Layer = AvgPool<Kernel<3, 3>, Stride<1, 1>, Padding<1, 1>>;
  using Wide  = ShardedView<double****, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<12>>,
                           ShardDim<3, Lon, Halo<12>>>;
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const Wide dx("dx", mesh, {1, 1, 12, 4});
  auto partitions = dx.partitions();
  std::vector<index_t> begins(static_cast<std::size_t>(world_size()) + 1, 0);
  begins.back() = 12;
  partitions[2] = Partition::explicit_begins(begins);
  const Gradient<double, Layer> dy("dy", mesh, partitions);
  EXPECT_THROW(Layer().pullback<Determinism::ordered>(Space(), dx, dy, dx), ArgumentError);
}

}  // namespace
}  // namespace shard::testing
