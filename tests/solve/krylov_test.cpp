// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Krylov methods on problems whose answers are known, on every number of ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "shard/solve/bicgstab.hpp"
#include "shard/solve/cg.hpp"
#include "shard/solve/diffusion.hpp"
#include "shard/solve/eigenvalues.hpp"
#include "shard/solve/gmres.hpp"
#include "shard/solve/lsqr.hpp"
#include "shard/solve/minres.hpp"
#include "shard/solve/pipelined_cg.hpp"
#include "shard/solve/preconditioners.hpp"
#include "solve/krylov_support.hpp"
#include "support/counting.hpp"

namespace shard::testing {
namespace {

using F = Plane<Zero>;

TEST(Krylov, ConvergesInAsManyStepsAsEigenvectors) {
  const Space space;
  const Plane<Zero> x("x", grid(), {rows, columns}), b = x.like("b");
  const StencilOperator a(x, FivePoint{});
  constexpr double sigma = 1.4;  // between eigenvalues
  for (const int m : {1, 2, 5, 10}) {
    const auto solution = [&](const auto& i, double shift) {
      double sum = 0.0;
      for (int k = 1; k <= m; ++k)
        sum += mode(i, 12 - k, 16 - k) / (eigenvalue(12 - k, 16 - k) - shift);
      return sum;
    };
    set(b, [&](const auto& i) {
      double sum = 0.0;
      for (int k = 1; k <= m; ++k) sum += mode(i, 12 - k, 16 - k);
      return sum;
    });
    const SolveOptions options{.relative = 1e-10, .determinism = ordered};
    const auto check = [&](const char* name, auto solver, double shift) {
      set(x, [](const auto&) { return 0.0; });
      const SolveResult result = solver(space, x, b);
      EXPECT_TRUE(result) << name << ' ' << result.text();
      EXPECT_EQ(result.iterations, m) << name;
      EXPECT_LT(error_of(x, [&](const auto& i) { return solution(i, shift); }), 1e-8) << name;
    };
    check("CG", CG(x, a, options), 0.0);
    check("PipelinedCG", PipelinedCG(x, a, options), 0.0);
    check("GMRES", GMRES(x, a, options), 0.0);
    check("MINRES", MINRES(x, shifted(a, -sigma), options), sigma);
  }
}

TEST(Krylov, AnyOperatorAndPreconditioner) {
  const Space space;
  const Plane<Zero> x("x", grid(), {rows, columns}), b = x.like("b"), y = x.like("y");
  set(y, [](const auto& i) { return rough(i); });
  const StencilOperator<Plane<Zero>, Upwind, UpwindAdjoint> a(x, {}, UpwindAdjoint{});
  const StencilOperator symmetric(x, FivePoint{});
  const SolveOptions options{.relative = 1e-11};
  const auto check = [&](const char* name, auto solver, const auto& op, int most) {
    op.apply(space, b, y);
    set(x, [](const auto&) { return 0.0; });
    const SolveResult result = solver(space, x, b);
    EXPECT_TRUE(result) << name << ' ' << result.text();
    EXPECT_LE(result.iterations, most) << name;
    EXPECT_LT(error_of(x, [](const auto& i) { return rough(i); }), 1e-8) << name;
    EXPECT_EQ(solver.history().size(), static_cast<std::size_t>(result.iterations) + 1) << name;
  };
  check("BiCGStab", BiCGStab(x, a, options), a, 40);
  check("GMRES", GMRES(x, a, options), a, 60);
  check("GMRES restarted", GMRES(x, a, {.relative = 1e-11, .restart = 5}), a, 100);
  check("LSQR", LSQR(x, b, a, options), a, 200);
  const Chebyshev smoother(space, x, symmetric, {.steps = 4, .largest = 2.0, .smallest = 0.05});
  const Jacobi jacobi(space, x, symmetric);
  const int plain = 80;
  check("CG with Jacobi", CG(x, symmetric, jacobi, options), symmetric, plain);
  check("CG with Chebyshev", CG(x, symmetric, smoother, options), symmetric, 25);
  check("flexible CG", CG(x, symmetric, smoother, {.relative = 1e-11, .flexible = true}), symmetric,
        25);
  check("PipelinedCG", PipelinedCG(x, symmetric, smoother, options), symmetric, 25);
  check("MINRES", MINRES(x, symmetric, smoother, options), symmetric, 25);
  check("GMRES, right", GMRES(x, symmetric, smoother, options), symmetric, 25);
  check("FGMRES", GMRES(x, symmetric, smoother, {.relative = 1e-11, .flexible = true}), symmetric,
        25);
  check("BiCGStab with Jacobi", BiCGStab(x, symmetric, jacobi, options), symmetric, plain);
  // <A x, y> = <x, A' y>
  const auto ax = x.like("ax"), ay = x.like("ay");
  set(x, [](const auto& i) { return rough(i) + 0.1; });
  a.apply(space, ax, x);
  a.apply_adjoint(space, ay, y);
  const auto both = dots(space, std::tie(ax, y), std::tie(ay, x));
  EXPECT_NEAR(both[0], both[1], 1e-12 * std::abs(both[0]));
  // (2 A' S + A + 3)', by parts
  const auto op =
      OperatorSum(shifted(OperatorProduct(adjoint_of(a), symmetric, x), 3.0, 2.0), a, x);
  op.apply(space, ax, x);
  impl::apply_adjoint(op, space, ay, y);
  const auto sides = dots<ordered>(space, std::tie(ax, y), std::tie(ay, x));
  EXPECT_NEAR(sides[0], sides[1], 1e-12 * std::abs(sides[0]));
  EXPECT_GT(std::abs(sides[0]), 1.0);
}

TEST(Krylov, SameBitsOnAllRanks) {
  const Space space;
  Random random(seed());
  const auto solve = [&](const F& x, auto&& make) {
    const auto b = x.like("b");
    set(b, [](const auto& i) { return rough(i); });
    auto solver              = make(x);
    const SolveResult result = solver(space, x, b);
    EXPECT_TRUE(result) << result.text();
    return result.iterations;
  };
  const SolveOptions options{.relative = 1e-9, .determinism = ordered};
  const auto shape = shapes(world_size()).back();
  const auto check = [&](const char* name, auto&& make) {
    const F serial("x", alone(), {rows, columns});
    const int iterations = solve(serial, make);
    for (int which = 0; which < 3; ++which) {  // balanced, then uneven with empty shards
      const F x("x", grid(),
                {some_partition(rows, shape[0], which, random),
                 some_partition(columns, shape[1], which, random)});
      EXPECT_EQ(solve(x, make), iterations) << name;
      EXPECT_TRUE(same_bits(x, serial)) << name << ' ' << which;
    }
  };
  check("CG", [&](const F& x) { return CG(x, StencilOperator(x, FivePoint{}), options); });
  check("PipelinedCG",
        [&](const F& x) { return PipelinedCG(x, StencilOperator(x, FivePoint{}), options); });
  check("GMRES", [&](const F& x) { return GMRES(x, StencilOperator(x, Upwind{}), options); });
  check("BiCGStab", [&](const F& x) { return BiCGStab(x, StencilOperator(x, Upwind{}), options); });
  check("MINRES", [&](const F& x) { return MINRES(x, StencilOperator(x, FivePoint{}), options); });
}

// The updates of several vectors in one pass, and the sum of what it wrote, beside one vector after
// the other.
TEST(Krylov, FusedUpdatesHaveTheBitsOfSingleOnes) {
  const Space space;
  const F x("x", grid(), {rows, columns}), b = x.like("b"), y = x.like("y"), r = x.like("r"),
                                           p = x.like("p"), q = x.like("q"), ones = x.like("1");
  const StencilOperator a(x, FivePoint{});
  set(b, [](const auto& i) { return rough(i); });
  set(ones, [](const auto&) { return 1.0; });
  const auto square = [&](const F& v) { return dots<ordered>(space, std::tie(v, v))[0]; };
  for (const int iterations : {1, 2, 3, 17}) {
    set(y, [](const auto&) { return 0.0; });
    axpby(space, r, 1.0, b, 0.0);
    axpby(space, p, 1.0, b, 0.0);
    double rr = std::pow(std::sqrt(square(r)), 2);
    for (int k = 0; k < iterations; ++k) {
      a.apply(space, q, p);
      const double alpha = rr / dots<ordered>(space, std::tie(p, q))[0], before = rr;
      axpby(space, y, alpha, p, 1.0);
      axpby(space, r, -alpha, q, 1.0);
      rr = square(r);
      axpby(space, p, 1.0, r, rr / before);
    }
    space.fence();
    const auto expected = on_host(y);
    for (const bool weighted : {false, true}) {  // with weights each sum is a pass of its own
      CG cg(x, a, {.iterations = iterations, .determinism = ordered});
      if (weighted) cg.set_weights(space, ones);
      set(x, [](const auto&) { return 0.0; });
      const SolveResult result = cg(space, x, b);
      EXPECT_EQ(result.status, SolveStatus::iterations) << result.text();
      EXPECT_NEAR(result.implicit, std::sqrt(rr), 1e-14 * std::sqrt(rr));
      EXPECT_NEAR(result.residual, std::sqrt(rr), 1e-9 * std::sqrt(rr));  // x isn't a step behind
      EXPECT_LT(error_of(x,
                         [&](const auto& i) {
                           return expected(static_cast<int>(i[0] - y.begin(0)),
                                           static_cast<int>(i[1] - y.begin(1)));
                         }),
                1e-300)
          << iterations << (weighted ? " weighted" : "");
    }
  }
}

TEST(Krylov, SecondSolveAllocatesNothing) {
  const Space space;
  const Plane<Zero> x("x", grid(), {rows, columns}), b = x.like("b");
  set(b, [](const auto& i) { return rough(i); });
  const auto check = [&](const char* name, auto solver) {
    set(x, [](const auto&) { return 0.0; });
    SolveResult result  = solver(space, x, b);
    const Counts counts = count([&] {
      deep_copy(space, x, 0.0);
      result = solver(space, x, b);
    });
    EXPECT_EQ(counts.allocations, 0) << name;
    EXPECT_TRUE(result) << name;
  };
  const StencilOperator a(x, FivePoint{});
  check("CG", CG(x, a));
  check("GMRES", GMRES(x, a));
  check("MINRES", MINRES(x, a));
  check("BiCGStab", BiCGStab(x, a));
}

// In float its recurrences break down near each replacement of the residual: it begins again.
TEST(Krylov, PipelinedInFloat) {
  const Space space;
  using P = ShardedView<float**, Kokkos::LayoutRight, ShardDim<0, Lat, Halo<1>, Zero>,
                        ShardDim<1, Lon, Halo<1>, Zero>>;
  const P x("x", grid(), {64, 64}), b = x.like("b");
  set(b, [](const auto& i) { return rough(i); });
  const Diffusion a(x, {.spacing = {1.0, 1.0}});
  PipelinedCG solver(x, a, Jacobi(space, x, a), {.relative = 1e-6});
  const SolveResult result = solver(space, x, b);
  EXPECT_TRUE(result) << result.text();
}

TEST(Krylov, TupleOfFields) {
  // two fields of different extents: each has its own Laplacian
  const Space space;
  const Grid mesh = grid();
  const F u("u", mesh, {rows, columns}), v("v", mesh, {rows + 1, columns - 5});
  const std::tuple<F, F> x(u, v), b(u.like("bu"), v.like("bv"));
  const Both<StencilOperator<F, FivePoint>> a{StencilOperator(u, FivePoint{}),
                                              StencilOperator(v, FivePoint{})};
  set(u, [](const auto& i) { return rough(i); });
  set(v, [](const auto& i) { return 1.0 - rough(i); });
  a.apply(space, b, x);
  impl::zero_value(space, x);
  CG cg(x, a, {.relative = 1e-12, .determinism = ordered});
  const SolveResult result = cg(space, x, b);
  EXPECT_TRUE(result) << result.text();
  EXPECT_LT(error_of(u, [](const auto& i) { return rough(i); }), 1e-10);
  EXPECT_LT(error_of(v, [](const auto& i) { return 1.0 - rough(i); }), 1e-10);
}

TEST(Krylov, Eigenvalues) {
  const Space space;
  const Plane<Zero> x("x", grid(), {rows, columns});
  const StencilOperator a(x, FivePoint{});
  const EigenvalueBounds all = eigenvalue_bounds(space, x, a, Identity{}, 80);
  EXPECT_NEAR(all.largest, eigenvalue(rows, columns), 1e-6);
  EXPECT_NEAR(all.smallest, eigenvalue(1, 1), 1e-6);
  const EigenvalueBounds ten = eigenvalue_bounds(space, x, a, Jacobi(space, x, a));
  const double largest       = eigenvalue(rows, columns) / 4.0;
  EXPECT_LE(ten.largest, largest);
  EXPECT_GE(ten.largest, 0.9 * largest);
}

}  // namespace
}  // namespace shard::testing
