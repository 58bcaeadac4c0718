// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layers that go up and are made to meet a finer level: extents and begins of the skip, whatever
// they are, empty shards at the coarse level too.

#include "layers/reference.hpp"
#include "shard/layers/window/conv_transpose.hpp"
#include "shard/layers/impl/dot.hpp"
#include "shard/layers/resampling/interpolate.hpp"

namespace shard::testing {
namespace {

std::array<Partition, 4> coarse_partitions(const std::array<Partition, 4>& fine, index_t channels,
                                           index_t factor) {
  std::array<Partition, 4> p = fine;
  p[1]                       = Partition::balanced(channels, 1);
  for (std::size_t d = 2; d < 4; ++d)
    p[d] = fine[d].coarsened(factor, (fine[d].size() + factor - 1) / factor);
  return p;
}

template <class Body>
void on_fine_grids(const std::array<index_t, 2>& extents, const Body& body) {
  Random random(seed());
  on_shapes(4, [&](const Grid& mesh, const auto& shape, int which) {
    body(mesh, some_partitions<4>({2, 3, extents[0], extents[1]}, shape, which, random));
  });
}

template <class Layer, class B0, class B1>
void check_conv_transpose(const std::array<index_t, 2>& extents) {
  using X              = typename InputOf<double, Layer, B0, B1, 2>::type;
  using Y              = OutputOf<double, 2>;
  const index_t factor = Layer::window(0).stride;
  Random random(seed());
  const std::array<index_t, 4> nx{2, 4, (extents[0] + factor - 1) / factor,
                                  (extents[1] + factor - 1) / factor},
      ny{2, 3, extents[0], extents[1]};
  const SerialConvTranspose serial{{Layer::window(0), Layer::window(1)},
                                   Surroundings::of<B0, B1>()};
  const Layer layer{4, 3};
  const World<4> x0 = random_world(nx, random), dy0 = random_world(ny, random);
  const auto w0     = random_values(static_cast<std::size_t>(layer.parameter_shapes()[0].count()),
                                    random),
             b0     = random_values(3, random);
  const World<4> y0 = serial.apply<double>(x0, w0, b0, ny);
  World<4> dx0;
  std::vector<double> dw0;
  serial.pullback(x0, w0, dy0, dx0, dw0);
  const Space space;
  const auto parameters = make_parameters<double>(layer, "p");
  set_values(parameters.weight, w0);
  set_values(parameters.bias, b0);
  on_fine_grids(extents, [&](const Grid& mesh, const std::array<Partition, 4>& fine) {
    const X x("x", mesh, coarse_partitions(fine, 4, factor)), dx = x.like("dx");
    const Y y("y", mesh, fine), dy                               = y.like("dy");
    scatter(x, x0);
    layer.apply(space, parameters, y, x);
    EXPECT_EQ(difference(y, y0), 0.0);
    scatter(dy, dy0);
    scatter(dx, World<4>(nx));
    const auto gradients = make_parameters<double>(layer, "g");
    layer.pullback(space, parameters, gradients, dx, dy, x);
    EXPECT_LT(difference(dx, dx0), 1e-12);
    EXPECT_LT(difference(summed(gradients.weight, x), dw0), 1e-12);
  });
}

TEST(common_partition, conv_transpose) {
  using On = PoleFold<3, Pole::on_row>;
  for (const std::array<index_t, 2>& n : {std::array<index_t, 2>{61, 120}, {7, 8}, {8, 12}}) {
    SCOPED_TRACE(std::to_string(n[0]) + " x " + std::to_string(n[1]));
    check_conv_transpose<ConvTranspose<Kernel<3, 3>, Stride<2, 2>, Padding<1, 1>>, On, Periodic>(n);
    check_conv_transpose<ConvTranspose<Kernel<3, 3>, Stride<2, 2>, Padding<1, 1>>, Zero, Zero>(n);
    check_conv_transpose<ConvTranspose<Kernel<5, 5>, Stride<2, 2>, Padding<2, 2>>, Reflect,
                         Periodic>(n);
    check_conv_transpose<ConvTranspose<Kernel<2, 3>, Stride<2, 2>, Padding<2, 1>, Dilation<3, 1>>,
                         Zero, Periodic>(n);
  }
  check_conv_transpose<ConvTranspose<Kernel<5, 5>, Stride<3, 3>, Padding<2, 2>>, Zero, Clamp>(
      {61, 121});
  // Padding<1> gives one row too many for an odd extent: output paddings aren't negative
  using Four = ConvTranspose<Kernel<4, 4>, Stride<2, 2>, Padding<1, 1>>;
  check_conv_transpose<Four, Zero, Periodic>({8, 12});
  EXPECT_THROW((check_conv_transpose<Four, Zero, Periodic>({7, 8})), ArgumentError);
}

template <class Layer>
void check_interpolate(const std::array<index_t, 2>& extents) {
  using X                  = typename InputOf<double, Layer, Zero, Zero, 2>::type;
  using Y                  = OutputOf<double, 2>;
  constexpr index_t factor = Layer::factor;
  Random random(seed());
  const std::array<index_t, 4> nx{2, 3, (extents[0] + factor - 1) / factor,
                                  (extents[1] + factor - 1) / factor},
      ny{2, 3, extents[0], extents[1]};
  const World<4> x0 = random_world(nx, random), dy0 = random_world(ny, random);
  World<4> y0(ny), dx0(nx);
  const impl::InterpolatedDim rows{Layer::rule, Layer::align_corners, 0.0, nx[2], ny[2]},
      columns{Layer::rule, Layer::align_corners, 0.0, nx[3], ny[3]};
  for (index_t i = 0; i < ny[2]; ++i)
    for (index_t j = 0; j < ny[3]; ++j) {
      const IndexRange a = impl::interpolation_reads(&rows, {i, i + 1}),
                       b = impl::interpolation_reads(&columns, {j, j + 1});
      for (index_t p = a.begin; p < a.end; ++p)
        for (index_t q = b.begin; q < b.end; ++q) {
          const double w =
              impl::interpolation_share(rows, i, p) * impl::interpolation_share(columns, j, q);
          for (index_t n = 0; n < 2; ++n)
            for (index_t c = 0; c < 3; ++c) {
              y0.v[y0.at({n, c, i, j})] += w * x0.v[x0.at({n, c, p, q})];
              dx0.v[x0.at({n, c, p, q})] += w * dy0.v[y0.at({n, c, i, j})];
            }
        }
    }
  const Space space;
  const Layer layer;
  on_fine_grids(extents, [&](const Grid& mesh, const std::array<Partition, 4>& fine) {
    const X x("x", mesh, coarse_partitions(fine, 3, factor)), dx = x.like("dx");
    const Y y("y", mesh, fine), dy                               = y.like("dy");
    scatter(x, x0);
    layer.apply(space, y, x);
    EXPECT_LT(difference(y, y0), 1e-13);
    scatter(dy, dy0);
    scatter(dx, World<4>(nx));
    layer.pullback(space, dx, dy);
    EXPECT_LT(difference(dx, dx0), 1e-12);
    const double left = dot(space, y, dy), right = dot(space, x, dx);
    EXPECT_NEAR(left, right, 1e-12 * (std::abs(left) + 1.0));
  });
}

TEST(common_partition, interpolate) {
  for (const std::array<index_t, 2>& n : {std::array<index_t, 2>{61, 120}, {7, 8}, {1, 5}}) {
    SCOPED_TRACE(std::to_string(n[0]) + " x " + std::to_string(n[1]));
    check_interpolate<Interpolate<2, Meets<2>>>(n);
    check_interpolate<Interpolate<2, Linear, Meets<3>>>(n);
    check_interpolate<Interpolate<2, Meets<4>>>(n);
    check_interpolate<Interpolate<2, LinearCorners, Meets<2>>>(n);
    check_interpolate<Interpolate<2, Nearest, Meets<2>>>(n);
    check_interpolate<Interpolate<2, Bicubic, Meets<2>>>(n);
  }
}

/// A partition that the halo can't serve is refused, not computed wrongly.
TEST(common_partition, interpolate_elsewhere_throws) {
  if (world_size() == 1) return;
  using X = typename InputOf<double, Interpolate<1>, Zero, Zero, 1>::type;
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  std::vector<index_t> begins(static_cast<std::size_t>(world_size()) + 1, 0);
  begins.back() = 32;
  const X x("x", mesh, {1, 1, 16});
  const OutputOf<double, 1> y(
      "y", mesh,
      {Partition::balanced(1, 1), Partition::balanced(1, 1), Partition::explicit_begins(begins)});
  EXPECT_THROW(Interpolate<1>().apply(Space(), y, x), ArgumentError);
}

}  // namespace
}  // namespace shard::testing
