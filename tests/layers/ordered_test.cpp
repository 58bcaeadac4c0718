// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ordered gradients (T11): the bits of one rank on any number of ranks, mesh and partition, for
// every boundary. Each rank works out the answer of one rank for itself.

#include "layers/bits.hpp"
#include "layers/scoped_precision.hpp"
#include "shard/layers/window/conv.hpp"
#include "shard/layers/window/conv_transpose.hpp"
#include "shard/layers/impl/dot.hpp"
#include "shard/layers/resampling/interpolate.hpp"

namespace shard::testing {
namespace {

template <class H, int More>
using Wider = Halo<H::lo + More, H::hi + More>;

/// Fields of a layer: the input's halo wider than needed by `More`, the output's as an ordered
/// gradient needs it.
template <class T, class Layer, class B0, class B1, class Layout, int More>
struct Fields {
  using X = ShardedView<T****, Layout, ShardDim<2, Lat, Wider<required_halo_t<Layer, 0>, More>, B0>,
                        ShardDim<3, Lon, Wider<required_halo_t<Layer, 1>, More>, B1>>;
  using Y = ShardedView<T****, Layout, ShardDim<2, Lat, ordered_halo_t<Layer, 0>, Clamp>,
                        ShardDim<3, Lon, ordered_halo_t<Layer, 1>, Periodic>>;
};

template <class T, class Layer, class B0, class B1, class Layout = Kokkos::LayoutRight,
          int More = 0>
void check(const std::array<index_t, 4>& n, index_t out, index_t groups = 1) {
  using X = typename Fields<T, Layer, B0, B1, Layout, More>::X;
  using Y = typename Fields<T, Layer, B0, B1, Layout, More>::Y;
  const Space space;
  Random random(seed());
  Layer layer{n[1], out};
  layer.groups          = groups;
  layer.bias            = false;
  const auto parameters = make_parameters<T>(layer, "p");
  initialise(space, layer, parameters, 11, 0);

  const Grid alone(MPI_COMM_SELF, {1, 1});
  const X whole("dx of one rank", alone, n), also = whole.like("the same, ordered");
  const Y dy_whole("dy", alone, layer.output_partitions(whole.partitions()));
  const World<4> dy0 =
      random_world<4>({n[0], out, dy_whole.global_extent(2), dy_whole.global_extent(3)}, random);
  scatter(dy_whole, dy0);
  layer.pullback_input(space, parameters, whole, dy_whole);
  layer.template pullback_input<Determinism::ordered>(space, parameters, also, dy_whole);
  const World<4> expected = gathered(whole, MPI_COMM_SELF);
  EXPECT_EQ(different_bits(gathered(also, MPI_COMM_SELF).v, expected.v), 0) << "on one rank";

  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    const X x("x", mesh, some_partitions(n, shape, which, random));
    const X dx = x.like("dx"), ordered                                 = x.like("dx, ordered");
    const Y dy("dy", mesh, layer.output_partitions(x.partitions())), y = dy.like("y");
    scatter(dy, dy0);
    scatter(ordered, World<4>(n));  // its halo is set to numbers that show
    layer.template pullback_input<Determinism::ordered>(space, parameters, ordered, dy);
    EXPECT_EQ(different_bits(gathered(ordered, MPI_COMM_WORLD).v, expected.v), 0);
    layer.pullback_input(space, parameters, dx, dy);
    EXPECT_LT(difference(dx, expected), (std::is_same_v<T, float> ? 1e-5 : 1e-12));
    if constexpr (std::is_same_v<T, double>) {
      scatter(x, World<4>(n));
      layer.apply(space, parameters, y, x);
      const double constants = dot(space, y, dy);  // what the constant boundary adds
      scatter(x, random_world(n, random));
      layer.apply(space, parameters, y, x);
      const double left = dot(space, y, dy) - constants, right = dot(space, x, ordered);
      EXPECT_NEAR(left, right, 1e-12 * (std::abs(left) + 1.0));
    }
    EXPECT_EQ(largest_in_halo(ordered), 0.0);
  });
}

using On      = PoleFold<3, Pole::on_row>;
using OddOn   = PoleFold<3, Pole::on_row, Parity::odd>;
using Between = PoleFold<3, Pole::between_rows, Parity::odd>;
using Left    = Kokkos::LayoutLeft;
using Right   = Kokkos::LayoutRight;

TEST(ordered, T11_convolutions_across_the_poles) {
  check<double, Conv<Kernel<3, 3>, Padding<1, 1>>, OddOn, Periodic>({2, 3, 7, 8}, 4);
  check<double, Conv<Kernel<5, 4>, Stride<2, 3>, Padding<2, low_high<1, 2>>>, Between, Periodic,
        Left, 1>({1, 2, 9, 10}, 3);
  check<float, Conv<Kernel<3, 5>, Padding<4, 7>, Dilation<3, 2>>, On, Periodic>({1, 2, 7, 8}, 2);
}

TEST(ordered, T11_convolutions_with_other_boundaries) {
  check<double, Conv<Kernel<3, 3>, Stride<1, 2>, Padding<1, 1>>, Reflect, Periodic, Right, 1>(
      {2, 6, 8, 9}, 4, 2);
  check<double, Conv<Kernel<4, 5>, Stride<3, 2>, Padding<low_high<0, 3>, low_high<4, 1>>>,
        Symmetric, Clamp>({1, 3, 11, 9}, 2);
  check<double, Conv<Kernel<3, 3>, Padding<2, 2>, Dilation<2, 2>>, Sides<Reflect, Zero>,
        Sides<Constant<2>, Symmetric>, Right, 2>({1, 2, 10, 13}, 2);
}

TEST(ordered, T11_transposed_convolutions) {
  check<double, ConvTranspose<Kernel<4, 4>, Stride<2, 2>, Padding<1, 1>>, On, Periodic>(
      {1, 3, 5, 6}, 2);
  check<double, ConvTranspose<Kernel<5, 3>, Stride<2, 1>, Padding<3, 0>, Dilation<1, 3>>, Clamp,
        Zero, Left, 1>({2, 2, 7, 9}, 3);
}

/// The bits of one rank, forward too.
TEST(ordered, T11_Bfloat16OnHosts) {
  using Layer        = Conv<Kernel<3, 3>, Stride<1, 2>, Padding<1, 1>>;
  const auto forward = [] {
    using Of = Fields<float, Layer, Reflect, Periodic, Right, 0>;
    const Space space;
    Random random(seed());
    const std::array<index_t, 4> n{1, 18, 7, 60};
    const Layer layer{n[1], 20};
    const auto parameters = make_parameters<float>(layer, "p");
    initialise(space, layer, parameters, 11, 0);
    const World<4> x0 = random_world(n, random);
    const auto result = [&](const Of::X& x, const Grid& mesh, MPI_Comm comm) {
      const Of::Y y("y", mesh, layer.output_partitions(x.partitions()));
      scatter(x, x0);
      layer.apply(space, parameters, y, x);
      return gathered(y, comm).v;
    };
    const Grid alone(MPI_COMM_SELF, {1, 1});
    const auto expected = result(Of::X("x", alone, n), alone, MPI_COMM_SELF);
    on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
      const Of::X x("x", mesh, some_partitions(n, shape, which, random));
      EXPECT_EQ(different_bits(result(x, mesh, MPI_COMM_WORLD), expected), 0);
    });
  };
  if constexpr (computes_on_host)
    with_bfloat16_tiles([&] {
      forward();
      check<float, Layer, Reflect, Periodic>({1, 18, 7, 60}, 20);
      check<float, ConvTranspose<Kernel<4, 4>, Stride<2, 2>, Padding<1, 1>>, On, Periodic>(
          {1, 18, 5, 26}, 17);
    });
}

/// From 5 x 6 cells to `m`; dy's halo is `H`.
template <class Layer, class H>
void check_interpolation(const std::array<index_t, 2>& m) {
  using X = ShardedView<double****, Right, ShardDim<2, Lat, Halo<1, 2>, Reflect>,
                        ShardDim<3, Lon, Halo<1, 2>, Periodic>>;
  using Y = ShardedView<double****, Right, ShardDim<2, Lat, H>, ShardDim<3, Lon, H>>;
  const Space space;
  const Layer layer;
  Random random(seed());
  const std::array<index_t, 4> n{2, 3, 5, 6};
  const World<4> dy0 = random_world<4>({2, 3, m[0], m[1]}, random);
  const Grid alone(MPI_COMM_SELF, {1, 1});
  const X whole("dx of one rank", alone, n);
  const Y dy_whole("dy", alone, layer.output_partitions(whole.partitions(), m));
  scatter(dy_whole, dy0);
  layer.pullback(space, whole, dy_whole);
  const World<4> expected = gathered(whole, MPI_COMM_SELF);
  on_shapes(3, [&](const Grid& mesh, const auto& shape, int which) {
    const X ordered("dx, ordered", mesh, some_partitions(n, shape, which, random));
    const Y dy("dy", mesh, layer.output_partitions(ordered.partitions(), m));
    scatter(dy, dy0);
    scatter(ordered, World<4>(n));
    layer.template pullback<Determinism::ordered>(space, ordered, dy);
    EXPECT_EQ(different_bits(gathered(ordered, MPI_COMM_WORLD).v, expected.v), 0);
    EXPECT_EQ(largest_in_halo(ordered), 0.0);
  });
}

TEST(ordered, T11_interpolation) {
  check_interpolation<Interpolate<2>, Halo<3, 0>>({13, 18});
  check_interpolation<Interpolate<2, LinearCorners>, Halo<3, 0>>({13, 16});
  check_interpolation<Interpolate<2, Nearest>, Halo<0>>({11, 4});
  check_interpolation<Interpolate<2, Bicubic>, Halo<9>>({9, 11});
  check_interpolation<Interpolate<2, BicubicCorners>, Halo<9>>({10, 5});
  check_interpolation<Interpolate<2, Area<2>>, Halo<9>>({4, 11});
}

/// Partitions of n cells: any, and those with all cells on one rank.
std::vector<Partition> partitions_of(index_t n, Random& random) {
  std::vector<Partition> all;
  for (const int parts : {2, 3, 5}) {
    for (int i = 0; i < 4; ++i) all.push_back(random_partition(n, parts, random));
    std::vector<index_t> begins(static_cast<std::size_t>(parts) + 1, n);
    for (std::size_t r = 0; r < begins.size() - 1; ++r) {
      begins[r] = 0;
      all.push_back(Partition::explicit_begins(begins));
    }
  }
  return all;
}

IndexRange transposed_reads(const void* w, IndexRange inputs) {
  return conv_transpose_reads(*static_cast<const Window*>(w), inputs);
}
IndexRange plain_reads(const void* w, IndexRange inputs) {
  return conv_reads(*static_cast<const Window*>(w), inputs);
}

/// The bounds hold for every partition; for transposed convolutions that may read beyond the world
/// where the last cells of both sides are on one rank.
TEST(ordered, halos_are_wide_enough_for_every_partition) {
  Random random(seed());
  index_t checked = 0;
  for (int k = 1; k <= 5; ++k)
    for (int s = 1; s <= 4; ++s)
      for (int d = 1; d <= 3; ++d)
        for (int lo = 0; lo <= 3; ++lo)
          for (int hi = 0; hi <= 3; ++hi) {
            const Window w{k, s, lo, hi, d};
            for (const index_t n : {1, 2, 7, 12})
              for (const Partition& p : partitions_of(n, random)) {
                const index_t m     = conv_output_extent(w, n);
                const LowHigh edges = impl::conv_bound(w), enough = impl::conv_ordered_bound(w);
                EXPECT_NO_THROW(impl::require_gathered_halo_for("conv", "dy", 0, p.coarsened(s, m),
                                                                p, enough.lo, enough.hi, edges,
                                                                transposed_reads, &w));
                ++checked;
              }
            for (const index_t n : {1, 2, 7})
              for (int op = 0; op < std::max(s, d); ++op) {
                const index_t m      = conv_transpose_output_extent(w, n, op);
                const LowHigh sides  = impl::conv_transpose_bound(w),
                              enough = impl::conv_transpose_ordered_bound(w);
                for (const Partition& p : partitions_of(n, random)) {
                  const bool together = p.count(p.parts() - 1) > 0;
                  EXPECT_NO_THROW(impl::require_gathered_halo_for(
                      "conv transpose", "dy", 0, p.refined(s, m), p, enough.lo, enough.hi,
                      together ? sides : LowHigh{0, 0}, plain_reads, &w));
                  ++checked;
                }
                for (const Partition& q : partitions_of(m, random)) {
                  const Partition p   = q.coarsened(s, n);
                  const bool together = p.count(p.parts() - 1) > 0;
                  EXPECT_NO_THROW(impl::require_gathered_halo_for(
                      "conv transpose", "dy", 0, q, p, enough.lo, enough.hi,
                      together ? sides : LowHigh{0, 0}, plain_reads, &w));
                  ++checked;
                }
              }
          }
  EXPECT_GT(checked, 10000);
}

/// dy lies elsewhere than the halo reaches: every rank throws, before any message.
TEST(ordered, a_far_partition_throws_on_every_rank) {
  if (world_size() == 1) GTEST_SKIP() << "one rank has it all";
  using Layer = Conv<Kernel<3, 3>, Padding<1, 1>>;
  using Wide  = Halo<12>;
  using X     = ShardedView<double****, Right, ShardDim<2, Lat, Wide>, ShardDim<3, Lon, Wide>>;
  using Y     = Fields<double, Layer, Zero, Zero, Right, 0>::Y;
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const Space space;
  const Layer layer{1, 1};
  const auto parameters = make_parameters<double>(layer, "p");
  const X dx("dx", mesh, {1, 1, 12, 4});
  auto partitions = layer.output_partitions(dx.partitions());
  std::vector<index_t> begins(static_cast<std::size_t>(world_size()) + 1, 0);
  begins.back() = 12;
  partitions[2] = Partition::explicit_begins(begins);
  const Y dy("dy", mesh, partitions);
  EXPECT_THROW(layer.pullback_input<Determinism::ordered>(space, parameters, dx, dy),
               ArgumentError);
}

}  // namespace
}  // namespace shard::testing
