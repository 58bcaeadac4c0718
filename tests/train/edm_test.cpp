// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Preconditioning and sampler of diffusion models, on Gaussian data, whose denoiser is known.
#include "shard/train/edm.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "shard/mesh/mesh.hpp"
#include "shard/view/copy.hpp"
#include "shard/view/sharded_view.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

struct Lat;

using Space = Kokkos::DefaultExecutionSpace;
using Field = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Lat, Halo<1>>>;

TEST(EDM, factors_are_those_of_the_paper) {
  const EDM edm{0.5};
  for (const double s : {0.002, 0.3, 1.0, 80.0}) {
    const double total = s * s + 0.25;
    EXPECT_NEAR(edm.skip(s), 0.25 / total, 1e-15);
    EXPECT_NEAR(edm.out(s), s * 0.5 / std::sqrt(total), 1e-15);
    EXPECT_NEAR(edm.in(s)*edm.in(s)*total, 1.0, 1e-15);
    EXPECT_NEAR(edm.noise(s), std::log(s) / 4, 1e-15);
    EXPECT_NEAR(edm.weight(s) * edm.out(s) * edm.out(s), 1.0, 1e-14);
  }
}

TEST(EDM, levels_fall_from_the_largest_to_zero) {
  const auto levels = edm_levels(18);
  ASSERT_EQ(levels.size(), 19U);
  EXPECT_NEAR(levels[0], 80.0, 1e-12);
  EXPECT_NEAR(levels[17], 0.002, 1e-15);
  EXPECT_EQ(levels[18], 0.0);
  const double middle =
      std::pow(80.0, 1 / 7.0) + 9.0 / 17.0 * (std::pow(0.002, 1 / 7.0) - std::pow(80.0, 1 / 7.0));
  EXPECT_NEAR(levels[9], std::pow(middle, 7), 1e-13);
  expect_parts(message_thrown_by<ArgumentError>([] { edm_levels(1); }), {"edm_levels", "1 steps"});
  message_thrown_by<ArgumentError>([] { edm_levels(5, 2.0, 1.0); });
}

/// The largest difference, relative to the exact solution x sigma_data / sqrt(sigma_data^2 +
/// s^2), where s is the first level.
double error_of(index_t steps) {
  const Mesh<Lat> mesh(MPI_COMM_WORLD, {ranks()});
  const Field x("x", mesh, {7, 3});
  const EDM edm{0.5};
  const auto levels = edm_levels(steps, 0.002, 80.0);
  const auto host   = create_mirror_view(x);
  const auto start  = [&](index_t i, index_t j) {
    return 80.0 * std::sin(1.0 + static_cast<double>(3 * i + j));
  };
  for (index_t i = 0; i < host.extent(0); ++i)
    for (index_t j = 0; j < 3; ++j) host(i, j) = start(host.to_global(0, i), j);
  const Space space;
  deep_copy(space, x, host);
  const EDMSampler sampler(x);
  int calls = 0;
  sampler(space, x, levels, [&](const Space& on, const Field& d, const Field& from, double s) {
    Axpby{edm.skip(s), 0.0}.apply(on, d, from, from);
    ++calls;
  });
  EXPECT_EQ(calls, 2 * steps - 1);
  deep_copy(space, host, x);
  space.fence("sampled");
  double largest = 0.0;
  for (index_t i = 0; i < host.extent(0); ++i)
    for (index_t j = 0; j < 3; ++j) {
      const double exact =
          start(host.to_global(0, i), j) * 0.5 / std::sqrt(0.25 + levels[0] * levels[0]);
      largest = std::max(largest, std::abs(host(i, j) / exact - 1.0));
    }
  MPI_Allreduce(MPI_IN_PLACE, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return largest;
}

TEST(EDM, the_sampler_converges_with_the_second_order) {
  // the last step, from 0.002 to 0, leaves (0.002 / 0.5)^2 / 2
  const double coarse = error_of(40), fine = error_of(80);
  EXPECT_LT(coarse, 0.02);
  EXPECT_GT(coarse / fine, 3.0);
  EXPECT_LT(coarse / fine, 5.0);
}

TEST(EDM, other_levels_are_refused) {
  const Mesh<Lat> mesh(MPI_COMM_WORLD, {ranks()});
  const Field x("x", mesh, {7, 3});
  const auto denoise = [](const Space&, const Field&, const Field&, double) {};
  const EDMSampler sampler(x);
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 sampler(Space(), x, {1.0, 2.0}, denoise);
               }),
               {"EDMSampler", "level 1 is 2 after 1"});
}

}  // namespace
}  // namespace shard::testing
