// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Solvers of hard numbers: tiny and huge right-hand sides, singular systems, tolerances that can't
// be reached, land.
#include <gtest/gtest.h>

#include <climits>
#include <cmath>
#include <string>
#include <vector>

#include "shard/solve/bicgstab.hpp"
#include "shard/solve/cg.hpp"
#include "shard/solve/chebyshev_solver.hpp"
#include "shard/solve/diffusion.hpp"
#include "shard/solve/gmres.hpp"
#include "shard/solve/linear_solve.hpp"
#include "shard/solve/lsqr.hpp"
#include "shard/solve/minres.hpp"
#include "shard/solve/multigrid.hpp"
#include "shard/solve/pipelined_cg.hpp"
#include "solve/solve_support.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

using L = Line<Zero>;

Grid in_a_row() { return Grid(MPI_COMM_WORLD, {world_size(), 1}); }
double rough(index_t i) { return std::sin(0.3 + 1.7 * static_cast<double>(i)); }

/// A symmetric matrix: `diagonal`, of alternating sign if `indefinite`, and -1 beside it.
struct Beside {
  static constexpr bool is_symmetric = true;
  double diagonal;
  bool indefinite;
  template <class X>
  KOKKOS_FUNCTION double operator()(const X& x, int i) const {
    const double sign = indefinite && x.to_global(0, i) % 2 == 1 ? -1.0 : 1.0;
    return sign * diagonal * x(i) - x(i - 1) - x(i + 1);
  }
};

TEST(SolveScales, TinyAndHugeRightHandSides) {
  const Space space;
  const L x("x", in_a_row(), {23}), b = x.like("b"), y = x.like("y");
  const StencilOperator a(x, Beside{2.5, false});
  set(y, [](const auto& i) { return rough(i[0]); });
  const SolveOptions options{.relative = 1e-10};
  const auto check = [&](const char* name, auto solver) {
    int usual = 0;
    for (const double scale :
         {1.0, 1e-300, 1e-200, 1e-163, 1e-160, 1e-150, 1e150, 1e160, 1e200, 1e300}) {
      a.apply(space, b, y);
      axpby(space, b, 0.0, b, scale);
      set(x, [](const auto&) { return 0.0; });
      const SolveResult result = solver(space, x, b);
      EXPECT_TRUE(result) << name << ' ' << scale << ' ' << result.text();
      if (scale == 1.0) usual = result.iterations;
      EXPECT_EQ(result.iterations, usual) << name << ' ' << scale;
      EXPECT_GT(result.rhs, 0.0);
      EXPECT_LE(result.residual, 1e-10 * result.rhs);
      EXPECT_LT(error_of(x, [&](const auto& i) { return scale * rough(i[0]); }), 1e-8 * scale)
          << name << ' ' << scale;
    }
  };
  check("CG", CG(x, a, options));
  check("PipelinedCG", PipelinedCG(x, a, options));
  check("MINRES", MINRES(x, a, options));
  check("ChebyshevSolver", ChebyshevSolver(x, a, {0.5, 4.5}, options));
  check("BiCGStab", BiCGStab(x, a, options));
  check("GMRES", GMRES(x, a, options));
  check("LSQR", LSQR(x, b, a, options));
  // a start that is huge beside b
  set(b, [](const auto&) { return 1e-200; });
  set(x, [](const auto&) { return 1.0; });
  const SolveResult result = CG(x, a, options)(space, x, b);
  EXPECT_TRUE(result) << result.text();
  EXPECT_LE(result.residual, 1e-209);
  // an infinity is none of these
  set(b, [](const auto& i) { return i[0] == 0 ? HUGE_VAL : 1.0; });
  EXPECT_EQ(CG(x, a)(space, x, b).status, SolveStatus::not_finite);
}

// The units of b don't change MINRES' steps: a Lanczos vector is measured by A, not by b.
TEST(SolveScales, MinresHasNoUnits) {
  const Space space;
  const L x("x", in_a_row(), {60}), b = x.like("b");
  const StencilOperator a(x, Beside{2.2, true});
  const auto iterations = [&](double scale) {
    set(b, [&](const auto& i) { return scale * rough(i[0]); });
    set(x, [](const auto&) { return 0.0; });
    const SolveResult result = MINRES(x, a, {.iterations = 400})(space, x, b);
    EXPECT_TRUE(result) << scale << ' ' << result.text();
    return result.iterations;
  };
  const int usual = iterations(1.0);
  for (const double scale : {1e-100, 1e15, 1e16, 1e18, 1e20, 1e22, 1e100})
    EXPECT_EQ(iterations(scale), usual) << scale;
  // the omega of BiCGStab too
  const ShiftedOperator<decltype(a)> large{a, 0.0, 1e100};
  set(b, [](const auto& i) { return rough(i[0]); });
  set(x, [](const auto&) { return 0.0; });
  const SolveResult result = BiCGStab(x, large, {.iterations = 400})(space, x, b);
  EXPECT_TRUE(result) << result.text();
}

/// A singular matrix: the shift of a line, so the first row is 0, beside the identity.
struct Nilpotent {
  template <class X>
  KOKKOS_FUNCTION double operator()(const X& x, int i) const {
    return x(i - 1);
  }
};

TEST(SolveScales, SingularSystemsEndWithTheirBest) {
  const Space space;
  const L x("x", in_a_row(), {20}), b = x.like("b"), r = x.like("r");
  const auto check = [&](const char* name, const auto& a, double best, auto solver) {
    set(b, [](const auto&) { return 1.0; });
    set(x, [](const auto&) { return 0.0; });
    const SolveResult result = solver(space, x, b);
    EXPECT_FALSE(result) << name;
    EXPECT_LE(result.residual, best) << name << ' ' << result.text();
    a.apply(space, r, x);
    axpby(space, r, 1.0, b, -1.0);
    EXPECT_NEAR(std::sqrt(dots(space, std::tie(r, r))[0]), result.residual, 1e-9)
        << name << ' ' << result.text();
  };
  const double start = std::sqrt(20.0);
  const StencilOperator nilpotent(x, Nilpotent{});
  // all but the first row can be solved
  check("GMRES", nilpotent, 1.0 + 1e-9, GMRES(x, nilpotent, {.restart = 50}));
  check("BiCGStab", nilpotent, start, BiCGStab(x, nilpotent));
  check("short GMRES", nilpotent, start, GMRES(x, nilpotent, {.restart = 3}));
  // two columns that are equal: the least squares have a residual
  const StencilOperator hole(x, Beside{0.0, false});
  set(b, [](const auto&) { return 1.0; });
  set(x, [](const auto&) { return 0.0; });
  EXPECT_LE(GMRES(x, hole, {.restart = 50})(space, x, b).residual, start);
}

TEST(SolveScales, WhatCannotBeReachedIsNoticed) {
  const Space space;
  const L x("x", in_a_row(), {40}), b = x.like("b");
  const StencilOperator a(x, Beside{2.1, false});
  set(b, [](const auto& i) { return rough(i[0]); });
  const auto check = [&](const char* name, auto solver, double most = 1e-13) {
    set(x, [](const auto&) { return 0.0; });
    const SolveResult result = solver(space, x, b);
    EXPECT_NE(result.status, SolveStatus::iterations) << name << ' ' << result.text();
    EXPECT_LT(result.iterations, 400) << name;
    EXPECT_LT(result.residual, most) << name;
  };
  const SolveOptions options{.relative = 0.0, .iterations = 5000};
  check("CG", CG(x, a, options));
  check("PipelinedCG", PipelinedCG(x, a, options), 1e-11);  // its recurrences have more rounding
  check("MINRES", MINRES(x, a, options));
  check("GMRES", GMRES(x, a, options));
  check("BiCGStab", BiCGStab(x, a, options));
}

TEST(SolveScales, OptionsAtTheirEdges) {
  const Space space;
  const L x("x", in_a_row(), {9}), b = x.like("b");
  const StencilOperator a(x, Beside{2.5, false});
  set(b, [](const auto&) { return 1.0; });
  EXPECT_TRUE(CG(x, a, {.iterations = INT_MAX})(space, x, b));
  EXPECT_TRUE(GMRES(x, a, {.iterations = 20, .restart = INT_MAX})(space, x, x.like("x")));
  expect_parts(message_thrown_by<ArgumentError>(
                   [&] { GMRES(x, a, {.iterations = INT_MAX, .restart = 46341}); }),
               {"GMRES", "46341"});
  expect_parts(message_thrown_by<ArgumentError>([&] { MINRES(x, a, {.flexible = true}); }),
               {"MINRES", "flexible"});
  message_thrown_by<ArgumentError>([&] { LSQR(x, b, a, {.nullspace = Nullspace::constant}); });
  // the mean of x stays, for b = 0 too
  const Line<Periodic> p("p", in_a_row(), {9}), q = p.like("q");
  const Diffusion ring(p, {});
  set(p, [](const auto& i) { return 4.0 + (i[0] % 3 == 0 ? 1.0 : -0.5); });
  EXPECT_TRUE(CG(p, ring, {.nullspace = Nullspace::constant})(space, p, q));
  EXPECT_LT(error_of(p, [](const auto&) { return 4.0; }), 1e-14);
  // one solver is for A' only if A is symmetric without weights
  CG weighted(x, a);
  set(b, [](const auto& i) { return i[0] + 1.0; });
  weighted.set_weights(space, b);
  message_thrown_by<ArgumentError>([&] { LinearSolve(weighted).pullback(space, x, b); });
}

using Plain = Plane<Symmetric>;
bool is_land(index_t i, index_t j) {
  return (i >= 3 && i < 7 && j >= 4 && j < 9) || j == 15 || (i == 0 && j == 0);
}

// Land is left as it is; the sea on both sides of a barrier is solved; a NaN is seen.
TEST(SolveScales, LandInMultigrid) {
  const Space space;
  for (const index_t n : {index_t(8), index_t(32)}) {
    const Plain x("x", grid(), {n, n}), b = x.like("b"), k = x.like("k"), sea = x.like("sea"),
                                        known = x.like("known");
    set(k, [](const auto& i) { return is_land(i[0], i[1]) ? 0.0 : 1.0; });
    const Diffusion a(x, k, {});
    set(known, [](const auto& i) { return is_land(i[0], i[1]) ? 0.0 : rough(i[0] + 3 * i[1]); });
    a.apply(space, b, known);
    const Multigrid multigrid(a, {.bottom = 20});
    CG cg(x, a, multigrid, {.relative = 1e-8, .iterations = 200});
    const SolveResult result = cg(space, x, b);
    EXPECT_TRUE(result) << n << ' ' << result.text();
    EXPECT_LT(error_of(x, [](const auto&) { return 0.0; }), 1e3);  // not NaN
    set(sea, [](const auto& i) { return is_land(i[0], i[1]) ? 0.0 : 1.0; });
    CG weighted(x, a, multigrid,
                {.relative = 1e-8, .iterations = 200, .nullspace = Nullspace::constant});
    weighted.set_weights(space, sea);
    set(x, [](const auto&) { return 0.0; });
    const SolveResult again = weighted(space, x, b);
    EXPECT_TRUE(again) << n << ' ' << again.text();
    set(k, [](const auto& i) { return i[0] == 5 && i[1] == 7 ? std::nan("") : 1.0; });
    const Diffusion unknown(x, k, {});
    set(x, [](const auto&) { return 0.0; });
    EXPECT_EQ(CG(x, unknown)(space, x, b).status, SolveStatus::not_finite);
    if (n == 8)
      expect_parts(message_thrown_by<ArgumentError>([&] { Multigrid<Plain, Plain>{unknown}; }),
                   {"Multigrid", "NaN"});
  }
  // no sea at all
  const Plain x("x", grid(), {8, 8}), k = x.like("k");
  message_thrown_by<ArgumentError>([&] { Multigrid(Diffusion(x, k, {})); });
}

// A dimension of one cell without flux isn't seen, whatever its spacing.
TEST(SolveScales, ADimensionOfOneCell) {
  using Thin = Cube<double, Symmetric>;
  const Space space;
  const Thin x("x", grid(), {16, 16, 1}), b = x.like("b");
  const auto iterations = [&](double h) {
    set(b, [](const auto& i) { return rough(i[0] + 7 * i[1]) - 0.02; });
    set(x, [](const auto&) { return 0.0; });
    const Diffusion a(x, {.spacing = {1.0, 1.0, h}});
    CG cg(x, a, Multigrid(a, {.bottom = 20}), {.nullspace = Nullspace::constant});
    return cg(space, x, b).iterations;
  };
  const int usual = iterations(1.0);
  EXPECT_LT(usual, 20);
  EXPECT_EQ(iterations(0.001), usual);
}

// A small shift isn't a null space: one cycle finds the mean.
TEST(SolveScales, ASmallShiftInMultigrid) {
  const Space space;
  const Plain x("x", grid(), {8, 8}), b = x.like("b");
  const Diffusion a(x, {.spacing = {1e-3, 1e-3}, .shift = 1e-6});
  set(b, [](const auto&) { return 2e-6; });
  Multigrid(a).apply(space, x, b);
  EXPECT_LT(error_of(x, [](const auto&) { return 2.0; }), 0.05);
}

}  // namespace
}  // namespace shard::testing
