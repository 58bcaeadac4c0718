// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators made of blocks, and the derivatives of operations as operators.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "shard/solve/block_operator.hpp"
#include "shard/solve/cg.hpp"
#include "shard/solve/diffusion.hpp"
#include "shard/solve/gmres.hpp"
#include "shard/solve/jacobian.hpp"
#include "shard/solve/minres.hpp"
#include "shard/solve/preconditioners.hpp"
#include "solve/solve_support.hpp"
#include "support/counting.hpp"

namespace shard::testing {
namespace {

using F                = Plane<Zero>;
constexpr auto ordered = Determinism::ordered;

void set_rough(const F& f, double phase) {
  set(f, [&](const auto& i) {
    return std::sin(phase + 1.7 * static_cast<double>(i[0]) + 0.9 * static_cast<double>(i[1]));
  });
}

// Three parts from two, and back: against the blocks one by one.
TEST(BlockOperator, IsItsBlocks) {
  const Space space;
  const F u("u", grid(), {11, 14}), w = u.like("w");
  const StencilOperator wind(u, Upwind{}, UpwindAdjoint{});
  const Diffusion diffusion(u, {.spacing = {1.0, 0.7}, .shift = 0.3});
  const std::tuple x(u, u.like("p")), ax(u.like("u"), u.like("p"));
  const std::tuple y(u.like("a"), u.like("b"), u.like("c")),
      ay(u.like("a"), u.like("b"), u.like("c"));
  const auto a =
      block_operator(x, y, std::tuple(diffusion, adjoint_of(wind)), std::tuple(ZeroBlock{}, wind),
                     std::tuple(ZeroBlock{}, ZeroBlock{}));
  set_rough(std::get<0>(x), 0.1);
  set_rough(std::get<1>(x), 0.2);
  set_rough(std::get<0>(y), 0.3);
  set_rough(std::get<1>(y), 0.4);
  set_rough(std::get<2>(y), 0.5);
  set_rough(std::get<2>(ay), 0.6);  // is set to 0
  a.apply(space, ay, x);
  const auto norm = [&](const F& f) { return dots(space, std::tie(f, f))[0]; };
  wind.apply_adjoint(space, w, std::get<1>(x));
  axpby(space, w, -1.0, std::get<0>(ay), 1.0);
  const F part = u.like("part");
  diffusion.apply(space, part, std::get<0>(x));
  axpby(space, w, 1.0, part, 1.0);
  EXPECT_LT(norm(w), 1e-24);
  wind.apply(space, w, std::get<1>(x));
  axpby(space, w, -1.0, std::get<1>(ay), 1.0);
  EXPECT_EQ(norm(w), 0.0);
  EXPECT_EQ(norm(std::get<2>(ay)), 0.0);
  a.apply_adjoint(space, ax, y);
  const double left  = dots<ordered>(space, std::tie(ay, y))[0],
               right = dots<ordered>(space, std::tie(x, ax))[0];
  EXPECT_NEAR(left, right, 1e-12 * std::abs(left));
  EXPECT_GT(std::abs(left), 1e-2);

  const auto square = block_operator(x, std::tuple(diffusion, wind), std::tuple(wind, ZeroBlock{}));
  square.diagonal(space, ax);
  diffusion.diagonal(space, w);
  axpby(space, w, -1.0, std::get<0>(ax), 1.0);
  EXPECT_EQ(norm(w), 0.0);
  EXPECT_EQ(norm(std::get<1>(ax)), 0.0);
}

// [A B'; B 0] with A and B A^-1 B' positive: MINRES with a preconditioner of blocks.
TEST(BlockOperator, SaddlePoint) {
  const Space space;
  const auto solve = [&](const Grid& mesh, F& pressure) {
    const F u("u", mesh, {9, 12});
    const std::tuple known(u, u.like("p")), x(u.like("u"), u.like("p")),
        b(u.like("u"), u.like("p"));
    const Diffusion diffusion(u, {.spacing = {1.0, 1.0}, .shift = 1.0});
    const StencilOperator wind(u, Upwind{}, UpwindAdjoint{});
    const auto a =
        block_operator(x, std::tuple(diffusion, adjoint_of(wind)), std::tuple(wind, ZeroBlock{}));
    const auto m = block_operator(x, std::tuple(Jacobi(space, u, diffusion), ZeroBlock{}),
                                  std::tuple(ZeroBlock{}, Identity{}));
    set_rough(std::get<0>(known), 0.3);
    set_rough(std::get<1>(known), 0.8);
    a.apply(space, b, known);
    MINRES minres(x, a, m, {.relative = 1e-9, .iterations = 500, .determinism = ordered});
    const SolveResult result = minres(space, x, b);
    EXPECT_TRUE(result) << result.text();
    pressure = std::get<1>(x);
    axpby(space, known, -1.0, x, 1.0);
    EXPECT_LT(dots(space, std::tie(known, known))[0], 1e-14);
    SolveResult second;
    impl::zero_value(space, x);
    EXPECT_EQ(count([&] { second = minres(space, x, b); }).allocations, 0);
    EXPECT_EQ(second.iterations, result.iterations);
    return result.iterations;
  };
  F mine, all;
  EXPECT_EQ(solve(grid(), mine), solve(alone(), all));
  EXPECT_TRUE(same_bits(mine, all));
}

/// y = x + x^3 / 10.
struct Cubic {
  template <bool Derivative>
  struct Kernel {
    F y, x, at;
    KOKKOS_FUNCTION void operator()(int i, int j) const {
      const double v = at(i, j);
      y(i, j)        = Derivative ? (1.0 + 0.3 * v * v) * x(i, j) : v + 0.1 * v * v * v;
    }
  };
  void apply(const Space& space, const F& y, const F& x) const {
    shard::parallel_for("cubic", space, owned_region(y), Kernel<false>{y, x, x});
  }
  void pushforward(const Space& space, const F& ty, const F& tx, const F& x) const {
    shard::parallel_for("cubic", space, owned_region(ty), Kernel<true>{ty, tx, x});
  }
  void pullback(const Space& space, const F& dx, const F& dy, const F& x) const {
    pushforward(space, dx, dy, x);
  }
};
/// A linear operation from an operator.
template <class A>
struct LinearOperation {
  A a;
  void apply(const Space& space, const F& y, const F& x) const { a.apply(space, y, x); }
  void pushforward(const Space& space, const F& ty, const F& tx) const { apply(space, ty, tx); }
  void pullback(const Space& space, const F& dx, const F& dy) const {
    a.apply_adjoint(space, dx, dy);
  }
};

struct Newton {
  Space space;
  F x{"x", grid(), {10, 13}}, b = x.like("b"), step = x.like("step"), rest = x.like("rest");
  StencilOperator<F, Upwind, UpwindAdjoint> wind{x, Upwind{}, UpwindAdjoint{}};
  using Operation     = Chain<F, LinearOperation<decltype(wind)>, Cubic>;
  Operation operation = chain(x, LinearOperation<decltype(wind)>{wind}, Cubic{});
  double norm(const F& f) const { return std::sqrt(dots<ordered>(space, std::tie(f, f))[0]); }
};

TEST(Jacobian, NewtonsMethodConvergesQuadratically) {
  const Newton n{};
  const F known = n.x.like("known");
  set_rough(known, 0.4);
  n.operation.apply(n.space, n.b, known);
  const Jacobian j(n.space, n.operation, n.x);
  GMRES gmres(n.x, j, {.relative = 1e-6});
  double norm = n.norm(n.b);
  int steps   = 0;
  for (; steps < 20 && norm > 1e-11; ++steps) {
    axpby(n.space, n.rest, 1.0, n.b, 0.0);
    axpby(n.space, n.rest, -1.0, j.output(), 1.0);
    impl::zero_value(n.space, n.step);
    const SolveResult result = gmres(n.space, n.step, n.rest);
    ASSERT_TRUE(result) << result.text();
    axpby(n.space, n.x, 1.0, n.step, 1.0);
    j.linearise(n.space);
    axpby(n.space, n.rest, -1.0, j.output(), 0.0);
    axpby(n.space, n.rest, 1.0, n.b, 1.0);
    const double before = norm;
    norm                = n.norm(n.rest);
    if (before < 1e-2) {
      EXPECT_LT(norm, 1e-11 + 1e-3 * before) << steps;
    }
  }
  EXPECT_LT(steps, 12);
  axpby(n.space, known, -1.0, n.x, 1.0);
  EXPECT_LT(n.norm(known), 1e-10);
}

// A chain remembers the values between its operations.
TEST(Jacobian, OfAnOperationThatIsAppliedElsewhere) {
  const Newton n{};
  const F other = n.x.like("other"), away = n.x.like("away"), forward = n.x.like("forward"),
          back = n.x.like("back");
  set_rough(n.x, 0.1);
  set_rough(n.step, 0.2);
  set_rough(other, 0.9);
  const Jacobian j(n.space, n.operation, n.x);
  j.apply(n.space, forward, n.step);
  j.apply_adjoint(n.space, back, n.step);
  n.operation.apply(n.space, away, other);
  j.apply(n.space, n.rest, n.step);
  axpby(n.space, n.rest, -1.0, forward, 1.0);
  EXPECT_EQ(n.norm(n.rest), 0.0);
  n.operation.apply(n.space, away, other);
  j.apply_adjoint(n.space, n.rest, n.step);
  axpby(n.space, n.rest, -1.0, back, 1.0);
  EXPECT_EQ(n.norm(n.rest), 0.0);
}

TEST(Jacobian, GaussNewton) {
  const Newton n{};
  const F y = n.x.like("y"), gx = n.x.like("gx"), gy = n.x.like("gy"), jx = n.x.like("jx"),
          at = n.x.like("at");
  set_rough(at, 0.9);
  set_rough(n.x, 0.2);
  set_rough(y, 0.5);
  const Diffusion w(n.x, {.spacing = {2.0, 2.0}, .shift = 1.0});
  const Jacobian j(n.space, n.operation, at);
  const auto g = gauss_newton(j, w);
  static_assert(decltype(g)::is_symmetric && decltype(gauss_newton(j))::is_symmetric);
  g.apply(n.space, gx, n.x);
  g.apply(n.space, gy, y);
  const auto [left, right, energy] =
      dots<ordered>(n.space, std::tie(gx, y), std::tie(gy, n.x), std::tie(gx, n.x));
  EXPECT_NEAR(left, right, 1e-12 * std::abs(left));
  EXPECT_GT(std::abs(left), 1e-2);
  j.apply(n.space, jx, n.x);
  w.apply(n.space, gy, jx);
  EXPECT_NEAR(energy, dots<ordered>(n.space, std::tie(jx, gy))[0], 1e-12 * energy);
  // a step of Gauss and Newton with damping
  CG cg(y, shifted(g, 0.1), {.relative = 1e-10, .iterations = 2000});
  impl::zero_value(n.space, y);
  const SolveResult result = cg(n.space, y, gx);
  EXPECT_TRUE(result) << result.text();
}

}  // namespace
}  // namespace shard::testing
