// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Optimisers, schedules, norms and rounding against plain loops and against numbers made with
// PyTorch 2.14 in double precision.

#include "shard/train/optimisers.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "shard/train/gradient_norm.hpp"
#include "shard/train/loss_scale.hpp"
#include "shard/train/schedules.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

using Space  = Kokkos::DefaultExecutionSpace;
using Memory = Space::memory_space;
template <class T>
using View = Kokkos::View<T*, Kokkos::LayoutRight, Memory>;

template <class T>
View<T> view_of(const std::vector<T>& values) {
  const View<T> view("values", values.size());
  Kokkos::deep_copy(view, Kokkos::View<const T*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(
                              values.data(), values.size()));
  return view;
}

template <class T>
std::vector<T> values_of(const View<T>& view) {
  Kokkos::fence();
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  return {host.data(), host.data() + host.extent(0)};
}

// p.grad = sin(1 + 0.7 t + 1.3 i) (1 + p / 2), five steps
template <class Optimiser>
void expect_as_pytorch(Optimiser optimiser, const std::vector<double>& expected) {
  const View<double> values = view_of<double>({0.5, -1.25, 2.0, 0.0});
  for (int t = 0; t < 5; ++t) {
    std::vector<double> gradients = values_of(values);
    for (std::size_t i = 0; i < 4; ++i)
      gradients[i] =
          std::sin(1.0 + 0.7 * t + 1.3 * static_cast<double>(i)) * (1.0 + 0.5 * gradients[i]);
    optimiser(Space(), values, view_of(gradients));
  }
  const auto stepped = values_of(values);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(stepped[i], expected[i], 1e-13) << i;
}

TEST(Optimisers, as_pytorch) {
  expect_as_pytorch(SGD<double>(4, {0.1}), {0.2617710923587761, -1.1933618684906149,
                                            2.577344438818935, -0.011731699823867054});
  expect_as_pytorch(
      SGD<double>(4, {0.1, 0.9, 0.0, 0.01}),
      {-0.49841924245982833, -1.2196418149293671, 3.7606945498696018, 0.35333273107501267});
  expect_as_pytorch(SGD<double>(4, {0.1, 0.8, 0.3}), {-0.1923467253666909, -1.2589310421245175,
                                                      3.1752179795866144, 0.28663304858894306});
  expect_as_pytorch(
      SGD<double>(4, {0.05, 0.9, 0.0, 0.02, true}),
      {-0.073828028207592239, -1.1922588783717711, 3.0493940629930085, 0.15448896892717071});
  expect_as_pytorch(Adam<double>(4, {0.02}), {0.41530591762389157, -1.2720189820483421,
                                              2.0932938124208724, 0.055363050808884103});
  expect_as_pytorch(
      Adam<double>(4, {0.02, 0.8, 0.95, 1e-6, 0.05}),
      {0.41825958204919184, -1.2479067114240772, 2.0916379919976045, 0.048614566307685771});
  AdamW<double> usual(4);
  usual.options.learning_rate = 0.02;
  expect_as_pytorch(
      usual, {0.41484485610712202, -1.2707251690551735, 2.09125579955594, 0.055328731492038291});
  expect_as_pytorch(
      AdamW<double>(4, {0.02, 0.8, 0.95, 1e-6, 0.2}),
      {0.40970599818987624, -1.2391579426876722, 2.0522123189815717, 0.048074539570320478});
}

TEST(Optimisers, many_parameters_in_single_precision_against_a_plain_loop) {
  constexpr std::size_t n = 5003;
  std::mt19937_64 engine(seed());
  std::normal_distribution<float> normal;
  std::vector<float> p(n), g(n), m(n, 0.0F), v(n, 0.0F), w(n, 0.0F);
  for (float& value : p) value = normal(engine);
  auto q                        = p;
  const View<float> adam_values = view_of(p), sgd_values = view_of(q);
  AdamW<float> adam(n, {0.01, 0.9, 0.99, 1e-8, 0.1});
  SGD<float> sgd(n, {0.01, 0.5, 0.25, 0.1});
  for (int t = 1; t <= 3; ++t) {
    for (float& value : g) value = normal(engine);
    adam(Space(), adam_values, view_of(g));
    sgd(Space(), sgd_values, view_of(g));
    for (std::size_t i = 0; i < n; ++i) {
      const double grad = g[i], b1 = 0.9, b2 = 0.99;
      const double mean = b1 * m[i] + (1 - b1) * grad, square = b2 * v[i] + (1 - b2) * grad * grad;
      m[i]           = static_cast<float>(mean);
      v[i]           = static_cast<float>(square);
      p[i]           = static_cast<float>(p[i] * (1 - 0.01 * 0.1) -
                                0.01 * (mean / (1 - std::pow(b1, t))) /
                                    (std::sqrt(square / (1 - std::pow(b2, t))) + 1e-8));
      const double s = grad + 0.1 * q[i];
      w[i]           = static_cast<float>(t == 1 ? s : 0.5 * w[i] + 0.75 * s);
      q[i]           = static_cast<float>(q[i] - 0.01 * (t == 1 ? s : static_cast<double>(w[i])));
    }
  }
  const auto a = values_of(adam_values), b = values_of(sgd_values);
  for (std::size_t i = 0; i < n; ++i) {
    ASSERT_NEAR(a[i], p[i], 1e-6) << i;
    ASSERT_NEAR(b[i], q[i], 1e-6) << i;
  }
}

TEST(Optimisers, other_numbers_of_values_are_refused) {
  const View<double> three("three", 3), four("four", 4);
  expect_parts(message_thrown_by<ArgumentError>([&] { SGD<double>(3)(Space(), three, four); }),
               {"SGD", "made for 3", "given 3 and 4"});
  expect_parts(message_thrown_by<ArgumentError>([&] { AdamW<double>(4)(Space(), three, four); }),
               {"Adam", "made for 4", "given 3 and 4"});
  message_thrown_by<ArgumentError>([] { SGD<double>(3, {0.1, 0.0, 0.0, 0.0, true}); });
  message_thrown_by<ArgumentError>([] { SGD<double>(3, {0.1, 0.9, 0.1, 0.0, true}); });
  message_thrown_by<ArgumentError>([&] {
    SGD<double> late(3);
    late.options.momentum = 0.9;
    late(Space(), three, three);
  });
}

TEST(Schedules, as_pytorch) {
  const auto expect_rates = [](const auto& schedule, const std::vector<double>& expected) {
    for (std::size_t t = 0; t < expected.size(); ++t)
      EXPECT_NEAR(schedule(static_cast<index_t>(t)), expected[t], 1e-15) << t;
  };
  expect_rates(ConstantRate{0.4}, {0.4, 0.4, 0.4});
  expect_rates(StepRate{0.4, 3, 0.5}, {0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.1, 0.1, 0.1});
  expect_rates(ExponentialRate{0.4, 0.9},
               {0.4, 0.36, 0.324, 0.2916, 0.26244, 0.236196, 0.2125764, 0.19131876, 0.172186884});
  expect_rates(CosineRate{0.4, 8, 0.1},
               {0.4, 0.38858192987669304, 0.35606601717798214, 0.30740251485476355, 0.25,
                0.19259748514523656, 0.14393398282201789, 0.111418070123307, 0.1, 0.1});
  expect_rates(Warmup{4, ConstantRate{0.4}, 0.25}, {0.1, 0.175, 0.25, 0.325, 0.4, 0.4});
  expect_rates(Warmup{4, CosineRate{0.4, 8, 0.1}, 0.25},
               {0.1, 0.175, 0.25, 0.325, 0.4, 0.38858192987669304, 0.35606601717798214,
                0.30740251485476355, 0.25});
}

TEST(GradientNorm, as_pytorch_and_every_value_counts_once) {
  const View<double> g = view_of<double>({3.0, -4.0, 12.0, 0.0});
  const GradientNorm<double> norm(4);
  EXPECT_EQ(norm(Space(), g), 13.0);
  EXPECT_EQ(norm.clip(Space(), g, 13.5), 13.0);
  EXPECT_EQ(values_of(g)[2], 12.0);
  EXPECT_EQ(norm.clip(Space(), g, 6.5), 13.0);
  EXPECT_NEAR(values_of(g)[0], 1.4999998846153937, 1e-15);
  EXPECT_NEAR(values_of(g)[2], 5.9999995384615747, 1e-15);
  for (const index_t n : {0, 1, 1023, 1025, 4097, 3 * 1024 * 1024 + 7}) {
    const View<float> ones("ones", static_cast<std::size_t>(n));
    Kokkos::deep_copy(ones, -1.0F);
    EXPECT_EQ(GradientNorm<float>(n)(Space(), ones), std::sqrt(static_cast<double>(n))) << n;
  }
  expect_parts(message_thrown_by<ArgumentError>([&] { GradientNorm<double>(3)(Space(), g); }),
               {"made for 3", "given 4"});
}

TEST(GradientNorm, sharded_parameters_are_counted_on_all_ranks_and_replicated_ones_once) {
  // every rank has the same two values, and then as many of its own as its number says
  std::vector<double> mine{2.0, 3.0};
  double squares = 4.0 + 9.0;
  for (int k = 0; k <= rank(); ++k) mine.push_back(1.0 + rank());
  for (int r = 0; r < ranks(); ++r) squares += (r + 1.0) * (r + 1.0) * (r + 1.0);
  const View<double> g = view_of(mine);
  const GradientNorm<double> norm(2, rank() + 1, MPI_COMM_WORLD);
  EXPECT_NEAR(norm(Space(), g), std::sqrt(squares), 1e-14 * std::sqrt(squares));
  const double before = norm.clip(Space(), g, 1.0);
  EXPECT_NEAR(norm(Space(), g), before / (before + 1e-6), 1e-14);
  double bounds[2] = {before, -before};
  MPI_Allreduce(MPI_IN_PLACE, bounds, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  EXPECT_EQ(bounds[0], -bounds[1]);
}

TEST(GradientNorm, gradients_that_are_not_finite_stay) {
  const double inf     = std::numeric_limits<double>::infinity();
  const View<double> g = view_of<double>({3.0, inf});
  EXPECT_EQ(GradientNorm<double>(2).clip(Space(), g, 1.0), inf);
  EXPECT_EQ(values_of(g)[0], 3.0);
}

TEST(LowPrecision, rounds_to_nearest_even) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> from{2049,         2051,         -2049.5F, 65519, 65520,    -65520,
                                3e-8F,        -2.9e-8F,     257,      259,   3.39e38F, 3.4e38F,
                                0x1.ffap-15F, 0x1.ffep-15F, -inf,     0.1F};
  const std::vector<float> half{
      2048, 2052, -2050, 65504, inf,          -inf,     0x1p-24F, -0.0F,
      257,  259,  inf,   inf,   0x1.ff8p-15F, 0x1p-14F, -inf,     0.0999755859375F};
  const std::vector<float> brain{
      2048, 2048, -2048,       65536, 65536,    -65536,   129 * 0x1p-32F, -249 * 0x1p-33F,
      256,  260,  0x1.fep127F, inf,   0x1p-14F, 0x1p-14F, -inf,           0.10009765625F};
  const View<float> in = view_of(from), out("out", from.size());
  round_values(Space(), out, in, LowPrecision::half);
  const auto halves = values_of(out);
  round_values(Space(), out, in, LowPrecision::bfloat16);
  const auto brains = values_of(out);
  for (std::size_t i = 0; i < from.size(); ++i) {
    EXPECT_EQ(halves[i], half[i]) << from[i];
    EXPECT_EQ(brains[i], brain[i]) << from[i];
    EXPECT_EQ(std::signbit(halves[i]), std::signbit(from[i])) << from[i];
  }
  round_values(Space(), in, in, LowPrecision::half);
  EXPECT_EQ(values_of(in), halves);
  const View<float> nan = view_of<float>({std::nanf("")});
  round_values(Space(), nan, nan, LowPrecision::bfloat16);
  EXPECT_TRUE(std::isnan(values_of(nan)[0]));
  message_thrown_by<ArgumentError>([&] { round_values(Space(), nan, in, LowPrecision::half); });
}

TEST(LowPrecision, copies_in_the_backends_own_types) {
  const View<float> values = view_of<float>({1.0F, 0.1F, -3.0F});
  round_values(Space(), values, values, LowPrecision::bfloat16);
  const Kokkos::View<Kokkos::Experimental::bhalf_t*, Kokkos::LayoutRight, Memory> brains("b", 3);
  Kokkos::deep_copy(Space(), brains, values);
  const View<float> back("back", 3);
  Kokkos::deep_copy(Space(), back, brains);
  EXPECT_EQ(values_of(back), values_of(values));
}

TEST(LowPrecision, masters_take_in_steps_that_a_rounded_copy_would_lose) {
  // steps of 2^-10 from 1 on: bfloat16's next number is 1 + 2^-7
  const View<float> master   = view_of<float>({1.0F}), copy("copy", 1),
                    gradient = view_of<float>({-1.0F});
  SGD<float> sgd(1, {0x1p-10});
  for (int t = 0; t < 8; ++t) {
    sgd(Space(), master, gradient);
    round_values(Space(), copy, master, LowPrecision::bfloat16);
    EXPECT_EQ(values_of(copy)[0], t < 4 ? 1.0F : 1.0F + 0x1p-7F) << t;
  }
}

TEST(LossScale, grows_and_backs_off_and_all_ranks_agree) {
  LossScale<float> scale(2, MPI_COMM_WORLD, {8.0, 2.0, 0.25, 3});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> fine{16.0F, -4.0F}, bad{nan, 1.0F};
  for (int t = 0; t < 3; ++t) {
    EXPECT_EQ(scale.value(), 8.0);
    const View<float> g = view_of(fine);
    EXPECT_TRUE(scale.unscale(Space(), g));
    EXPECT_EQ(values_of(g), (std::vector<float>{2.0F, -0.5F}));
  }
  EXPECT_EQ(scale.value(), 16.0);
  // one rank alone has an overflow
  const View<float> g = view_of(rank() == ranks() - 1 ? bad : fine);
  EXPECT_FALSE(scale.unscale(Space(), g));
  EXPECT_EQ(scale.value(), 4.0);
  for (int t = 0; t < 2; ++t) EXPECT_TRUE(scale.unscale(Space(), view_of(fine)));
  EXPECT_EQ(scale.value(), 4.0);
  EXPECT_TRUE(scale.unscale(Space(), view_of(fine)));
  EXPECT_EQ(scale.value(), 8.0);
  LossScale<float> fixed(2, MPI_COMM_WORLD, {8.0, 1.0, 1.0, 1});
  EXPECT_TRUE(fixed.unscale(Space(), view_of(fine)));
  EXPECT_FALSE(fixed.unscale(Space(), view_of(bad)));
  EXPECT_EQ(fixed.value(), 8.0);
}

}  // namespace
}  // namespace shard::testing
