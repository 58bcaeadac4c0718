// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Window arithmetic against plain enumeration, over partitions with empty shards.

#include <algorithm>
#include <vector>

#include "layers/layer_support.hpp"
#include "shard/layers/window/conv.hpp"
#include "shard/layers/window/conv_transpose.hpp"
#include "shard/layers/resampling/interpolate.hpp"

namespace shard::testing {
namespace {

using Stem = Conv<Kernel<3, 5>, Stride<2, 1>, Padding<1, 2>>;
static_assert(std::is_same_v<required_halo_t<Stem, 0>, Halo<1, 1>>);
static_assert(std::is_same_v<required_halo_t<Stem, 1>, Halo<2, 2>>);
static_assert(std::is_same_v<aligned_halo_t<Stem, 0>, Halo<1, 0>>);
static_assert(needs_halo_v<Stem, 0> && !needs_halo_v<Conv<Kernel<1>, Stride<2>>, 0>);
static_assert(
    std::is_same_v<unsharded_halo_t<Conv<Kernel<3>, Padding<low_high<0, 2>>, Dilation<2>>, 0>,
                   Halo<0, 2>>);

/// Conv with kernel, stride, padding, dilation: the halo where shards are aligned (5.2's examples).
template <int K, int S, int P, int D = 1>
using Aligned = aligned_halo_t<Conv<Kernel<K>, Stride<S>, Padding<P>, Dilation<D>>, 0>;
static_assert(std::is_same_v<Aligned<3, 2, 1>, Halo<1, 0>>);
static_assert(std::is_same_v<Aligned<4, 1, 1>, Halo<1, 2>>);
static_assert(std::is_same_v<Aligned<7, 4, 3>, Halo<3, 0>>);
static_assert(std::is_same_v<Aligned<3, 1, 2, 2>, Halo<2, 2>>);
static_assert(std::is_same_v<Aligned<4, 4, 0>, Halo<0, 0>>);

/// The same for transposed ones (5.3's examples): with their own output partition.
template <int K, int S, int P, int D = 1>
using Up = aligned_halo_t<ConvTranspose<Kernel<K>, Stride<S>, Padding<P>, Dilation<D>>, 0>;
static_assert(std::is_same_v<Up<4, 2, 1>, Halo<1, 1>>);
static_assert(std::is_same_v<Up<3, 2, 1>, Halo<0, 1>>);
static_assert(std::is_same_v<Up<8, 2, 3>, Halo<2, 2>>);
static_assert(std::is_same_v<Up<4, 2, 0>, Halo<1, 0>>);
static_assert(std::is_same_v<Up<2, 2, 1, 2>, Halo<0, 1>>);

static_assert(std::is_same_v<required_halo_t<Interpolate<1>, 0>, Halo<0, 1>>);
static_assert(std::is_same_v<required_halo_t<Interpolate<1, Nearest>, 0>, Halo<0>>);
static_assert(std::is_same_v<required_halo_t<Interpolate<1, Meets<2>>, 0>, Halo<1>>);
static_assert(std::is_same_v<required_halo_t<Interpolate<1, Meets<3>>, 0>, Halo<2, 1>>);
static_assert(std::is_same_v<required_halo_t<Interpolate<1, Meets<4>>, 0>, Halo<2>>);

static_assert(is_output_padding({4, 2}, 1) && !is_output_padding({4, 2}, 2) &&
              is_output_padding({2, 2, 1, 1, 3}, 2) && !is_output_padding({4, 2}, -1));

/// Every partition of n cells over `parts` parts.
std::vector<Partition> all_partitions(index_t n, int parts) {
  std::vector<Partition> all;
  std::vector<index_t> begins(static_cast<std::size_t>(parts) + 1, 0);
  begins.back()     = n;
  const auto choose = [&](const auto& self, std::size_t r) -> void {
    if (r == begins.size() - 1) {
      all.push_back(Partition::explicit_begins(begins));
      return;
    }
    for (index_t b = begins[r - 1]; b <= n; ++b) {
      begins[r] = b;
      self(self, r + 1);
    }
    begins[r] = 0;
  };
  choose(choose, 1);
  return all;
}

struct Width {
  index_t lo = 0, hi = 0;
  void add(index_t l, index_t h) {
    lo = std::max(lo, l);
    hi = std::max(hi, h);
  }
};

void expect_within(const Width& seen, LowHigh bound) {
  EXPECT_LE(seen.lo, bound.lo);
  EXPECT_LE(seen.hi, bound.hi);
}

TEST(window, conv_reads_no_further_than_its_bound) {
  Width tightest{100, 100};
  for (int k = 1; k <= 5; ++k)
    for (int s = 1; s <= 4; ++s)
      for (int lo = 0; lo <= 3; ++lo)
        for (int hi = 0; hi <= 3; ++hi)
          for (int d = 1; d <= 3; ++d) {
            const Window w{k, s, lo, hi, d};
            const LowHigh bound = impl::conv_bound(w), aligned = impl::conv_aligned_bound(w);
            Width seen, seen_aligned;
            for (index_t n : {1, 4, 7}) {
              index_t m = 0;  // outputs, counted one by one
              while (m * s - lo + w.reach() < n + hi) ++m;
              ASSERT_EQ(conv_output_extent(w, n), m);
              for (const Partition& in : all_partitions(n, 3)) {
                const Partition out = in.coarsened(s, m);
                ASSERT_EQ(out.size(), m);
                for (int r = 0; r < 3; ++r) {
                  ASSERT_EQ(r == 0 ? 0 : conv_output_begin(w, in.begin(r), m), out.begin(r));
                  if (out.count(r) == 0) continue;
                  const SignedHalo h =
                      conv_signed_halo(w, {in.begin(r), in.end(r)}, {out.begin(r), out.end(r)});
                  ASSERT_EQ(in.begin(r) - h.lo, out.begin(r) * s - lo);
                  ASSERT_EQ(in.end(r) + h.hi, (out.end(r) - 1) * s - lo + w.reach() + 1);
                  seen.add(h.lo, h.hi);
                  if (in.begin(1) % s == 0 && in.begin(2) % s == 0 && n % s == 0)
                    seen_aligned.add(h.lo, h.hi);
                }
              }
            }
            expect_within(seen, bound);
            expect_within(seen_aligned, aligned);
            tightest.lo = std::min<index_t>(tightest.lo, bound.lo - seen.lo);
            tightest.hi = std::min<index_t>(tightest.hi, bound.hi - seen.hi);
          }
  EXPECT_EQ(tightest.lo, 0);
  EXPECT_EQ(tightest.hi, 0);
}

TEST(window, conv_transpose_reads_no_further_than_its_bound) {
  for (int k = 1; k <= 5; ++k)
    for (int s = 1; s <= 4; ++s)
      for (int p = 0; p <= 3; ++p)
        for (int d = 1; d <= 3; ++d) {
          const Window w{k, s, p, p, d};
          Width own, meeting;
          for (index_t n : {1, 3, 6})
            for (index_t op = 0; is_output_padding(w, op); ++op) {
              const index_t m = conv_transpose_output_extent(w, n, op);
              const auto add  = [&](Width& seen, const Partition& in, const Partition& out) {
                for (int r = 0; r < in.parts(); ++r) {
                  if (out.count(r) == 0) continue;
                  const IndexRange reads = conv_transpose_reads(w, {out.begin(r), out.end(r)});
                  for (index_t i = -40; i < 60; ++i)  // the definition, one by one
                    for (int j = 0; j < k; ++j) {
                      const index_t o = i * s - p + j * d;
                      if (o >= out.begin(r) && o < out.end(r)) {
                        ASSERT_GE(i, reads.begin);
                        ASSERT_LT(i, reads.end);
                      }
                    }
                  const index_t first = std::max<index_t>(reads.begin, 0),
                                last  = std::min(reads.end, n);
                  if (first < last) seen.add(in.begin(r) - first, last - in.end(r));
                }
              };
              if (m == 0) continue;
              for (const Partition& in : all_partitions(n, 3)) add(own, in, in.refined(s, m));
              if ((m + s - 1) / s == n)
                for (const Partition& fine : all_partitions(m, 2))
                  add(meeting, fine.coarsened(s, n), fine);
            }
          expect_within(own, impl::conv_transpose_bound(w));
          expect_within(
              own, {impl::conv_transpose_aligned_bound(w).lo, impl::conv_transpose_bound(w).hi});
          expect_within(meeting, impl::conv_transpose_bound(w));
        }
}

template <class Layer>
void check_interpolation(int factor) {
  Width seen;
  for (index_t n = 1; n <= 9; ++n)
    for (index_t m = 1; m <= 20; ++m) {
      const impl::InterpolatedDim dim{Layer::rule, Layer::align_corners, 0.0, n, m};
      for (index_t j = 0; j <= n; ++j) {  // the definition, one by one
        index_t o = 0;
        while (o < m && impl::interpolation_source(dim, o).cell < j) ++o;
        ASSERT_EQ(impl::first_interpolated(dim, j), o) << n << " " << m << " " << j;
      }
      if (Layer::ratio > 0 && n > Layer::ratio * m) continue;
      if (factor > 0 && (m + factor - 1) / factor != n) continue;
      for (const Partition& given : all_partitions(factor > 0 ? m : n, 3)) {
        const Partition in = factor > 0 ? given.coarsened(factor, n) : given;
        const Partition out =
            factor > 0 ? given : Partition::explicit_begins(impl::interpolated_begins(dim, in));
        for (int r = 0; r < 3; ++r)
          for (index_t o = out.begin(r); o < out.end(r); ++o) {
            const IndexRange reads = impl::interpolation_reads(&dim, {o, o + 1});
            seen.add(in.begin(r) - reads.begin, reads.end - in.end(r));
          }
      }
    }
  expect_within(seen, Layer::halo_bound(0));
}

TEST(window, interpolation_reads_no_further_than_its_bound) {
  check_interpolation<Interpolate<1>>(0);
  check_interpolation<Interpolate<1, LinearCorners>>(0);
  check_interpolation<Interpolate<1, Nearest>>(0);
  check_interpolation<Interpolate<1, Bicubic>>(0);
  check_interpolation<Interpolate<1, BicubicCorners>>(0);
  check_interpolation<Interpolate<1, Area<3>>>(0);
  check_interpolation<Interpolate<1, Bicubic, Meets<2>>>(2);
  check_interpolation<Interpolate<1, Bicubic, Meets<3>>>(3);
  check_interpolation<Interpolate<1, BicubicCorners, Meets<2>>>(2);
  check_interpolation<Interpolate<1, Meets<2>>>(2);
  check_interpolation<Interpolate<1, Meets<3>>>(3);
  check_interpolation<Interpolate<1, Meets<4>>>(4);
  check_interpolation<Interpolate<1, LinearCorners, Meets<2>>>(2);
  check_interpolation<Interpolate<1, LinearCorners, Meets<3>>>(3);
  check_interpolation<Interpolate<1, Nearest, Meets<2>>>(2);
  check_interpolation<Interpolate<1, Nearest, Meets<3>>>(3);
}

TEST(window, interpolation_positions) {
  for (index_t n = 1; n <= 8; ++n)
    for (index_t m = 1; m <= 17; ++m)
      for (index_t o = 0; o < m; ++o) {
        const double dn = static_cast<double>(n), dm = static_cast<double>(m);
        const double x  = std::max(0.0, (static_cast<double>(o) + 0.5) * dn / dm - 0.5);
        const double xc = m == 1 ? 0.0 : static_cast<double>(o) * (dn - 1.0) / (dm - 1.0);
        for (const auto& [corners, at] : {std::pair(false, x), std::pair(true, xc)}) {
          const auto s =
              impl::interpolation_source({impl::InterpolationRule::linear, corners, 0.0, n, m}, o);
          EXPECT_NEAR(static_cast<double>(s.cell) + s.share, at, 1e-13);
        }
        EXPECT_EQ(
            impl::interpolation_source({impl::InterpolationRule::nearest, false, 0.0, n, m}, o)
                .cell,
            o * n / m);
      }
}

TEST(window, output_padding_that_cannot_be_had_throws_with_the_numbers) {
  using Layer = ConvTranspose<Kernel<4>, Stride<2>, Padding<1>>;
  EXPECT_EQ(Layer::output_padding(0, 31, 62), 0);
  EXPECT_EQ(Layer::output_padding(0, 31, 63), 1);
  for (index_t m : {61, 64}) {
    try {
      Layer::output_padding(0, 31, m);
      ADD_FAILURE() << "no exception";
    } catch (const ArgumentError& e) {
      EXPECT_NE(std::string(e.what()).find("62"), std::string::npos) << e.what();
      EXPECT_NE(std::string(e.what()).find(std::to_string(m)), std::string::npos) << e.what();
    }
  }
}

}  // namespace
// what a window costs one rank
using Costly = Conv<Kernel<3, 3>, Padding<1, 1>>;
static_assert(layer_cost(Costly{64, 32}, {90, 180}, {true, true}).operations ==
              2.0 * 9 * 64 * 32 * 90 * 180);
static_assert(layer_cost(Costly{64, 32}, {90, 180}, {true, true}).halo_cells ==
              64 * (92 * 182 - 90 * 180));
static_assert(layer_cost(Costly{64, 32}, {90, 180}, {true, true}).neighbours == 8);
static_assert(layer_cost(Costly{64, 32}, {90, 180}, {true, false}).neighbours == 2);
static_assert(layer_cost(Costly{64, 32}, {90, 180}, {false, false}).halo_cells == 0);
static_assert(layer_cost(Conv<Kernel<3>, Stride<2>, Padding<1>>{4, 8}, {9}, {true}).output_cells ==
              8 * 5);
static_assert(layer_cost(ConvTranspose<Kernel<4>, Stride<2>, Padding<1>>{4, 8, 2}, {9}, {true})
                  .operations == 2.0 * 4 * 16 * 9);
using Mean = AvgPool<Kernel<3, 2>, Stride<2, 2>, Padding<1, 0>>;
static_assert(layer_cost(Mean{}, {8, 6}, {true, true}, 5).operations == 6.0 * 5 * 4 * 3);
static_assert(layer_cost(Mean{}, {8, 6}, {true, true}, 5).halo_cells == 5 * (10 * 7 - 8 * 6));

// the output partition, of 19 rows over four ranks, one of which has none
constexpr std::array<index_t, 5> rows{0, 5, 5, 12, 19};
using Strided = Conv<Kernel<3>, Stride<2>, Padding<1>>;
using Risen   = ConvTranspose<Kernel<4>, Stride<2>, Padding<1>>;
static_assert(output_begins<Strided>(0, rows) == std::array<index_t, 5>{0, 3, 3, 6, 10});
static_assert(output_begins<Risen>(0, rows) == std::array<index_t, 5>{0, 10, 10, 24, 38});
static_assert(output_begins<MaxPool<Kernel<4>>>(0, rows) == std::array<index_t, 5>{0, 2, 2, 3, 4});

template <class Layer>
void expect_begins_of(const Layer& layer, const std::array<index_t, 5>& begins) {
  const Partition one = Partition::balanced(1, 1),
                  in  = Partition::explicit_begins({begins.begin(), begins.end()});
  const auto out      = layer.output_partitions(std::array<Partition, 3>{one, one, in});
  const auto expected = output_begins<Layer>(0, begins);
  for (int r = 0; r <= 4; ++r)
    EXPECT_EQ(out[2].begin(r), expected[static_cast<std::size_t>(r)]) << r;
}

TEST(window, output_partitions_at_compile_time_are_those_of_the_layer) {
  for (const std::array<index_t, 5>& begins :
       {rows, {0, 0, 7, 7, 7}, {0, 1, 2, 3, 4}, {0, 9, 9, 9, 9}}) {
    expect_begins_of(Strided{}, begins);
    expect_begins_of(Conv<Kernel<2>, Padding<1>>{}, begins);
    expect_begins_of(Risen{}, begins);
    expect_begins_of(ConvTranspose<Kernel<2>, Stride<3>, Padding<1>>{}, begins);
    expect_begins_of(MaxPool<Kernel<2>>{}, begins);
  }
}

}  // namespace shard::testing
