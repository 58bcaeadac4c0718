// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Krylov methods on problems whose answers are known, on every number of ranks.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <tuple>
#include <vector>

#include "shard/autodiff/checks.hpp"
#include "shard/solve/bicgstab.hpp"
#include "shard/solve/cg.hpp"
#include "shard/solve/diffusion.hpp"
#include "shard/solve/eigenvalues.hpp"
#include "shard/solve/gmres.hpp"
#include "shard/solve/linear_solve.hpp"
#include "shard/solve/lsqr.hpp"
#include "shard/solve/minres.hpp"
#include "shard/solve/pipelined_cg.hpp"
#include "shard/solve/preconditioners.hpp"
#include "shard/solve/refinement.hpp"
#include "shard/solve/tridiagonal.hpp"
#include "solve/solve_support.hpp"
#include "support/counting.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

using F                = Plane<Zero>;
constexpr auto ordered = Determinism::ordered;

/// The five-point Laplacian of points inside a frame of zeros.
struct FivePoint {
  static constexpr bool is_star = true, is_symmetric = true;
  template <class X>
  KOKKOS_FUNCTION double operator()(const X& x, int i, int j) const {
    return 4.0 * x(i, j) - x(i - 1, j) - x(i + 1, j) - x(i, j - 1) - x(i, j + 1);
  }
  template <class X>
  KOKKOS_FUNCTION double diagonal(const X&, int, int) const {
    return 4.0;
  }
};
/// y(i) = x(i - 1): of a Periodic line the cyclic shift.
struct ShiftBy {
  template <class X>
  KOKKOS_FUNCTION double operator()(const X& x, int i) const {
    return x(i - 1);
  }
};
/// y(i) = sign x(i - 1), alternating: of two points [[0, 1], [-1, 0]].
struct Rotation {
  template <class X>
  KOKKOS_FUNCTION double operator()(const X& x, int i) const {
    return x.to_global(0, i) == 0 ? x(i + 1) : -x(i - 1);
  }
};
/// The diagonal matrix of 1, -1, 1, ...
struct Alternating {
  static constexpr bool is_symmetric = true;
  template <class X>
  KOKKOS_FUNCTION double operator()(const X& x, int i) const {
    return x.to_global(0, i) % 2 == 0 ? x(i) : -x(i);
  }
};
/// Differences of a line: from points to the spaces between them, by an explicit adjoint.
struct Hole {
  template <class X>
  KOKKOS_FUNCTION double operator()(const X& x, int i) const {
    return x.to_global(0, i) == 3 ? 0.0 : 2.0 * x(i) - x(i - 1);
  }
};
struct HoleAdjoint {
  template <class X>
  KOKKOS_FUNCTION double operator()(const X& x, int i) const {
    const double here = x.to_global(0, i) == 3 ? 0.0 : 2.0 * x(i);
    const bool next   = x.to_global(0, i) + 1 < x.global_extent(0) && x.to_global(0, i) + 1 != 3;
    return here - (next ? x(i + 1) : 0.0);
  }
};

constexpr index_t rows = 13, columns = 18;

/// The eigenvector (p, q) of FivePoint.
template <class Index>
double mode(const Index& i, int p, int q) {
  return std::sin(pi * p * static_cast<double>(i[0] + 1) / (rows + 1.0)) *
         std::sin(pi * q * static_cast<double>(i[1] + 1) / (columns + 1.0));
}
double eigenvalue(int p, int q) {
  return 4.0 - 2.0 * std::cos(pi * p / (rows + 1.0)) - 2.0 * std::cos(pi * q / (columns + 1.0));
}
template <class Index>
double rough(const Index& i) {
  double phase = 0.3;
  for (const index_t k : i) phase = 1.7 * phase + 0.9 * static_cast<double>(k);
  return std::sin(phase);
}

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

TEST(Krylov, RefinementReachesTheDigitsOfDouble) {
  const Space space;
  using Single     = Cube<float, Zero>;
  using Double     = Cube<double, Zero>;
  const auto cube  = [](const auto& i) { return rough(i); };
  const auto solve = [&](const Grid& mesh) {
    const Double x("x", mesh, {12, 10, 8}), b           = x.like("b");
    const Single single("single", mesh, {12, 10, 8}), c = single.like("c");
    const Diffusion a(x, {});
    const Diffusion a_single(single, {});
    set(b, cube);
    set(c, cube);
    const SolveOptions loose{.relative = 1e-4, .determinism = ordered},
        tight{.relative = 1e-13, .determinism = ordered};
    // in float alone it is out of reach
    CG alone_in_float(single, a_single, tight);
    EXPECT_EQ(alone_in_float(space, single, c).status, SolveStatus::stagnated);
    Refinement solver(x, a, CG(single, a_single, loose), tight);
    const SolveResult result = solver(space, x, b);
    EXPECT_TRUE(result) << result.text();
    EXPECT_LE(result.residual, 1e-13 * result.rhs);
    EXPECT_LE(solver.history().size(), 6U);  // four digits each
    EXPECT_GT(result.iterations, 40);
    CG whole(x, a, tight);
    const Double y = x.like("y");
    EXPECT_TRUE(whole(space, y, b));
    axpby(space, y, 1.0, x, -1.0);
    EXPECT_LT(dots(space, std::tie(y, y))[0], 1e-22);
    return x;
  };
  const auto shape = shapes(world_size()).back();
  EXPECT_TRUE(same_bits(solve(Grid(MPI_COMM_WORLD, {shape[0], shape[1]})), solve(alone())));

  // numbers that float hasn't
  const Grid mesh = grid();
  const Double x("x", mesh, {12, 10, 8}), b = x.like("b");
  const Single single("single", mesh, {12, 10, 8});
  set(b, [&](const auto& i) { return 1e-60 * cube(i); });
  const Diffusion a(x, {});
  const Diffusion a_single(single, {});
  Refinement solver(x, a, CG(single, a_single, {.relative = 1e-4}), {.relative = 1e-12});
  const SolveResult result = solver(space, x, b);
  EXPECT_TRUE(result) << result.text();
  const Single shorter("shorter", mesh, {12, 10, 7});
  expect_parts(message_thrown_by<ArgumentError>(
                   [&] { Refinement(x, a, CG(shorter, Diffusion(shorter, {}))); }),
               {"Refinement"});
  // corrections that make it worse: x stays as it was
  const auto wrong = shifted(a_single, 0.0, 0.25);
  Refinement worse(x, a, CG(single, wrong, {.relative = 1e-4}), {.relative = 1e-12});
  set(x, [](const auto&) { return 0.0; });
  const SolveResult stagnated = worse(space, x, b);
  EXPECT_EQ(stagnated.status, SolveStatus::stagnated) << stagnated.text();
  EXPECT_EQ(error_of(x, [](const auto&) { return 0.0; }), 0.0);
}

TEST(Krylov, NeumannProblem) {
  // 65 x 130 cells without flux through the walls: cosines are eigenvectors, constants the null
  // space
  const Space space;
  const Plane<Symmetric> x("x", grid(), {65, 130}), b = x.like("b");
  const double h = 1.0 / 65.0;
  const Diffusion a(x, {.spacing = {h, h}});
  const auto cosines = [](const auto& i, int k, int l) {
    return std::cos(pi * k * (static_cast<double>(i[0]) + 0.5) / 65.0) *
           std::cos(pi * l * (static_cast<double>(i[1]) + 0.5) / 130.0);
  };
  const auto lambda = [&](int k, int l) {
    return (4.0 - 2.0 * std::cos(pi * k / 65.0) - 2.0 * std::cos(pi * l / 130.0)) / (h * h);
  };
  const auto exact = [&](const auto& i) {
    return cosines(i, 1, 0) / lambda(1, 0) + 2.0 * cosines(i, 3, 5) / lambda(3, 5) -
           cosines(i, 20, 41) / lambda(20, 41);
  };
  CG cg(x, a, {.relative = 1e-12, .nullspace = Nullspace::constant, .determinism = ordered});
  for (const double mean : {0.0, 1.0}) {
    set(x, [](const auto&) { return 0.0; });
    set(b, [&](const auto& i) {
      return mean + cosines(i, 1, 0) + 2.0 * cosines(i, 3, 5) - cosines(i, 20, 41);
    });
    const SolveResult result = cg(space, x, b);
    EXPECT_EQ(result.status, mean == 0.0 ? SolveStatus::converged : SolveStatus::inconsistent)
        << result.text();
    EXPECT_NEAR(result.residual / std::sqrt(65.0 * 130.0), mean, 1e-10);
    EXPECT_LE(result.iterations, 10);
    EXPECT_LT(error_of(x, exact), 1e-10);
  }
}

TEST(Krylov, SaysWhyItEnds) {
  const Space space;
  const Grid mesh(MPI_COMM_WORLD, {world_size(), 1});
  const Line<Zero> x("x", mesh, {2}), b = x.like("b");
  const StencilOperator alternating(x, Alternating{});
  const StencilOperator rotation(x, Rotation{});
  set(b, [](const auto&) { return 1.0; });
  {
    CG cg(x, alternating);
    const SolveResult result = cg(space, x, b);
    EXPECT_EQ(result.status, SolveStatus::breakdown);
    EXPECT_STREQ(result.broken, "p'Ap");
    EXPECT_EQ(result.iterations, 0);
  }
  {
    BiCGStab solver(x, rotation);
    EXPECT_EQ(solver(space, x, b).status, SolveStatus::breakdown);
    GMRES gmres(x, rotation);
    const SolveResult result = gmres(space, x, b);
    EXPECT_TRUE(result) << result.text();
    EXPECT_EQ(result.iterations, 2);
  }
  {  // b = 0
    set(b, [](const auto&) { return 0.0; });
    set(x, [](const auto&) { return 3.0; });
    GMRES gmres(x, rotation);
    const SolveResult result = gmres(space, x, b);
    EXPECT_TRUE(result);
    EXPECT_EQ(result.iterations, 0);
    EXPECT_EQ(error_of(x, [](const auto&) { return 0.0; }), 0.0);
  }
  {
    set(b, [](const auto& i) { return i[0] == 0 ? 1.0 : std::nan(""); });
    CG cg(x, alternating);
    EXPECT_EQ(cg(space, x, b).status, SolveStatus::not_finite);
  }
  {  // the residual of the cyclic shift stays until the last step
    constexpr int n = 12;
    const Line<Periodic> e("e", mesh, {n}), z = e.like("z");
    const StencilOperator shift(e, ShiftBy{});
    set(e, [](const auto& i) { return i[0] == 0 ? 1.0 : 0.0; });
    GMRES small(e, shift, {.restart = n - 1}), enough(e, shift, {.restart = n});
    const SolveResult stagnated = small(space, z, e);
    EXPECT_EQ(stagnated.status, SolveStatus::stagnated) << stagnated.text();
    EXPECT_NEAR(stagnated.residual, 1.0, 1e-12);
    set(z, [](const auto&) { return 0.0; });
    const SolveResult result = enough(space, z, e);
    EXPECT_TRUE(result) << result.text();
    EXPECT_EQ(result.iterations, n);
  }
  {  // too few iterations
    const Plane<Zero> p("p", grid(), {rows, columns}), q = p.like("q");
    set(q, [](const auto& i) { return rough(i); });
    int calls = 0;
    CG cg(p, StencilOperator(p, FivePoint{}),
          {.iterations = 3, .monitor = [&](int, double) { ++calls; }});
    const SolveResult result = cg(space, p, q);
    EXPECT_EQ(result.status, SolveStatus::iterations);
    EXPECT_EQ(result.iterations, 3);
    EXPECT_EQ(calls, 4);
  }
  {  // least squares: row 3 is zero
    const Line<Zero> p("p", mesh, {9}), q = p.like("q");
    set(q, [](const auto& i) { return rough(i); });
    const StencilOperator<Line<Zero>, Hole, HoleAdjoint> hole(p, {}, HoleAdjoint{});
    LSQR lsqr(p, q, hole, {.relative = 1e-10});
    const SolveResult result = lsqr(space, p, q);
    EXPECT_EQ(result.status, SolveStatus::inconsistent) << result.text();
    EXPECT_NEAR(result.residual, std::abs(rough(std::array<index_t, 1>{3})), 1e-8);
  }
  const std::string message =
      message_thrown_by<ArgumentError>([&] { CG(x, alternating, {.iterations = -1}); });
  expect_parts(message, {"SolveOptions"});
}

TEST(Krylov, RestartedGmresNeverClaimsTooMuch) {
  // dense random matrices on every rank, 25 rows and 24 vectors
  using Whole = ShardedView<double*, Kokkos::LayoutRight>;
  struct Dense {
    Kokkos::View<double**, Kokkos::HostSpace> m;
    void apply(const Space& space, const Whole& y, const Whole& x) const {
      const auto in  = on_host(x);
      const auto out = create_mirror_view(y);
      for (int i = 0; i < 25; ++i) {
        double sum = 0.0;
        for (int j = 0; j < 25; ++j)
          sum += m(static_cast<std::size_t>(i), static_cast<std::size_t>(j)) * in(j);
        out(i) = sum;
      }
      deep_copy(space, y, out);
      space.fence();
    }
  };
  const Space space;
  const Whole x("x", grid(), {25}), b = x.like("b"), r = x.like("r");
  Random random(seed());
  for (int trial = 0; trial < 10; ++trial) {
    Dense a{Kokkos::View<double**, Kokkos::HostSpace>("a", 25, 25)};
    for (std::size_t i = 0; i < 25; ++i)
      for (std::size_t j = 0; j < 25; ++j) a.m(i, j) = random.real();
    set(b, [](const auto& i) { return rough(i); });
    set(x, [](const auto&) { return 0.0; });
    GMRES gmres(x, a, {.iterations = 200, .restart = 24});
    const SolveResult result = gmres(space, x, b);
    a.apply(space, r, x);
    update(space, r, 1.0, b, 0.0, b, -1.0);
    const double residual = std::sqrt(dots(space, std::tie(r, r))[0]);
    EXPECT_NEAR(residual, result.residual, 1e-12);
    if (result) {
      EXPECT_LE(residual, 1e-8 * result.rhs);
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

/// Two operators of one kind, for a pair of fields.
template <class A>
struct Both {
  static constexpr bool is_symmetric = true;
  using V                            = std::tuple<typename A::field_type, typename A::field_type>;
  A first, second;
  void apply(const Space& space, const V& y, const V& x) const {
    first.apply(space, std::get<0>(y), std::get<0>(x));
    second.apply(space, std::get<1>(y), std::get<1>(x));
  }
};

/// z = r + w'r, no better than r, but with a part along the null space. It counts, so that its
/// apply isn't const.
template <class V>
struct Lift {
  V w;
  int applies = 0;
  void apply(const Space& space, const V& z, const V& r) {
    ++applies;
    const double one = 1.0, along = dots<ordered>(space, std::tie(w, r))[0];
    const V* const all[] = {&r};
    impl::update_some<1>(space, z, 0.0, &one, all, along);
  }
};

TEST(Krylov, NullspaceOfSeveralVectors) {
  // two fields, each with its own constant
  const Space space;
  using N         = Plane<Symmetric>;
  using V         = std::tuple<N, N>;
  const Grid mesh = grid();
  const N u("u", mesh, {rows, columns}), v("v", mesh, {rows + 1, columns - 5});
  const V x(u, v), b(u.like("bu"), v.like("bv")), first(u.like("1"), v.like("0")),
      second(u.like("0"), v.like("1")), none(u.like("0"), v.like("0"));
  set(std::get<0>(first), [](const auto&) { return 2.0; });
  set(std::get<0>(second), [](const auto&) { return 1.0; });  // not orthogonal to the first
  set(std::get<1>(second), [](const auto&) { return 0.1; });
  const Lift<V> lift{V(u.like("w"), v.like("w"))};
  set(std::get<0>(lift.w), [](const auto& i) { return rough(i); });
  const Both<Diffusion<N>> a{Diffusion(u, {.spacing = {1.0, 1.0}}),
                             Diffusion(v, {.spacing = {1.0, 1.0}})};
  const auto check = [&](const char* name, auto solver, bool consistent) {
    set(u, [](const auto& i) { return rough(i); });
    set(v, [](const auto& i) { return 1.0 - rough(i); });
    a.apply(space, b, x);
    if (!consistent) {
      const N bv = std::get<1>(b);
      set(std::get<1>(none), [](const auto&) { return 1.0; });
      axpby(space, bv, 1.0, std::get<1>(none), 1.0);
    }
    impl::zero_value(space, x);
    solver.set_nullspace(space, {first, second});
    const SolveResult result = solver(space, x, b);
    EXPECT_EQ(result.status, consistent ? SolveStatus::converged : SolveStatus::inconsistent)
        << name << ' ' << result.text();
    if (!consistent) {
      EXPECT_NEAR(result.residual, std::sqrt((rows + 1.0) * (columns - 5.0)), 1e-9);
    }
    const auto along = dots<ordered>(space, std::tie(x, first), std::tie(x, second));
    EXPECT_NEAR(along[0], 0.0, 1e-8) << name;
    EXPECT_NEAR(along[1], 0.0, 1e-8) << name;
  };
  const SolveOptions options{.relative = 1e-12, .determinism = ordered};
  for (const bool consistent : {true, false}) {
    check("CG", CG(x, a, options), consistent);
    check("CG with a lift", CG(x, a, lift, options), consistent);
    check("GMRES", GMRES(x, a, lift, {.relative = 1e-12, .restart = 100}), consistent);
    check("MINRES", MINRES(x, a, lift, options), consistent);
    check("PipelinedCG", PipelinedCG(x, a, lift, options), consistent);
    check("BiCGStab", BiCGStab(x, a, lift, options), consistent);
  }
  CG cg(x, a);
  set(std::get<1>(none), [](const auto&) { return 0.0; });
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 cg.set_nullspace(space, {first, none});
               }),
               {"set_nullspace", "vector 1 is 0"});
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 cg.set_nullspace(space, {first, second, first});
               }),
               {"set_nullspace", "vector 2"});
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

TEST(Krylov, SolveAsAnOperation) {
  // <A^-1 b, y> = <b, A'^-1 y>
  const Space space;
  const Plane<Zero> x("x", grid(), {rows, columns}), b = x.like("b"), y = x.like("y"),
                                                     z = x.like("z");
  set(b, [](const auto& i) { return rough(i); });
  set(y, [](const auto& i) { return rough(i) * rough(i); });
  const StencilOperator<Plane<Zero>, Upwind, UpwindAdjoint> a(x, {}, UpwindAdjoint{});
  const SolveOptions options{.relative = 1e-13};
  const LinearSolve solve(GMRES(x, a, options), GMRES(x, adjoint_of(a), options));
  solve.apply(space, x, b);
  solve.pullback(space, z, y);
  const auto both = dots(space, std::tie(x, y), std::tie(b, z));
  EXPECT_NEAR(both[0], both[1], 1e-11 * std::abs(both[0]));
  const LinearSolve none(GMRES(x, a, {.iterations = 1}));
  expect_parts(message_thrown_by<Error>([&] { none.apply(space, x, b); }),
               {"LinearSolve", "limit", "1 iterations"});
  expect_parts(message_thrown_by<ArgumentError>([&] { none.pullback(space, z, y); }),
               {"LinearSolve", "symmetric", "second solver"});
}

/// y = x with its halo filled.
struct Exchanged {
  template <class F>
  void apply(const Space& space, const F& y, const F& x) const {
    deep_copy(space, y, x);
    exchange(space, y);
  }
  template <class F>
  void pullback(const Space& space, const F& dx, const F& dy) const {
    deep_copy(space, dx, dy);
    exchange_adjoint(space, dx);
  }
};

// What the solver's products leave in halos isn't part of the gradient.
TEST(Krylov, GradientsBehindAnExchange) {
  const Space space;
  const auto check = [&](const auto& x) {
    const auto y = x.like("y"), dx = x.like("dx"), dy = x.like("dy"), wanted = x.like("wanted");
    set(x, [](const auto& i) { return rough(i); });
    set(dy, [](const auto& i) { return rough(i) * rough(i); });
    const Diffusion a(x, {.spacing = {1.0, 0.8}, .shift = 0.4});
    const LinearSolve solve(CG(x, a, {.relative = 1e-13}));
    const auto both = chain(x, Exchanged{}, solve);
    both.apply(space, y, x);
    impl::call_pullback(both, space, dx, dy, x);
    solve.apply(space, wanted, dy);
    axpby(space, wanted, 1.0, dx, -1.0);
    const auto squares = dots(space, std::tie(wanted, wanted), std::tie(dx, dx));
    EXPECT_LT(squares[0], 1e-22 * squares[1]);
  };
  check(Plane<Zero>("x", grid(), {rows, columns}));
  check(Plane<Periodic>("x", grid(), {rows, columns}));
}

// J = c'A(k)^-1 b: its derivative along a direction of k, against differences.
TEST(Krylov, GradientOfCoefficients) {
  const Space space;
  const auto check = [&](const auto& b) {
    using P   = std::remove_cvref_t<decltype(b)>;
    const P x = b.like("x"), k = b.like("k"), c = b.like("c"), db = b.like("db"), dk = b.like("dk"),
            along = b.like("along");
    set(b, [](const auto& i) { return rough(i); });
    set(c, [](const auto& i) { return rough(i) * rough(i) - 0.2; });
    set(along, [](const auto& i) { return 0.3 + rough(i); });
    const auto solve_with = [&](double step) {
      set(k, [&](const auto& i) { return std::exp(rough(i) * 1.5) + step * (0.3 + rough(i)); });
      exchange(space, k);
      const Diffusion<P, P> a(x, k, {.spacing = {1.0, 0.8}, .shift = 0.1});
      return LinearSolve(CG(x, a, Jacobi(space, x, a), {.relative = 1e-14}));
    };
    const auto value = [&](double step) {
      solve_with(step).apply(space, x, b);
      return dots<ordered>(space, std::tie(c, x))[0];
    };
    constexpr double step   = 1e-4;
    const double difference = (value(step) - value(-step)) / (2 * step);
    const auto solve        = solve_with(0.0);
    solve.apply(space, x, b);
    solve.pullback(space, db, c);
    solve.add_coefficient_gradient(space, dk, db, x);
    EXPECT_NEAR(dots<ordered>(space, std::tie(dk, along))[0], difference,
                1e-6 * std::abs(difference));
    EXPECT_GT(std::abs(difference), 1e-3);
  };
  check(Plane<Zero>("b", grid(), {rows, columns}));
  check(Plane<Symmetric>("b", grid(), {rows, columns}));
  check(Plane<Periodic>("b", grid(), {rows, columns}));
}

TEST(Tridiagonal, AgainstTheProductAndConservation) {
  for (const int n : {1, 2, 60, 128}) {
    const auto size = static_cast<std::size_t>(n);
    std::vector<double> l(size), d(size), u(size), x(size), y(size), w(size);
    for (std::size_t i = 0; i < size; ++i) {
      l[i] = std::sin(static_cast<double>(i)), u[i] = std::cos(static_cast<double>(i));
      d[i] = 2.5, y[i] = std::sin(3.0 * static_cast<double>(i)) + 0.2;
    }
    const auto in = [](std::vector<double>& v) {
      return [&v](int i) -> double& { return v[static_cast<std::size_t>(i)]; };
    };
    solve_tridiagonal(n, in(l), in(d), in(u), in(x), in(y), in(w));
    for (std::size_t i = 0; i < size; ++i)
      EXPECT_NEAR(
          d[i] * x[i] + (i > 0 ? l[i] * x[i - 1] : 0) + (i + 1 < size ? u[i] * x[i + 1] : 0), y[i],
          1e-13);
    // mixing from 1e-12 to 1e12 in one column
    double before = 0.0, after = 0.0, low = 1e300, high = -1e300;
    for (std::size_t i = 0; i < size; ++i) {
      d[i] = 1.0 + 0.5 * std::sin(static_cast<double>(i));  // thickness
      u[i] = std::pow(10.0, -12.0 + static_cast<double>((7 * i) % 25));
      l[i] = 3.0 + y[i];  // the values before
      y[i] = d[i] * l[i];
      before += y[i];
      low = std::min(low, l[i]), high = std::max(high, l[i]);
    }
    solve_diffusion_column(n, in(d), in(u), in(x), in(y), in(w));
    for (std::size_t i = 0; i < size; ++i) {
      after += d[i] * x[i];
      EXPECT_GE(x[i], low * (1.0 - 1e-14));
      EXPECT_LE(x[i], high * (1.0 + 1e-14));
    }
    EXPECT_NEAR(after, before, 1e-13 * before);
  }
}

}  // namespace
}  // namespace shard::testing
