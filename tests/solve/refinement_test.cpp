// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Solvers in float, refined in double.
#include "shard/solve/refinement.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "shard/solve/cg.hpp"
#include "shard/solve/diffusion.hpp"
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

}  // namespace
}  // namespace shard::testing
