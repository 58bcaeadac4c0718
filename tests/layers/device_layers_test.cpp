// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The device's algorithms of convolutions and Linear, run by the host's threads, against plain
// loops.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

#include "device_blocks.hpp"
#include "device_teams.hpp"
#include "scoped_precision.hpp"

#include "../../src/layers/device_attend.hpp"
#include "../../src/layers/device_attend_back.hpp"
#include "../../src/layers/device_correlation.hpp"
#include "../../src/layers/device_correlation_weights.hpp"
#include "../../src/layers/device_linear.hpp"
#include "../../src/layers/device_vendor.hpp"

namespace shard::testing {
namespace {

using impl::FixedPieces;

template <class T>
void check_window(Generator& random, const LocalWindow& w, index_t per_coarse, index_t per_fine,
                  const index_t (&coarse_extent)[3], const index_t (&fine_extent)[3]) {
  const TeamSpace space;
  const index_t batch = random.between(1, 2);
  index_t coarse_begin[3], fine_begin[3];
  for (int d = 0; d < 3; ++d) {
    coarse_begin[d] = random.between(-2, 2);
    fine_begin[d]   = coarse_begin[d] * w.stride[d] + random.between(-2, 2);
  }
  const Cells<T> coarse(random, batch, per_coarse * w.groups, coarse_begin, coarse_extent);
  const Cells<T> fine(random, batch, per_fine * w.groups, fine_begin, fine_extent);
  const std::string what = "groups " + std::to_string(w.groups) + ", channels " +
                           std::to_string(per_coarse) + " and " + std::to_string(per_fine) +
                           ", kernel " + std::to_string(w.kernel[1]) + "x" +
                           std::to_string(w.kernel[2]) + ", stride " + std::to_string(w.stride[2]);
  const auto weights     = values<T>(random, per_coarse * w.groups * per_fine * w.taps());
  const auto coarse_bias = values<T>(random, per_coarse * w.groups),
             fine_bias   = values<T>(random, per_fine * w.groups);
  const auto with_bias   = [](const Block<T>& b, const T* bias) {
    for (index_t n = 0; n < b.batch; ++n)
      for (index_t c = 0; c < b.channels; ++c)
        for (index_t z = b.begin[0]; z < b.end[0]; ++z)
          for (index_t y = b.begin[1]; y < b.end[1]; ++y)
            for (index_t x = b.begin[2]; x < b.end[2]; ++x) b.at(n, c, z, y, x) = bias[c];
  };
  const auto moved = [](const Cells<T>& from, std::vector<T>& memory) {
    Block<T> b = from.block;
    b.origin   = memory.data() + (from.block.origin - from.memory.data());
    return b;
  };
  for (const bool onto : {false, true}) {
    if (coarse.block.cells() > 0) {
      auto expected = coarse.memory, got = coarse.memory;
      const Block<T> to = moved(coarse, expected), out = moved(coarse, got);
      if (!onto) with_bias(to, coarse_bias.data());
      visit_products(to, fine.block, w, [&](T& c, const T& f, index_t at) {
        c += weights[static_cast<std::size_t>(at)] * f;
      });
      impl::correlate_on_device<TeamSpace, T, false>(
          "correlate", space,
          {out, as_const(fine.block), weights.data(), onto ? nullptr : coarse_bias.data(), w,
           onto});
      space.fence();
      expect_near(got, expected, "correlate, " + what);
    }
    if (fine.block.cells() > 0) {
      auto expected = fine.memory, got = fine.memory;
      const Block<T> to = moved(fine, expected), out = moved(fine, got);
      if (!onto) with_bias(to, fine_bias.data());
      visit_products(coarse.block, to, w, [&](const T& c, T& f, index_t at) {
        f += weights[static_cast<std::size_t>(at)] * c;
      });
      impl::correlate_on_device<TeamSpace, T, true>("correlate_transposed", space,
                                                    {out, as_const(coarse.block), weights.data(),
                                                     onto ? nullptr : fine_bias.data(), w, onto});
      space.fence();
      expect_near(got, expected, "correlate_transposed, " + what);
    }
  }
  auto expected = weights, got = weights;
  visit_products(coarse.block, fine.block, w, [&](const T& c, const T& f, index_t at) {
    expected[static_cast<std::size_t>(at)] += c * f;
  });
  impl::correlate_weights_on_device("correlate_weights", space, got.data(), as_const(coarse.block),
                                    as_const(fine.block), w);
  space.fence();
  expect_near(got, expected, "correlate_weights, " + what);
  auto sums = coarse_bias, plain = coarse_bias;
  for (index_t n = 0; n < batch; ++n)
    for (index_t c = 0; c < coarse.block.channels; ++c)
      for (index_t z = coarse.block.begin[0]; z < coarse.block.end[0]; ++z)
        for (index_t y = coarse.block.begin[1]; y < coarse.block.end[1]; ++y)
          for (index_t x = coarse.block.begin[2]; x < coarse.block.end[2]; ++x)
            plain[static_cast<std::size_t>(c)] += coarse.block.at(n, c, z, y, x);
  impl::sum_channels_on_device("sum_channels", space, sums.data(), as_const(coarse.block));
  space.fence();
  expect_near(sums, plain, "sum_channels, " + what);
}

template <class T>
void check_windows(unsigned seed, int count) {
  Generator random(seed);
  for (int i = 0; i < count && !::testing::Test::HasFatalFailure(); ++i) {
    LocalWindow w;
    index_t coarse[3] = {1, 1, 1}, fine[3] = {1, 1, 1};
    for (int d = i % 3 == 0 ? 0 : 1; d < 3; ++d) {
      w.kernel[d]   = random.between(1, d == 0 ? 2 : 4);
      w.stride[d]   = random.between(1, 3);
      w.dilation[d] = random.between(1, 2);
      w.offset[d]   = random.between(-3, 1);
      coarse[d]     = random.between(d == 0 ? 1 : 3, d == 0 ? 3 : 11);
      fine[d]       = coarse[d] * w.stride[d] + random.between(-1, 2);
    }
    const int sizes[] = {1, 2, 4, 5, 16, 17, 33, 40};
    w.groups          = i % 4 == 3 ? 3 : 1;
    check_window<T>(random, w, sizes[random.below(w.groups > 1 ? 4 : 8)],
                    sizes[random.below(w.groups > 1 ? 4 : 8)], coarse, fine);
  }
}

TEST(device_layers, convolutions) {
  check_windows<double>(1, 12);
  check_windows<float>(2, 6);
}

TEST(device_layers, convolutions_of_special_shapes) {
  Generator random(3);
  LocalWindow w;
  check_window<double>(random, w, 65, 70, {1, 3, 5}, {1, 3, 5});  // 1x1, tiles beside tiles
  w.kernel[1] = w.kernel[2] = 3;
  w.offset[1] = w.offset[2] = -1;
  check_window<double>(random, w, 4, 4, {1, 40, 60}, {1, 40, 60});  // pieces
  check_window<double>(random, w, 1, 1, {1, 100, 90}, {1, 100, 90});
  check_window<double>(random, w, 40, 5, {1, 0, 4}, {1, 3, 4});  // empty shards
  check_window<double>(random, w, 40, 5, {1, 2, 4}, {1, 0, 4});
  w.groups = 12;
  for (const int k : {3, 4, 5, 7}) {  // depthwise; 4 by cells
    w.kernel[1] = w.kernel[2] = k;
    w.offset[1]               = -1;
    check_window<double>(random, w, 1, 1, {1, 7, 9}, {1, 7, 9});
    check_window<float>(random, w, 2, 1, {2, 17, 5}, {3, 19, 4});
  }
  w.groups    = 1;
  w.offset[1] = w.offset[2];
  w.kernel[1] = w.kernel[2] = 33;  // more taps than a tile's table
  check_window<double>(random, w, 4, 4, {1, 3, 4}, {1, 9, 8});
}

TEST(device_layers, kernels_around_a_vendors_library) {
  const TeamSpace space;
  Generator random(7);
  LocalWindow w;
  w.kernel[1] = w.kernel[2] = 3;
  int gaps                  = 0;
  for (int i = 0; i < 20; ++i) {
    const Cells<float> coarse(random, 2, 3, {0, random.between(-2, 0), random.between(-2, 0)},
                              {random.between(1, 2), 7, 5}),
        fine(random, 2, 3, {0, -2, -2}, {2, 12, 10});
    const auto v = impl::VendorConvolution::of(coarse.block, fine.block, w, true);
    if (!v) continue;
    const impl::VendorTensor &box = v->coarse, packed = box.packed();
    gaps += box.is_packed() ? 0 : 1;
    const float* const from = coarse.block.origin + box.origin;
    const float* const copy = impl::packed_elements(space, box, as_const(coarse.block));
    space.fence();
    for (int at = 0; at < 2 * 3 * box.extent[2] * box.extent[3] * box.extent[4]; ++at) {
      int rest              = at;
      std::ptrdiff_t of_box = 0, of_copy = 0;
      for (std::size_t d = 5; d-- > 0; rest /= box.extent[d]) {
        of_box += rest % box.extent[d] * box.stride[d];
        of_copy += rest % box.extent[d] * packed.stride[d];
      }
      ASSERT_EQ(copy[of_copy], from[of_box]) << at;
    }
  }
  EXPECT_GT(gaps, 3);
  for (const bool biased : {true, false}) {
    const Cells<float> cells(random, 2, 3, {0, -1, -2}, {2, 4, 5});
    const float bias[3] = {1.0F, 2.0F, 3.0F};
    auto expected = cells.memory, got = cells.memory;
    impl::Block<float> out = cells.block, to = cells.block;
    out.origin = got.data() + (cells.block.origin - cells.memory.data());
    to.origin  = expected.data() + (cells.block.origin - cells.memory.data());
    for (index_t n = 0; n < 2; ++n)
      for (index_t c = 0; c < 3; ++c)
        for (index_t z = 0; z < 2; ++z)
          for (index_t y = -1; y < 3; ++y)
            for (index_t x = -2; x < 3; ++x) to.at(n, c, z, y, x) = biased ? bias[c] : 0.0F;
    const impl::StartChannelsKernel<float> start{out, biased ? bias : nullptr,
                                                 impl::RowSplit::of(space, out)};
    impl::launch("start_channels", space, start.split.items(), start);
    space.fence();
    EXPECT_EQ(got, expected);
  }
}

template <class T>
void check_linear(Generator& random, index_t n0, index_t n1, index_t in, index_t out) {
  const TeamSpace space;
  const index_t step = random.between(1, 2);
  std::vector<T> x_memory, y_memory;
  const auto x       = rows_with_gaps(x_memory, n0, n1, in, step, random);
  const auto y       = rows_with_gaps(y_memory, n0, n1, out, random.between(1, 2), random);
  const index_t rows = n0 * n1;
  const bool turned  = random.below(2) == 1;
  const auto weights = values<T>(random, in * out), bias = values<T>(random, out);
  const impl::Matrix<const T> w{weights.data(), turned ? 1 : in, turned ? out : 1};
  const std::string what =
      std::to_string(rows) + " rows, " + std::to_string(in) + " to " + std::to_string(out);
  const auto given = y_memory;
  for (const bool add : {false, true}) {
    impl::Product<T> p;
    p.c         = y.origin;
    p.a         = w.origin;
    p.b         = x.origin;
    p.start     = add ? nullptr : bias.data();
    p.rows      = out;
    p.columns   = rows;
    p.terms     = in;
    p.c_row     = y.step;
    p.a_row     = w.row;
    p.start_row = 1;
    p.c_column  = y.rows;
    p.b_column  = x.rows;
    p.a_term.append(in, w.column);
    p.b_term.append(in, x.step);
    p.add         = add;
    auto expected = y_memory;
    for (index_t r = 0; r < rows; ++r)
      for (index_t m = 0; m < out; ++m) {
        T& to = expected[static_cast<std::size_t>(y.rows.at(r) + m * y.step)];
        if (!add) to = bias[static_cast<std::size_t>(m)];
        for (index_t n = 0; n < in; ++n)
          to += x.origin[x.rows.at(r) + n * x.step] * w.origin[m * w.row + n * w.column];
      }
    impl::multiply_on_device("linear", space, p, false);
    space.fence();
    expect_near(y_memory, expected, "linear, " + what);
  }
  std::copy(given.begin(), given.end(), y_memory.begin());
  auto expected = weights, got = weights;
  for (index_t r = 0; r < rows; ++r)
    for (index_t m = 0; m < out; ++m)
      for (index_t n = 0; n < in; ++n)
        expected[static_cast<std::size_t>(m * w.row + n * w.column)] +=
            y.origin[y.rows.at(r) + m * y.step] * x.origin[x.rows.at(r) + n * x.step];
  impl::Product<T> p;
  p.c       = got.data();
  p.a       = y.origin;
  p.b       = x.origin;
  p.rows    = out;
  p.columns = in;
  p.terms   = rows;
  p.c_row   = w.row;
  p.a_row   = y.step;
  p.a_term  = y.rows;
  p.b_term  = x.rows;
  p.c_column.append(in, w.column);
  p.b_column.append(in, x.step);
  p.add = true;
  impl::multiply_on_device("linear_weight", space, p, true);
  space.fence();
  expect_near(got, expected, "linear_weight, " + what);
  auto sums = bias, plain = bias;
  for (index_t r = 0; r < rows; ++r)
    for (index_t m = 0; m < out; ++m)
      plain[static_cast<std::size_t>(m)] += y.origin[y.rows.at(r) + m * y.step];
  impl::sum_rows_on_device("linear_bias", space, sums.data(), 1, as_const(y));
  space.fence();
  expect_near(sums, plain, "linear_bias, " + what);
}

TEST(device_layers, linear) {
  Generator random(4);
  check_linear<double>(random, 3, 5, 7, 9);
  check_linear<double>(random, 2, 70, 33, 70);
  check_linear<double>(random, 1, 1, 1, 1);
  check_linear<double>(random, 30, 40, 20, 3);
  check_linear<double>(random, 0, 4, 3, 2);
  check_linear<float>(random, 7, 60, 12, 65);
  check_linear<float>(random, 2, 50, 40, 48);
}

/// Products and convolutions of values that the precision holds are those of float.
void check_rounded_products(unsigned seed, int parts) {
  Generator random(seed, parts);
  check_linear<float>(random, 7, 60, 12, 65);
  check_linear<float>(random, 2, 50, 40, 48);
  check_linear<float>(random, 30, 40, 20, 3);
  LocalWindow w;
  w.kernel[1] = w.kernel[2] = 3;
  w.offset[1] = w.offset[2] = -1;
  check_window<float>(random, w, 40, 33, {1, 7, 30}, {1, 7, 30});
  w.stride[1] = w.stride[2] = 2;
  check_window<float>(random, w, 65, 70, {1, 4, 5}, {1, 8, 9});
  check_window<double>(random, w, 65, 33, {1, 4, 5}, {1, 8, 9});
}

/// The product of 1 and a value with the precision.
float product_with(ProductPrecision precision, float value) {
  const ScopedPrecision scoped(precision);
  float y = 0.0F, one = 1.0F;
  impl::Product<float> p;
  p.c    = &y;
  p.a    = &one;
  p.b    = &value;
  p.rows = p.columns = p.terms = 1;
  impl::multiply_on_device("one product", TeamSpace(), p, false);
  Kokkos::fence();
  return y;
}

TEST(device_layers, tf32_rounds_factors_and_nothing_else) {
  const ScopedPrecision tf32(ProductPrecision::tf32);
  check_rounded_products(5, 512);
  const auto rounded = [](float v) { return Kokkos::bit_cast<float>(impl::tf32_bits(v)); };
  EXPECT_EQ(rounded(1.0F + 0x1p-12F), 1.0F);
  EXPECT_EQ(rounded(1.0F + 0x1p-11F), 1.0F + 0x1p-10F);
  EXPECT_EQ(rounded(-1.0F - 0x1p-11F), -1.0F - 0x1p-10F);
  EXPECT_TRUE(std::isnan(rounded(Kokkos::bit_cast<float>(0x7fffffffU))));
  const float x = 1.0F + 0x1p-12F;
  EXPECT_EQ(product_with(ProductPrecision::tf32, x), 1.0F);
  EXPECT_EQ(product_with(ProductPrecision::float32, x), x);
}

TEST(device_layers, bfloat16_rounds_factors_and_nothing_else) {
  const ScopedPrecision bfloat16(ProductPrecision::bfloat16);
  check_rounded_products(6, 64);
  const auto rounded = [](float v) { return Kokkos::bit_cast<float>(impl::bfloat16_bits(v)); };
  EXPECT_EQ(rounded(1.0F + 0x1p-9F), 1.0F);
  EXPECT_EQ(rounded(1.0F + 0x1p-8F), 1.0F);  // a tie, to even
  EXPECT_EQ(rounded(1.0F + 0x3p-8F), 1.0F + 0x1p-6F);
  EXPECT_EQ(rounded(-1.0F - 0x1p-8F - 0x1p-20F), -1.0F - 0x1p-7F);
  EXPECT_TRUE(std::isnan(rounded(Kokkos::bit_cast<float>(0x7f800001U))));
  EXPECT_EQ(rounded(Kokkos::bit_cast<float>(0x7f800000U)), Kokkos::bit_cast<float>(0x7f800000U));
  EXPECT_EQ(impl::bfloat16_pair(1.0F, -2.0F), 0xc0003f80U);
  const float x = 1.0F + 0x1p-9F;
  EXPECT_EQ(product_with(ProductPrecision::bfloat16, x), 1.0F);
  EXPECT_EQ(product_with(ProductPrecision::tf32, x), x);
}

TEST(device_layers, pieces_cover_all_terms) {
  for (const index_t total : {0, 1, 255, 256, 257, 10000, 123457})
    for (const index_t tiles : {1, 9, 2000}) {
      const FixedPieces p = FixedPieces::of(total, tiles, 1024, 256, 16);
      EXPECT_GE(p.count * p.length, total);
      EXPECT_TRUE(p.count == 1 || (p.count - 1) * p.length < total);
      EXPECT_LE(p.count * tiles, std::max<index_t>(1024, tiles));
      EXPECT_EQ(p.length % 16, 0);
    }
}

/// The kernel's launch bounds by the rule of Kokkos::Impl::cuda_deduce_block_size: the teams of a
/// multiprocessor that are asked for must fit. V100, T4, A100, RTX 4090, H100.
template <class Kernel>
void expect_launch(int resident) {
  const impl::Multiprocessor cards[] = {{96 * 1024, 2048},
                                        {64 * 1024, 1024},
                                        {164 * 1024, 2048},
                                        {100 * 1024, 1536},
                                        {228 * 1024, 2048}};
  const auto scratch                 = static_cast<int>(impl::most_scratch_bytes<Kernel>());
  for (const impl::Multiprocessor& card : cards) {
    const int teams =
        impl::resident_teams(resident, Kernel::threads, static_cast<std::size_t>(scratch), card);
    EXPECT_GE(teams, 1);
    EXPECT_LE(teams, card.scratch / (scratch + 16 + 8 * Kernel::threads)) << card.scratch;
    EXPECT_LE(teams * Kernel::threads, card.threads) << card.scratch;
  }
  EXPECT_LE(scratch, 40928);  // Kokkos gives no more
}
template <class T, int Width>
void expect_attention_launches() {
  const auto check = [&]<class Kernel>(std::type_identity<Kernel>) {
    expect_launch<Kernel>(Kernel::Tile::resident);
  };
  check(std::type_identity<impl::AttendTeamKernel<T, Width, false, 1>>{});
  if constexpr (Width < 64 || sizeof(T) == 4) {
    check(std::type_identity<impl::AttendBackTeamKernel<T, Width, false, false, 1>>{});
    check(std::type_identity<impl::AttendBackTeamKernel<T, Width, true, false, 1>>{});
  }
}
template <class T>
void expect_window_launches() {
  const auto check = [&]<class Kernel>(std::type_identity<Kernel>) {
    expect_launch<Kernel>(Kernel::resident);
  };
  check(std::type_identity<impl::CorrelateTileKernel<T, false, impl::CorrelateTile<T, 64>, 1>>{});
  check(std::type_identity<impl::CorrelateTileKernel<T, true, impl::CorrelateTile<T, 16>, 1>>{});
  check(std::type_identity<
        impl::CorrelateWeightsTileKernel<T, impl::CorrelateWeightsTile<T, 64>, 1>>{});
  check(std::type_identity<
        impl::CorrelateWeightsTileKernel<T, impl::CorrelateWeightsTile<T, 16>, 1>>{});
  check(std::type_identity<impl::ProductTileKernel<T, impl::LinearTile<T>, 1, index_t>>{});
}

TEST(device_layers, launch_bounds_fit_every_gpu) {
  expect_attention_launches<float, 16>();
  expect_attention_launches<float, 32>();
  expect_attention_launches<float, 64>();
  expect_attention_launches<double, 16>();
  expect_attention_launches<double, 32>();
  expect_attention_launches<double, 64>();
  expect_window_launches<float>();
  expect_window_launches<double>();
  expect_launch<
      impl::ProductTileKernel<float, impl::LinearTensorTile<ProductPrecision::bfloat16>, 1, int>>(
      4);
  // as tuned on an H100
  using Queries = impl::AttendBackTeamKernel<float, 16, false, false, 1>;
  EXPECT_EQ(impl::resident_teams(Queries::Tile::resident, Queries::threads,
                                 Queries::scratch_bytes(), {228 * 1024, 2048}),
            11);
}

}  // namespace
}  // namespace shard::testing
