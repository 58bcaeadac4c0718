// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How convolutions and products are described to vendors' libraries: what a library computes from
// the description alone, in plain loops, is what the operands say.

#include "../../src/layers/vendor_convolution.hpp"
#include "../../src/layers/vendor_product.hpp"
#include "linear_products.hpp"

namespace shard::testing {
namespace {

using impl::VendorConvolution;
using impl::VendorProduct;
using impl::VendorTensor;

index_t offset(const VendorTensor& t, const index_t (&at)[5]) {
  index_t sum = t.origin;
  for (std::size_t d = 0; d < 5; ++d) sum += at[d] * t.stride[d];
  return sum;
}

/// What libraries derive from a fine box: the number of coarse cells along each dimension.
void expect_library_counts(const VendorConvolution& v) {
  for (std::size_t d = 0; d < 3; ++d) {
    const int read = (v.kernel[d] - 1) * v.dilation[d] + 1;
    EXPECT_EQ(v.coarse.extent[d + 2],
              (v.fine.extent[d + 2] + 2 * v.padding[d] - read) / v.stride[d] + 1);
  }
}

/// Visits all (coarse, fine, weight) offsets that a library multiplies.
template <class Visit>
void visit_described(const VendorConvolution& v, const Visit& visit) {
  const index_t per_coarse = v.coarse.extent[1] / v.groups, per_fine = v.fine.extent[1] / v.groups,
                taps = index_t(v.kernel[0]) * v.kernel[1] * v.kernel[2];
  for (index_t n = 0; n < v.coarse.extent[0]; ++n)
    for (index_t a = 0; a < v.coarse.extent[1]; ++a)
      for (index_t b = 0; b < per_fine; ++b)
        for (index_t oz = 0; oz < v.coarse.extent[2]; ++oz)
          for (index_t oy = 0; oy < v.coarse.extent[3]; ++oy)
            for (index_t ox = 0; ox < v.coarse.extent[4]; ++ox)
              for (index_t t = 0; t < taps; ++t) {
                const index_t o[3] = {oz, oy, ox},
                              k[3] = {t / v.kernel[2] / v.kernel[1], t / v.kernel[2] % v.kernel[1],
                                      t % v.kernel[2]};
                index_t fine[5]    = {n, a / per_coarse * per_fine + b};
                bool inside        = true;
                for (std::size_t d = 0; d < 3; ++d) {
                  fine[d + 2] = o[d] * v.stride[d] + k[d] * v.dilation[d] - v.padding[d];
                  inside      = inside && fine[d + 2] >= 0 && fine[d + 2] < v.fine.extent[d + 2];
                }
                if (inside)
                  visit(offset(v.coarse, {n, a, oz, oy, ox}), offset(v.fine, fine),
                        (a * per_fine + b) * taps + t);
              }
}

/// Whether the window was described, with and without trimming.
struct Described {
  int whole = 0, trimmed = 0;
};

Described check_described(Generator& random, const LocalWindow& w, index_t per_coarse,
                          index_t per_fine, const index_t (&coarse_begin)[3],
                          const index_t (&coarse_extent)[3], const index_t (&fine_begin)[3],
                          const index_t (&fine_extent)[3]) {
  Described described;
  const Cells<double> coarse(random, 2, per_coarse * w.groups, coarse_begin, coarse_extent);
  const Cells<double> fine(random, 2, per_fine * w.groups, fine_begin, fine_extent);
  const auto weights = values<double>(random, per_coarse * w.groups * per_fine * w.taps());
  const auto moved   = [](const Cells<double>& from, std::vector<double>& memory) {
    Block<double> b = from.block;
    b.origin        = memory.data() + (from.block.origin - from.memory.data());
    return b;
  };
  if (const auto v = VendorConvolution::of(coarse.block, fine.block, w, false)) {
    described.whole = 1;
    expect_library_counts(*v);
    auto expected = coarse.memory, got = coarse.memory;
    visit_products(moved(coarse, expected), fine.block, w,
                   [&](double& c, const double& f, index_t at) {
                     c += weights[static_cast<std::size_t>(at)] * f;
                   });
    const Block<double> to = moved(coarse, got);
    visit_described(*v, [&](index_t c, index_t f, index_t at) {
      to.origin[c] += weights[static_cast<std::size_t>(at)] * fine.block.origin[f];
    });
    expect_near(got, expected, "forward");
    for (int d = 0; d < 3; ++d)  // all cells of the output are written
      EXPECT_EQ(v->coarse.extent[static_cast<std::size_t>(d + 2)], coarse.block.extent(d));
  }
  if (const auto v = VendorConvolution::of(coarse.block, fine.block, w, true)) {
    described.trimmed = 1;
    expect_library_counts(*v);
    auto expected = fine.memory, got = fine.memory;
    visit_products(coarse.block, moved(fine, expected), w,
                   [&](const double& c, double& f, index_t at) {
                     f += weights[static_cast<std::size_t>(at)] * c;
                   });
    const Block<double> to = moved(fine, got);
    visit_described(*v, [&](index_t c, index_t f, index_t at) {
      to.origin[f] += weights[static_cast<std::size_t>(at)] * coarse.block.origin[c];
    });
    expect_near(got, expected, "data");
    auto gradient = weights, sums = weights;
    visit_products(coarse.block, fine.block, w, [&](const double& c, const double& f, index_t at) {
      gradient[static_cast<std::size_t>(at)] += c * f;
    });
    visit_described(*v, [&](index_t c, index_t f, index_t at) {
      sums[static_cast<std::size_t>(at)] += coarse.block.origin[c] * fine.block.origin[f];
    });
    expect_near(sums, gradient, "weights");
    index_t written = 1;
    for (std::size_t d = 2; d < 5; ++d) written *= v->fine.extent[d];
    EXPECT_EQ(v->whole_fine, written == fine.block.cells());
  }
  return described;
}

TEST(Vendor, DescribedConvolutionsAreTheWindows) {
  Generator random(11);
  Described described;
  for (int i = 0; i < 4000 && !::testing::Test::HasFatalFailure(); ++i) {
    LocalWindow w;
    w.groups          = i % 4 == 3 ? 2 : 1;
    index_t coarse[3] = {1, 1, 1}, fine[3] = {1, 1, 1}, coarse_begin[3] = {}, fine_begin[3] = {};
    for (int d = i % 3 == 0 ? 0 : 1; d < 3; ++d) {
      w.kernel[d]     = random.between(1, 4);
      w.stride[d]     = random.between(1, 3);
      w.dilation[d]   = random.between(1, 2);
      w.offset[d]     = random.between(-2, 1);
      coarse[d]       = random.between(1, 5);
      coarse_begin[d] = random.between(-1, 1);
      // around what is read
      fine_begin[d] = coarse_begin[d] * w.stride[d] + w.offset[d] + random.between(-2, 2);
      fine[d] =
          (coarse[d] - 1) * w.stride[d] + (w.kernel[d] - 1) * w.dilation[d] + random.between(-1, 2);
      fine[d] = std::max<index_t>(fine[d], 1);
    }
    const Described one = check_described(random, w, random.between(1, 3), random.between(1, 3),
                                          coarse_begin, coarse, fine_begin, fine);
    described.whole += one.whole;
    described.trimmed += one.trimmed;
  }
  EXPECT_GT(described.whole, 200);
  EXPECT_GT(described.trimmed, 200);
}

TEST(Vendor, LayersHaveADescription) {
  Generator random(12);
  const auto both = [&](const LocalWindow& w, index_t coarse, index_t fine_begin, index_t fine) {
    const Described d = check_described(random, w, 2, 3, {0, 0, 0}, {1, coarse, coarse},
                                        {0, fine_begin, fine_begin}, {1, fine, fine});
    return d.whole == 1 && d.trimmed == 1;
  };
  LocalWindow w;
  EXPECT_TRUE(both(w, 5, 0, 5));  // 1x1
  w.kernel[1] = w.kernel[2] = 3;
  w.offset[1] = w.offset[2] = -1;
  EXPECT_TRUE(both(w, 5, -1, 7));  // halos of one
  EXPECT_TRUE(both(w, 5, -2, 9));  // wider ones
  EXPECT_TRUE(both(w, 5, 0, 5));   // zeros around an unsharded dimension
  w.stride[1] = w.stride[2] = 2;
  EXPECT_TRUE(both(w, 5, -1, 11));
  EXPECT_TRUE(both(w, 5, 0, 10));  // zeros before the first point only
  EXPECT_TRUE(both(w, 5, 0, 9));
  // zeros after the last point only have no description
  EXPECT_FALSE(both(w, 5, -1, 10));
}

/// Element (row, column) of a column-major factor.
double element(const VendorProduct::Factor& f, index_t batch, index_t row, index_t column) {
  const index_t at = f.transposed ? column + row * f.leading : row + column * f.leading;
  return static_cast<double>(f.origin[batch * f.batch + at]);
}

/// Computes as a library does, and compares with the Product. Returns whether it was described.
bool check_product(const impl::Product<float>& p, std::vector<float>& memory) {
  const auto v = VendorProduct::of(p);
  if (!v) return false;
  const auto expected = product_of(p, memory);
  const bool starts   = p.start != nullptr && v->bias == nullptr;
  if (starts) start_in_plain_loops(p);  // the caller's part
  for (index_t n = 0; n < v->count; ++n)
    for (index_t row = 0; row < v->m; ++row)
      for (index_t column = 0; column < v->n; ++column) {
        float& to  = v->d[(v->sums ? 0 : n * v->batch_d) + row + column * v->leading_d];
        double sum = starts || v->add || (v->sums && n > 0) ? static_cast<double>(to) : 0.0;
        if (v->bias != nullptr) sum += static_cast<double>(v->bias[row]);
        for (index_t k = 0; k < v->k; ++k)
          sum += element(v->a, n, row, k) * element(v->b, n, k, column);
        to = static_cast<float>(sum);
      }
  expect_near(memory, expected, "product");
  return true;
}

int check_linear(Generator& random, index_t n0, index_t n1, index_t in, index_t out, bool gaps) {
  return count_linear(random, n0, n1, in, out, gaps, check_product);
}

TEST(Vendor, DescribedProductsAreTheProducts) {
  Generator random(13);
  EXPECT_EQ(check_linear(random, 1, 7, 5, 3, false), 4);
  EXPECT_EQ(check_linear(random, 3, 4, 5, 6, false), 4);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(check_linear(random, random.between(1, 4), random.between(1, 6), random.between(1, 9),
                           random.between(1, 9), true),
              4);
  // a sum of more products than calls are worth
  EXPECT_EQ(check_linear(random, VendorProduct::most_sums + 1, 2, 3, 4, true), 3);
}

TEST(Vendor, ChannelsOfPlanesAreTheTransposedProduct) {
  Generator random(14);  // a 1x1 convolution of two planes: c(i, j) is at i * cells + j
  auto weights = values<float>(random, 6), bias = values<float>(random, 2),
       x = values<float>(random, 3 * 20), y = values<float>(random, 2 * 20);
  impl::Product<float> p;
  p.c         = y.data();
  p.a         = weights.data();
  p.b         = x.data();
  p.start     = bias.data();
  p.rows      = 2;
  p.columns   = 20;
  p.terms     = 3;
  p.c_row     = 20;
  p.a_row     = 3;
  p.start_row = 1;
  p.c_column.append(20, 1);
  p.b_column.append(20, 1);
  p.a_term.append(3, 1);
  p.b_term.append(3, 20);
  EXPECT_TRUE(check_product(p, y));
  p.a_row = 0;  // one row for all outputs is no matrix of a library
  EXPECT_FALSE(check_product(p, y));
}

}  // namespace
}  // namespace shard::testing
