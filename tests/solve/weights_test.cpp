// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inner products with weights and masks, and the Chebyshev iteration.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "shard/solve/cg.hpp"
#include "shard/solve/chebyshev_solver.hpp"
#include "shard/solve/diffusion.hpp"
#include "shard/solve/gmres.hpp"
#include "shard/solve/lsqr.hpp"
#include "shard/solve/preconditioners.hpp"
#include "solve/solve_support.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

using Cells = Plane<Symmetric>;

double area_of(index_t i, index_t j) { return 1.0 / static_cast<double>(1 + (i * 3 + j * 7) % 5); }
constexpr auto area = [](const auto& g) { return area_of(g[0], g[1]); };
constexpr auto wave = [](const auto& g) {
  return std::sin(0.3 * static_cast<double>(g[0])) + std::cos(0.2 * static_cast<double>(g[1]) + 1);
};
constexpr bool is_land(index_t i, index_t j) { return (i / 3 + j / 2) % 4 == 0; }
constexpr auto sea = [](const auto& g) { return is_land(g[0], g[1]) ? 0.0 : area_of(g[0], g[1]); };

TEST(Weights, DotsLeaveOutWhatIsMasked) {
  const Cells x("x", grid(), {13, 17}), y = x.like("y"), w = x.like("w");
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  set(x, [](const auto& g) { return is_land(g[0], g[1]) ? nan : wave(g); });
  set(y, [](const auto& g) { return static_cast<double>(1 + g[0]); });
  set(w, sea);
  double xx = 0.0, xy = 0.0;
  for (index_t i = 0; i < 13; ++i)
    for (index_t j = 0; j < 17; ++j) {
      if (is_land(i, j)) continue;
      const double v = wave(std::array{i, j});
      xx += area_of(i, j) * v * v;
      xy += area_of(i, j) * v * static_cast<double>(1 + i);
    }
  const auto sums = weighted_dots(Space(), w, std::tie(x, x), std::tie(x, y));
  EXPECT_NEAR(sums[0], xx, 1e-12 * xx);
  EXPECT_NEAR(sums[1], xy, 1e-12 * std::abs(xy));
  const Cells serial("x", alone(), {13, 17}), weights = serial.like("w");
  set(serial, wave);
  set(weights, sea);
  EXPECT_EQ(weighted_dots<Determinism::ordered>(Space(), w, std::tie(x, x)),
            weighted_dots<Determinism::ordered>(Space(), weights, std::tie(serial, serial)));
}

/// y = K x / weight: symmetric in the product with the weights.
struct PerArea {
  Diffusion<Cells> a;
  Cells weight;
  template <class S>
  void apply(const S& space, const Cells& y, const Cells& x) const {
    a.apply(space, y, x);
    over(space, y, y);
  }
  /// y = x / weight
  template <class S>
  void over(const S& space, const Cells& y, const Cells& x) const {
    parallel_for("per_area", space, owned_region(y),
                 impl::ScaledStepKernel<Cells>{y, y, x, weight, 1.0, true});
  }
};
/// z = r / weight
struct DividedByArea {
  PerArea a;
  template <class S>
  void apply(const S& space, const Cells& z, const Cells& r) const {
    a.over(space, z, r);
  }
};

// CG for A = W^-1 K in the product with W takes the steps of CG for K with W^-1 before it.
TEST(Weights, OperatorsThatAreSymmetricByArea) {
  const auto solve = [](const Grid& on) {
    const Cells x("x", on, {20, 24}), b = x.like("b"), w = x.like("w"), u = x.like("u");
    set(w, area);
    set(b, wave);
    const Diffusion k(x, {.spacing = {1.0, 1.0}, .shift = 0.05});
    const PerArea a{k, w};
    const SolveOptions options{.relative = 1e-11, .determinism = Determinism::ordered};
    CG other(u, k, DividedByArea{a}, options);
    const SolveResult expected = other(Space(), u, b);
    EXPECT_TRUE(expected) << expected.text();
    a.over(Space(), b, b);
    CG cg(x, a, options);
    cg.set_weights(Space(), w);
    const SolveResult result = cg(Space(), x, b);
    EXPECT_TRUE(result) << result.text();
    EXPECT_NEAR(result.iterations, expected.iterations, 2);
    axpby(Space(), u, 1.0, x, -1.0);
    EXPECT_LT(dots(Space(), std::tie(u, u))[0], 1e-16);
    return x;
  };
  const auto sharded = solve(grid());
  EXPECT_TRUE(same_bits(sharded, solve(alone())));
}

// Walls without flux: the part of b along the constants is its weighted mean.
TEST(Weights, NullspaceIsThatOfTheProduct) {
  const Cells x("x", grid(), {16, 11}), b = x.like("b"), w = x.like("w"), one = x.like("one");
  set(w, area);
  set(b, wave);
  deep_copy(Space(), one, 1.0);
  const PerArea a{Diffusion(x, {.spacing = {1.0, 1.0}}), w};
  CG cg(x, a, {.relative = 1e-10, .nullspace = Nullspace::constant});
  cg.set_weights(Space(), w);
  const auto sums        = weighted_dots(Space(), w, std::tie(one, b), std::tie(one, one));
  const double mean      = sums[0] / sums[1];
  const SolveResult none = cg(Space(), x, b);
  EXPECT_EQ(none.status, SolveStatus::inconsistent) << none.text();
  EXPECT_NEAR(none.residual, std::abs(mean) * std::sqrt(sums[1]), 1e-8);
  axpby(Space(), b, -mean, one, 1.0);
  const SolveResult result = cg(Space(), x, b);
  EXPECT_TRUE(result) << result.text();
}

/// Points on land are read as 0 and left alone.
struct AtSea {
  Cells weight;
  static constexpr bool is_star = true;
  KOKKOS_FUNCTION double at(const Cells& x, int i, int j) const {
    return weight(i, j) == 0.0 ? 0.0 : x(i, j);
  }
  template <class X>
  KOKKOS_FUNCTION double operator()(const X& x, int i, int j) const {
    return 4.5 * x(i, j) - at(x, i - 1, j) - at(x, i + 1, j) - at(x, i, j - 1) - at(x, i, j + 1);
  }
};

// b is NaN on land, which neither method sees.
TEST(Weights, MaskedPointsAreNotSeen) {
  const Cells x("x", grid(), {18, 14}), b = x.like("b"), w = x.like("w"), y = x.like("y");
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  set(w, [](const auto& g) { return is_land(g[0], g[1]) ? 0.0 : 1.0; });
  exchange(Space(), w);
  set(b, [](const auto& g) { return is_land(g[0], g[1]) ? nan : wave(g); });
  const StencilOperator a(x, AtSea{w});
  const auto solve = [&](auto solver) {
    set(x, [](const auto&) { return 0.0; });
    solver.set_weights(Space(), w);
    const SolveResult result = solver(Space(), x, b);
    EXPECT_TRUE(result) << result.text();
    a.apply(Space(), y, x);
    axpby(Space(), y, -1.0, b, 1.0);
    EXPECT_LT(weighted_dots(Space(), w, std::tie(y, y))[0], 1e-16);
  };
  const SolveOptions options{.relative = 1e-11};
  solve(CG(x, a, options));
  solve(GMRES(x, a, options));
}

// Walls without flux: what is left over of the least squares is c / weight with the sum of b. Where
// points have the weight 0 nothing is left over.
TEST(Weights, LeastSquaresOfTheProduct) {
  const auto solve = [](const Grid& on, bool masked, SolveResult& result) {
    const Cells x("x", on, {7, 6}), b = x.like("b"), w = x.like("w");
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    const auto is_out    = [=](const auto& g) { return masked && is_land(g[0], g[1]); };
    set(w, [=](const auto& g) { return is_out(g) ? 0.0 : area(g); });
    set(b, [=](const auto& g) { return is_out(g) ? nan : wave(g); });
    LSQR lsqr(x, b, Diffusion(x, {.spacing = {1.0, 1.0}}),
              {.relative = 1e-9, .iterations = 2000, .determinism = Determinism::ordered});
    lsqr.set_weights(w);
    result = lsqr(Space(), x, b);
    return x;
  };
  double sum = 0.0, widths = 0.0;
  for (index_t i = 0; i < 7; ++i)
    for (index_t j = 0; j < 6; ++j) {
      sum += wave(std::array{i, j});
      widths += 1.0 / area_of(i, j);
    }
  SolveResult result, serial;
  const Cells x = solve(grid(), false, result);
  EXPECT_EQ(result.status, SolveStatus::inconsistent) << result.text();
  EXPECT_NEAR(result.residual, std::abs(sum) / std::sqrt(widths), 1e-8);
  EXPECT_TRUE(same_bits(x, solve(alone(), false, serial)));
  (void)solve(grid(), true, result);
  EXPECT_TRUE(result) << result.text();
}

using Framed = Plane<Zero>;
struct Five {
  KOKKOS_FUNCTION double operator()(const Framed& x, int i, int j) const {
    return 4.0 * x(i, j) - x(i - 1, j) - x(i + 1, j) - x(i, j - 1) - x(i, j + 1);
  }
  KOKKOS_FUNCTION double diagonal(const Framed&, int, int) const { return 4.0; }
};

// The residual falls as the polynomial says: |r_k| <= |r_0| / T_k((high + low) / (high - low)).
TEST(ChebyshevSolver, FallsAsItsPolynomial) {
  constexpr int n  = 15;
  const double low = 4.0 - 4.0 * std::cos(pi / (n + 1)), high = 4.0 + 4.0 * std::cos(pi / (n + 1));
  const auto solve = [&](const Grid& on, EigenvalueBounds bounds, SolveResult& result) {
    const Framed x("x", on, {n, n}), b = x.like("b");
    set(b, wave);
    const StencilOperator a(x, Five{});
    ChebyshevSolver solver(x, a, Jacobi(Space(), x, a), {bounds.smallest / 4, bounds.largest / 4},
                           {.relative = 1e-8, .determinism = Determinism::ordered});
    result = solver(Space(), x, b);
    for (std::size_t k = 1; k < solver.history().size(); ++k) {
      const double at =
          std::cosh(10.0 * static_cast<double>(k) * std::acosh((high + low) / (high - low)));
      EXPECT_TRUE(!result || solver.history()[k] < 1.0001 * solver.history()[0] / at);
    }
    return x;
  };
  SolveResult result, serial;
  const Framed x = solve(grid(), {low, high}, result);
  EXPECT_TRUE(result) << result.text();
  EXPECT_EQ(result.iterations % 10, 0);
  EXPECT_TRUE(same_bits(x, solve(alone(), {low, high}, serial)));
  EXPECT_EQ(result.iterations, serial.iterations);
  (void)solve(grid(), {low, 0.7 * high}, result);
  EXPECT_EQ(result.status, SolveStatus::stagnated) << result.text();
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 (void)solve(grid(), {1.0, 1.0}, result);
               }),
               {"ChebyshevSolver", "0 < smallest < largest"});
}

}  // namespace
}  // namespace shard::testing
