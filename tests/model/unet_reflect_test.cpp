// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "unet_test.hpp"

namespace unet_test {

template <template <class> class Upward>
using Reflected = Net<shard::Reflect, shard::Periodic, Upward>;

TEST(UNet, reflecting_poles_7_x_5) { compare<Reflected<Transposed>>(7, 5); }
TEST(UNet, reflecting_poles_7_x_5_interpolated) { compare<Reflected<Interpolated>>(7, 5); }

/// The gradient against differences of the loss along a few directions.
TEST(UNet, gradient_matches_differences_of_the_loss) {
  const shard::Mesh<Lat, Lon> mesh(MPI_COMM_WORLD, {0, 0});
  const Space space;
  const auto model = Reflected<Transposed>::make(1, 4, 3);
  const auto net   = shard::domain_parallel<Lat, Lon>(model, mesh);
  const auto x     = net.input("x", {1, 1, 9, 10});
  const auto y = net.output(x), target = y.like("target"), dy = y.like("dy");
  fill(space, x, 1.0);
  fill(space, target, 0.7);
  shard::MeanSquare loss(target, {});
  const auto& values    = net.parameters().values();
  const auto& gradients = net.gradients().values();
  const shard::GradientSum<double> sum(target, static_cast<shard::index_t>(gradients.extent(0)));
  net.apply(space, y, x);
  loss(space, y, target);
  loss.pullback(space, dy, y, target);
  net.pullback(space, shard::not_wanted, dy, x);
  sum(space, gradients);
  const auto g      = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), gradients);
  const auto before = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), values);
  const std::vector<double> kept(before.data(), before.data() + before.extent(0));
  const auto p = Kokkos::create_mirror(Kokkos::HostSpace(), values);

  for (int trial = 0; trial < 4; ++trial) {
    std::mt19937 engine(static_cast<unsigned>(shard::testing::seed()) +
                        static_cast<unsigned>(trial));
    std::normal_distribution<double> normal;
    std::vector<double> direction(g.extent(0));
    double slope = 0;
    for (std::size_t i = 0; i < direction.size(); ++i) {
      direction[i] = normal(engine);
      slope += direction[i] * g(i);
    }
    const auto at = [&](double h) {
      for (std::size_t i = 0; i < direction.size(); ++i) p(i) = kept[i] + h * direction[i];
      Kokkos::deep_copy(values, p);
      net.apply(space, y, x);
      return loss(space, y, target);
    };
    constexpr double h      = 1e-4;  // fourth order: error about h^4 and rounding / h
    const double difference = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
    EXPECT_NEAR(difference, slope, 1e-6 * std::abs(slope) + 1e-9);
  }
}

}  // namespace unet_test
