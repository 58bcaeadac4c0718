// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions against five plain loops: all boundaries, meshes, partitions with empty shards,
// layouts and value types.

#include "shard/layers/window/conv.hpp"

#include "layers/reference.hpp"
#include "layers/scoped_precision.hpp"
#include "shard/layers/impl/dot.hpp"

namespace shard::testing {
namespace {

template <class T>
constexpr double tolerance = std::is_same_v<T, float> ? 2e-5 : 1e-12;

struct Case {
  std::array<index_t, 4> n;
  index_t out, groups = 1;
  bool bitwise = false;  // forward values to the last bit
};

template <class T, class Layer, class B0, class B1, class Layout = Kokkos::LayoutRight>
void check(const Case& c) {
  using X = typename InputOf<T, Layer, B0, B1, 2, Layout>::type;
  using Y = OutputOf<T, 2, Layout>;
  Random random(seed());
  Layer layer{c.n[1], c.out};
  layer.groups = c.groups;
  const SerialConv serial{
      {Layer::window(0), Layer::window(1)}, c.groups, Surroundings::of<B0, B1>()};
  const bool in_16   = product_precision() == ProductPrecision::bfloat16;
  const auto rounded = [](std::vector<double> v) {
    for (double& x : v) x = static_cast<double>(static_cast<T>(x));
    return v;
  };
  const auto factors = [&](std::vector<double> v) {
    for (double& x : v) x = in_16 ? in_bfloat16(x) : x;
    return v;
  };
  World<4> x0         = random_world(c.n, random);
  x0.v                = rounded(x0.v);
  const auto w0       = rounded(random_values(
                       static_cast<std::size_t>(layer.parameter_shapes()[0].count()), random)),
             b0       = rounded(random_values(static_cast<std::size_t>(c.out), random));
  World<4> x_factors  = x0, dx0;
  x_factors.v         = factors(x0.v);
  const World<4> y0   = serial.apply<T>(x_factors, factors(w0), &b0, c.out);
  World<4> dy0        = random_world(y0.n, random);
  dy0.v               = rounded(dy0.v);
  World<4> dy_factors = dy0;
  dy_factors.v        = factors(dy0.v);
  std::vector<double> dw0, db0(b0.size(), 0.0);
  serial.pullback(x_factors, factors(w0), dy_factors, dx0, dw0);
  for (std::size_t o = 0; o < dy0.v.size(); ++o)
    db0[o / static_cast<std::size_t>(y0.n[2] * y0.n[3]) % b0.size()] += dy0.v[o];

  const Space space;
  const auto parameters = make_parameters<T>(layer, "p");
  set_values(parameters.weight, w0);
  set_values(parameters.bias, b0);
  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    const X x("x", mesh, some_partitions(c.n, shape, which, random));
    auto partitions = layer.output_partitions(x.partitions());
    const Y y("y", mesh, partitions), dy = y.like("dy");
    const X dx = x.like("dx");
    scatter(x, x0);
    layer.apply(space, parameters, y, x);
    EXPECT_LE(difference(y, y0), c.bitwise && computes_on_host ? 0.0 : tolerance<T>);
    scatter(dy, dy0);
    scatter(dx, World<4>(c.n));
    const auto gradients = make_parameters<T>(layer, "g");
    layer.pullback(space, parameters, gradients, dx, dy, x);
    EXPECT_LT(difference(dx, dx0), tolerance<T>);
    EXPECT_LT(difference(summed(gradients.weight, x), dw0), tolerance<T>);
    EXPECT_LT(difference(summed(gradients.bias, x), db0), tolerance<T>);
  });
}

TEST(conv, poles_folded_and_longitude_periodic) {
  using On      = PoleFold<3, Pole::on_row>;
  using Between = PoleFold<3, Pole::between_rows, Parity::odd>;
  check<double, Conv<Kernel<3, 3>, Padding<1, 1>>, On, Periodic>({{2, 3, 7, 8}, 4, 1, true});
  check<double, Conv<Kernel<3, 3>, Stride<2, 2>, Padding<1, 1>>, On, Periodic>(
      {{2, 3, 61, 12}, 2, 1, true});
  check<double, Conv<Kernel<5, 4>, Stride<2, 3>, Padding<2, low_high<1, 2>>>, Between, Periodic>(
      {{1, 2, 9, 10}, 3, 1, true});
  check<double, Conv<Kernel<3, 5>, Padding<4, 7>, Dilation<3, 2>>, On, Periodic>(
      {{1, 2, 7, 8}, 2, 1, true});
}

TEST(conv, other_boundaries) {
  check<double, Conv<Kernel<3, 3>, Padding<1, 1>>, Reflect, Reflect>({{2, 2, 7, 5}, 3, 1, true});
  check<double, Conv<Kernel<4, 5>, Stride<3, 2>, Padding<low_high<0, 3>, low_high<4, 1>>>,
        Symmetric, Clamp>({{1, 3, 11, 9}, 2, 1, true});
  check<double, Conv<Kernel<3, 3>, Padding<2, 2>, Dilation<2, 2>>, Sides<Reflect, Clamp>,
        Sides<Zero, Symmetric>>({{1, 2, 10, 13}, 2, 1, true});
  check<double, Conv<Kernel<1, 6>, Stride<4, 1>, Padding<0, 5>>, Zero, Periodic>(
      {{3, 1, 10, 5}, 2, 1, true});
}

TEST(conv, groups_layouts_and_value_types) {
  check<double, Conv<Kernel<3, 3>, Stride<1, 2>, Padding<1, 1>>, Reflect, Periodic>(
      {{2, 6, 8, 9}, 4, 2, true});
  check<float, Conv<Kernel<3, 3>, Padding<1, 1>>, Reflect, Periodic>({{2, 17, 9, 33}, 21, 1, true});
  check<float, Conv<Kernel<5, 5>, Stride<2, 2>, Padding<2, 2>>, Clamp, Periodic>(
      {{1, 70, 9, 12}, 67, 1, true});
  check<double, Conv<Kernel<3, 3>, Stride<2, 1>, Padding<1, 1>>, Reflect, Periodic,
        Kokkos::LayoutLeft>({{2, 3, 8, 9}, 5, 1, true});
}

/// The rows of table 1.4 (16 rows over 2 ranks unless said): those that the original gets right and
/// those that it gets wrong.
/// More than a panel of terms, several tiles in a work item, and enough rows to share packed
/// inputs.
TEST(conv, ManyChannelsAndTaps) {
  check<double, Conv<Kernel<1, 1>>, Zero, Zero>({{1, 140, 6, 37}, 90, 1, true});
  check<double, Conv<Kernel<3, 3>, Padding<1, 1>>, Zero, Periodic>({{1, 17, 6, 75}, 70, 1, true});
  check<double, Conv<Kernel<12, 12>, Stride<4, 4>, Padding<4, 4>>, Zero, Periodic>(
      {{1, 2, 24, 60}, 5, 1, true});
  check<float, Conv<Kernel<4, 4>, Stride<4, 4>>, Zero, Zero>({{1, 3, 12, 100}, 70, 1, true});
}

// Factors are rounded to bfloat16, products and sums are float.
TEST(conv, Bfloat16OnHosts) {
  if constexpr (computes_on_host)
    with_bfloat16_tiles([] {
      check<float, Conv<Kernel<3, 3>, Padding<1, 1>>, Reflect, Periodic>({{2, 17, 9, 33}, 21});
      check<float, Conv<Kernel<5, 4>, Stride<2, 3>, Padding<2, low_high<1, 2>>>, Zero, Periodic>(
          {{1, 40, 9, 12}, 34, 2});
      check<float, Conv<Kernel<1, 1>>, Zero, Zero>({{2, 140, 6, 37}, 18});
      check<float, Conv<Kernel<3, 3>, Padding<2, 2>, Dilation<2, 2>>, Zero, Periodic,
            Kokkos::LayoutLeft>({{1, 16, 10, 13}, 16});
    });
}

template <int K, int S, int P, int D = 1, class B = Zero>
void check_row(index_t rows = 16) {
  SCOPED_TRACE("kernel " + std::to_string(K) + ", stride " + std::to_string(S) + ", padding " +
               std::to_string(P) + ", dilation " + std::to_string(D));
  check<double, Conv<Kernel<K, 3>, Stride<S, 1>, Padding<P, 1>, Dilation<D, 1>>, B, B>(
      {{1, 2, rows, 16}, 2});
}

TEST(conv, rows_of_table_1_4) {
  check_row<3, 1, 1>();
  check_row<5, 1, 2>();
  check_row<7, 1, 3>();
  check_row<9, 1, 4>(8);
  check_row<4, 2, 1>();
  check_row<8, 2, 3>(32);
  check_row<5, 3, 1>(24);
  check_row<2, 2, 0>();
  check_row<4, 4, 0>();
  check_row<3, 3, 0>();
  check_row<1, 2, 0>();
  check_row<3, 2, 1>();
  check_row<3, 1, 0>();
  check_row<3, 1, 2>();
  check_row<4, 1, 1>();
  check_row<4, 1, 2>();
  check_row<2, 1, 0>();
  check_row<2, 1, 1>();
  check_row<3, 1, 2, 2>();
  check_row<3, 1, 1, 2>();
  check_row<3, 2, 0>();
  check_row<5, 2, 2>();
  check_row<7, 2, 3>();
  check_row<7, 4, 3>(32);
  check_row<4, 2, 0>();
  check_row<4, 2, 2>();
  check_row<4, 2, 1>(12);
  check_row<3, 1, 1, 1, Periodic>();
  check_row<3, 1, 1, 1, Reflect>();
}

/// An output partition that isn't the natural one is served where the halo is wide enough, and
/// refused on every rank where not.
TEST(conv, other_output_partitions) {
  using Layer = Conv<Kernel<3>, Stride<2>, Padding<1>>;
  using Wide  = ShardedView<double***, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<20>>>;
  using Tight =
      ShardedView<double***, Kokkos::LayoutRight, ShardDim<2, Lat, required_halo_t<Layer, 0>>>;
  using Y = OutputOf<double, 1>;
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const Space space;
  const Layer layer{2, 3};
  Random random(seed());
  const auto parameters = make_parameters<double>(layer, "p");
  initialise(space, layer, parameters, 7, 0);
  const World<3> x0 = random_world<3>({1, 2, 19}, random);
  const Wide x("x", mesh, {1, 2, 19});
  scatter(x, x0);
  auto partitions = layer.output_partitions(x.partitions());
  const Y natural("natural", mesh, partitions);
  layer.apply(space, parameters, natural, x);
  World<3> y0({1, 3, 10});
  for_owned(on_host(natural), [&](const auto& i, double v) { y0.v[y0.at(i)] = v; });
  MPI_Allreduce(MPI_IN_PLACE, y0.v.data(), 30, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  partitions[2] = random_partition(10, world_size(), random);
  const Y other("other", mesh, partitions);
  layer.apply(space, parameters, other, x);
  EXPECT_EQ(difference(other, y0), 0.0);
  if (world_size() > 1) {
    std::vector<index_t> all_on_last(static_cast<std::size_t>(world_size()) + 1, 0);
    all_on_last.back() = 10;
    partitions[2]      = Partition::explicit_begins(all_on_last);
    const Y last("last", mesh, partitions);
    const Tight tight("x", mesh, {1, 2, 19});
    EXPECT_THROW(layer.apply(space, parameters, last, tight), ArgumentError);
  }
}

TEST(conv, what_does_not_fit_throws_on_every_rank) {
  using Layer = Conv<Kernel<3, 3>, Padding<1, 1>>;
  using X     = typename InputOf<double, Layer, Zero, Zero, 2>::type;
  using Y     = OutputOf<double, 2>;
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const Space space;
  const X x("x", mesh, {2, 4, 9, 8});
  const Layer layer{4, 6};
  const auto parameters = make_parameters<double>(layer, "p");
  EXPECT_THROW(layer.apply(space, parameters, Y("y", mesh, {2, 5, 9, 8}), x), ArgumentError);
  EXPECT_THROW(layer.apply(space, parameters, Y("y", mesh, {2, 6, 8, 8}), x), ArgumentError);
  EXPECT_THROW(layer.apply(space, parameters, Y("y", mesh, {1, 6, 9, 8}), x), ArgumentError);
  EXPECT_THROW((Layer{3, 6}.apply(space, parameters, Y("y", mesh, {2, 6, 9, 8}), x)),
               ArgumentError);
  EXPECT_THROW((Layer{4, 6, 3}.apply(space, parameters, Y("y", mesh, {2, 6, 9, 8}), x)),
               ArgumentError);
  try {
    layer.apply(space, parameters, Y("y", mesh, {2, 6, 8, 8}), x);
  } catch (const ArgumentError& e) {
    EXPECT_NE(std::string(e.what()).find("9"), std::string::npos) << e.what();
  }
}

/// <A x, y> = <x, A' y>
TEST(conv, transpose_by_dot_product) {
  using Layer = Conv<Kernel<5, 3>, Stride<2, 2>, Padding<2, 1>>;
  using X     = typename InputOf<double, Layer, PoleFold<3, Pole::on_row>, Periodic, 2>::type;
  using Y     = OutputOf<double, 2>;
  Random random(seed());
  const Space space;
  for (const auto& shape : shapes(world_size())) {
    const Grid mesh(MPI_COMM_WORLD, {shape[0], shape[1]});
    Layer layer{3, 5};
    layer.bias            = false;
    const auto parameters = make_parameters<double>(layer, "p");
    initialise(space, layer, parameters, 5, 1);
    const X x("x", mesh, some_partitions<4>({2, 3, 13, 10}, shape, 1, random));
    const X at_y = x.like("A' y");
    const Y ax("A x", mesh, layer.output_partitions(x.partitions()));
    const Y y = ax.like("y");
    scatter(x, random_world<4>({2, 3, 13, 10}, random));
    scatter(y, random_world<4>({2, 5, 7, 5}, random));
    layer.apply(space, parameters, ax, x);
    layer.pullback_input(space, parameters, at_y, y);
    const double left = dot(space, ax, y), right = dot(space, x, at_y);
    EXPECT_NEAR(left, right, 1e-12 * (std::abs(left) + 1.0));
  }
}

/// The batch cut over a mesh axis, beside a dimension in space: gradients of parameters sum over
/// both.
TEST(conv, batch_cut_too) {
  using Layer = Conv<Kernel<3>, Padding<1>>;
  using X     = ShardedView<double***, Kokkos::LayoutRight, ShardDim<0, Lat>,
                        ShardDim<2, Lon, Halo<1>, Periodic>>;
  Random random(seed());
  const Space space;
  const Layer layer{2, 3};
  const World<3> x0 = random_world<3>({4, 2, 9}, random), dy0 = random_world<3>({4, 3, 9}, random);
  const auto parameters = make_parameters<double>(layer, "p");
  initialise(space, layer, parameters, 9, 0);
  std::vector<double> first;
  for (int which = 0; which < 2; ++which) {
    // once as it comes, once all on one rank of each axis: the same sums
    for (const auto& shape : shapes(world_size())) {
      const Grid mesh(MPI_COMM_WORLD, {shape[0], shape[1]});
      std::array<Partition, 3> p{Partition::balanced(4, shape[0]), Partition::balanced(2, 1),
                                 Partition::balanced(9, shape[1])};
      if (which == 0) {
        std::vector<index_t> a(static_cast<std::size_t>(shape[0]) + 1, 4),
            b(static_cast<std::size_t>(shape[1]) + 1, 9);
        a[0] = b[0] = 0;
        p[0]        = Partition::explicit_begins(a);
        p[2]        = Partition::explicit_begins(b);
      }
      const X x("x", mesh, p);
      const X dx = x.like("dx"), dy("dy", mesh, layer.output_partitions(p)), y = dy.like("y");
      scatter(x, x0);
      scatter(dy, dy0);
      layer.apply(space, parameters, y, x);
      const auto gradients = make_parameters<double>(layer, "g");
      layer.pullback(space, parameters, gradients, dx, dy, x);
      const auto sum = summed(gradients.weight, x);
      if (first.empty()) first = sum;
      EXPECT_LT(difference(sum, first), 1e-12);
    }
  }
}

}  // namespace
}  // namespace shard::testing
