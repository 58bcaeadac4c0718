// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How Krylov methods end: with null spaces, without a solution, after breakdowns.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <tuple>

#include "shard/solve/bicgstab.hpp"
#include "shard/solve/cg.hpp"
#include "shard/solve/diffusion.hpp"
#include "shard/solve/gmres.hpp"
#include "shard/solve/lsqr.hpp"
#include "shard/solve/minres.hpp"
#include "shard/solve/pipelined_cg.hpp"
#include "solve/krylov_support.hpp"
#include "support/thrown.hpp"

namespace shard::testing {
namespace {

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

}  // namespace
}  // namespace shard::testing
