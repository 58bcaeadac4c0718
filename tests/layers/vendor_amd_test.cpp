// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// AMD's libraries on a host: src/layers/miopen.cpp and rocblas.cpp with a fake MIOpen and rocBLAS,
// which compute in plain loops from what they are told.

#include "fake_amd/answers.hpp"
#include "linear_products.hpp"
#include "shard/base/error.hpp"
#include "support/thrown.hpp"

#include "../../src/layers/device_vendor.hpp"

namespace shard::testing {
namespace {

using Space = Kokkos::DefaultExecutionSpace;

/// What the fake libraries answer, for a scope.
class Scoped {
 public:
  explicit Scoped(const fake::Answers& answers = {}) {
    fake::state().answers = answers;
    fake::state().calls.clear();
  }
  ~Scoped() { fake::state() = {}; }
  Scoped(const Scoped&)            = delete;
  Scoped& operator=(const Scoped&) = delete;
};
std::string calls() { return std::exchange(fake::state().calls, {}); }

/// The lines that don't begin so.
std::string without(const std::string& text, const std::string& begin) {
  std::string rest;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at) + 1;
    if (text.compare(at, begin.size(), begin) != 0) rest += text.substr(at, end - at);
    at = end;
  }
  return rest;
}

Block<float> in(std::vector<float>& memory, const Cells<float>& cells) {
  Block<float> b = cells.block;
  b.origin       = memory.data() + (cells.block.origin - cells.memory.data());
  return b;
}

/// Of how many of a window's convolutions and gradients MIOpen computed, with the values of plain
/// loops.
int check_window(Generator& random, const LocalWindow& w, index_t per_coarse, index_t per_fine,
                 const index_t (&coarse_begin)[3], const index_t (&coarse_extent)[3],
                 const index_t (&fine_begin)[3], const index_t (&fine_extent)[3]) {
  const Cells<float> coarse(random, 2, per_coarse * w.groups, coarse_begin, coarse_extent),
      fine(random, 2, per_fine * w.groups, fine_begin, fine_extent);
  const auto weights = values<float>(random, per_coarse * w.groups * per_fine * w.taps()),
             bias    = values<float>(random, std::max(coarse.block.channels, fine.block.channels));
  const auto at      = [](index_t i) { return static_cast<std::size_t>(i); };
  int computed       = 0;
  for (const bool onto : {false, true})
    for (const float* const start : {static_cast<const float*>(nullptr), bias.data()}) {
      if (onto && start != nullptr) continue;
      const auto begin = [&](const Block<float>& b) {
        if (onto) return;
        for (index_t n = 0; n < b.batch; ++n)
          for (index_t c = 0; c < b.channels; ++c)
            for (index_t z = b.begin[0]; z < b.end[0]; ++z)
              for (index_t y = b.begin[1]; y < b.end[1]; ++y)
                for (index_t x = b.begin[2]; x < b.end[2]; ++x)
                  b.at(n, c, z, y, x) = start != nullptr ? start[c] : 0.0F;
      };
      auto got = coarse.memory, expected = coarse.memory;
      const impl::Correlation<float, false, LocalWindow> forward(
          in(got, coarse), impl::as_const(fine.block), weights.data(), start, w, onto);
      if (impl::correlate_by_vendor(Space(), forward)) {
        ++computed;
        begin(in(expected, coarse));
        visit_products(in(expected, coarse), fine.block, w,
                       [&](float& c, float f, index_t i) { c += weights[at(i)] * f; });
        expect_near(got, expected, "forward");
      }
      got = fine.memory, expected = fine.memory;
      const impl::Correlation<float, true, LocalWindow> back(
          in(got, fine), impl::as_const(coarse.block), weights.data(), start, w, onto);
      if (impl::correlate_by_vendor(Space(), back)) {
        ++computed;
        begin(in(expected, fine));
        visit_products(coarse.block, in(expected, fine), w,
                       [&](float c, float& f, index_t i) { f += weights[at(i)] * c; });
        expect_near(got, expected, "data");
      }
    }
  auto got = weights, expected = weights;
  if (impl::correlate_weights_by_vendor(Space(), got.data(), impl::as_const(coarse.block),
                                        impl::as_const(fine.block), w)) {
    ++computed;
    visit_products(coarse.block, fine.block, w,
                   [&](float c, float f, index_t i) { expected[at(i)] += c * f; });
    expect_near(got, expected, "weights");
  }
  return computed;
}

TEST(Miopen, ConvolutionsAreTheWindows) {
  const Scoped reset;
  Generator random(21);
  int computed = 0;
  for (int i = 0; i < 400 && !::testing::Test::HasFailure(); ++i) {
    LocalWindow w;
    w.groups          = i % 4 == 3 ? 2 : 1;
    index_t coarse[3] = {1, 1, 1}, fine[3] = {1, 1, 1}, coarse_begin[3] = {}, fine_begin[3] = {};
    for (int d = i % 3 == 0 ? 0 : 1; d < 3; ++d) {
      w.kernel[d]     = random.between(1, 3);
      w.stride[d]     = random.between(1, 2);
      w.dilation[d]   = w.groups == 1 ? random.between(1, 2) : 1;
      w.offset[d]     = random.between(-1, 1);
      coarse[d]       = random.between(1, 4);
      coarse_begin[d] = random.between(-1, 1);
      const int cut   = random.below(2);  // zeros on both sides, or more cells than are read
      fine_begin[d]   = coarse_begin[d] * w.stride[d] + w.offset[d] + cut;
      fine[d]         = std::max<index_t>(
          1, (coarse[d] - 1) * w.stride[d] + (w.kernel[d] - 1) * w.dilation[d] + 1 - 2 * cut);
    }
    // workspaces of three sizes, behind which the copies are; a plan keeps its size
    fake::state().answers.workspace = static_cast<std::size_t>(w.kernel[2] - 1) * 500;
    computed += check_window(random, w, random.between(1, 3), random.between(1, 3), coarse_begin,
                             coarse, fine_begin, fine);
  }
  EXPECT_GT(computed, 1000);
}

/// A window of 3 x 3 between blocks of one batch entry, with 6 fine and 4 coarse channels.
struct Case {
  Generator random{22};
  index_t extent;
  LocalWindow window;
  Cells<float> coarse, fine;
  std::vector<float> weights = values<float>(random, 216);

  explicit Case(index_t e)
      : extent(e),
        coarse(random, 1, 4, {0, 0, 0}, {1, e, e}),
        fine(random, 1, 6, {0, 0, 0}, {1, e + 2, e + 2}) {
    window.kernel[1] = window.kernel[2] = 3;
  }
  bool forward() {
    return impl::correlate_by_vendor(
        Space(), impl::Correlation<float, false, LocalWindow>(
                     coarse.block, as_const(fine.block), weights.data(), nullptr, window, false));
  }
  bool data() {
    return impl::correlate_by_vendor(
        Space(), impl::Correlation<float, true, LocalWindow>(
                     fine.block, as_const(coarse.block), weights.data(), nullptr, window, false));
  }
  bool gradient() {
    return impl::correlate_weights_by_vendor(Space(), weights.data(), as_const(coarse.block),
                                             as_const(fine.block), window);
  }
};

TEST(Miopen, SolutionsAreDeterministicAndSmall) {
  const Scoped reset;
  Case a(5);
  EXPECT_TRUE(a.forward() && a.data() && a.gradient());
  const auto line = [](const char* pass, int solution) {
    return std::string(pass) +
           " fine[1,6,7,7] weight[4,6,3,3] coarse[1,4,5,5] padding 0,0 stride 1,1 dilation 1,1 "
           "groups 1 solution " +
           std::to_string(solution) + "\n";
  };
  const std::string runs = line("forward", fake::implicit_gemm) +
                           line("data", fake::implicit_gemm) + line("weights", fake::direct);
  const std::string first = calls();
  EXPECT_EQ(without(without(first, "create"), "compile"), runs);
  expect_parts(first, {"compile forward 501\n", "compile data 501\n", "compile weights 502\n"});
  EXPECT_TRUE(a.forward() && a.data() && a.gradient());
  EXPECT_EQ(calls(), runs);  // compiled once
  // a workspace that is too large, alone or with the copies
  constexpr std::size_t most = impl::most_vendor_workspace;
  {
    const Scoped direct({.workspace = most - 256});
    Case b(6);
    EXPECT_TRUE(b.forward());
    EXPECT_EQ(without(calls(), "forward"), "compile forward 502\n");
  }
  {
    const Scoped none({.workspace = ~std::size_t{0}, .direct_workspace = most + 1});
    Case c(7);
    EXPECT_FALSE(c.forward() || c.data() || c.gradient());
    EXPECT_EQ(calls(), "");
  }
}

TEST(Miopen, WhatItRefusesStaysWithShard) {
  constexpr int not_implemented = 6, unsupported = 8, internal_error = 5;
  {
    const Scoped refuses({.list = not_implemented});
    EXPECT_FALSE(Case(8).forward());
  }
  {
    const Scoped refuses({.compile = unsupported});
    EXPECT_FALSE(Case(9).forward());
    EXPECT_EQ(calls(), "compile forward 501\ncompile forward 502\ncompile forward 503\n");
  }
  {
    const Scoped refuses({.run = unsupported});
    EXPECT_FALSE(Case(10).forward());
    calls();
    EXPECT_FALSE(Case(10).forward());
    EXPECT_EQ(calls(), "");  // called once
  }
  {
    const Scoped fails({.run = internal_error});
    expect_parts(message_thrown_by<Error>([] { Case(11).gradient(); }),
                 {"miopenConvolutionBackwardWeightsImmediate failed: miopenStatusInternalError",
                  "set_product_library", "without MIOpen"});
  }
  const Scoped reset;
  Case groups(12);  // with dilation
  groups.window.groups      = 2;
  groups.window.offset[2]   = -1;
  groups.window.dilation[2] = 2;
  EXPECT_FALSE(groups.gradient());
  EXPECT_EQ(calls(), "");
}

/// Computes a product, or returns false if rocBLAS doesn't support it.
bool multiply(const impl::VendorProduct& v,
              ProductPrecision precision = ProductPrecision::float32) {
  impl::VendorProductPlan* const plan = impl::vendor_product_plan(v, precision);
  if (plan != nullptr) impl::run_vendor_product(Space(), *plan, v);
  return plan != nullptr;
}

/// The product by rocBLAS, as multiply_by_vendor calls it on a device. Returns whether it was
/// described.
bool check_product(const impl::Product<float>& p, std::vector<float>& memory) {
  auto v = impl::VendorProduct::of(p);
  if (!v) return false;
  const auto expected = product_of(p, memory);
  if (p.start != nullptr && v->bias == nullptr) {
    start_in_plain_loops(p);
    v->add = true;
  }
  EXPECT_TRUE(multiply(*v));
  expect_near(memory, expected, "product");
  if (v->sums && p.add) {
    impl::Product<float> from_zero = p;
    from_zero.add                  = false;
    return check_product(from_zero, memory);
  }
  return true;
}

TEST(Rocblas, ProductsOfALinear) {
  const Scoped reset;
  Generator random(23);
  EXPECT_EQ(count_linear(random, 1, 7, 5, 3, false, check_product), 4);
  EXPECT_EQ(calls(),
            "product TN 3x7x5 batch 1 beta 1 math 0 workspace 33554432\n"
            "product TN 3x7x5 batch 1 beta 1 math 0 workspace 33554432\n"
            "product NN 5x7x3 batch 1 beta 0 math 0 workspace 33554432\n"
            "product NT 5x3x7 batch 1 beta 1 math 0 workspace 33554432\n");
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(count_linear(random, random.between(1, 4), random.between(1, 6), random.between(1, 9),
                           random.between(1, 9), true, check_product),
              4);
}

TEST(Rocblas, PrecisionAndStatuses) {
  Generator random(24);
  auto memory = values<float>(random, 64);
  impl::VendorProduct v;
  v.a = {memory.data(), false, 2, 0};
  v.b = {memory.data() + 16, false, 2, 0};
  v.d = memory.data() + 32;
  v.m = v.n = v.k = v.leading_d = 2;
  const auto run                = [&](ProductPrecision precision = ProductPrecision::float32) {
    return multiply(v, precision);
  };
  const Scoped degraded({.product = 7});  // which says that it was slow
  EXPECT_TRUE(run(ProductPrecision::tf32) && run(ProductPrecision::bfloat16) && run());
  const std::string product = "product NN 2x2x2 batch 1 beta 0 math ";
  EXPECT_EQ(calls(), product + "1 workspace 33554432\n" + product + "1 workspace 33554432\n" +
                         product + "0 workspace 33554432\n");
  const Scoped fails({.product = 6});
  expect_parts(message_thrown_by<Error>([&] { run(); }),
               {"rocblas_sgemm_strided_batched failed: rocblas_status_internal_error",
                "set_product_library", "without rocBLAS"});
  v.leading_d = index_t{1} << 31U;  // its integers have 32 bits
  EXPECT_FALSE(run());
}

}  // namespace
}  // namespace shard::testing
