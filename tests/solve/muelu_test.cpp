// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Algebraic multigrid of Trilinos' MueLu on our matrices.
#include <gtest/gtest.h>

#include "solve/peer_support.hpp"
#include "solvers_muelu.hpp"

namespace sparse_matrix_test {

TEST(MueLu, AlgebraicMultigridPreconditions) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  for (const Id n : {20, 40}) {
    const Square a = five_points(mesh, n);
    EXPECT_LE(steps_of_cg(a, MueLuCycle(a)), 20);
  }
}

}  // namespace sparse_matrix_test
