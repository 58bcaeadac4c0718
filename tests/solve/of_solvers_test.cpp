// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Refinement of solutions in float, and a solve as an operation with a pullback.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <type_traits>

#include "shard/autodiff/checks.hpp"
#include "shard/solve/cg.hpp"
#include "shard/solve/diffusion.hpp"
#include "shard/solve/gmres.hpp"
#include "shard/solve/linear_solve.hpp"
#include "shard/solve/preconditioners.hpp"
#include "shard/solve/refinement.hpp"
#include "solve/krylov_support.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

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

}  // namespace
}  // namespace shard::testing
