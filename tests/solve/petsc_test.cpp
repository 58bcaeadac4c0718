// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products and solves of PETSc with our matrices and vectors.
#include "shard/solve/petsc.hpp"

#include <gtest/gtest.h>
#include <petscksp.h>

#include "shard/solve/cg.hpp"
#include "shard/solve/preconditioners.hpp"
#include "solve/sparse_support.hpp"

namespace sparse_matrix_test {

class Petsc : public ::testing::Test {
 protected:
  void SetUp() override {
    PetscBool is_there = PETSC_FALSE;
    ASSERT_EQ(PetscInitialized(&is_there), PETSC_SUCCESS);
    if (!is_there) {
      ASSERT_EQ(PetscInitializeNoArguments(), PETSC_SUCCESS);
    }
  }
};

// Integers: the products are exact. Rows and columns of any owners, a square and a rectangle.
TEST_F(Petsc, ProductsAreOurs) {
  std::mt19937_64 random(shard::testing::seed() + 30);
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const int n = 23, m = 31;
  const auto rows = owned_ids(random, n), columns = owned_ids(random, m);
  std::vector<double> dense;
  const SparseMatrix<double, Ranks, Node, Cell> a(mesh, rows, columns,
                                                  given_entries(random, n, m, 4 * n, dense));
  const auto x = a.make_column_vector("x");
  const auto y = a.make_row_vector("y"), z = y.like("z");
  fill(x, columns, [](int j) { return 1.0 + j % 7; });
  a.apply(Space(), y, x);
  Space().fence();
  Mat copy = petsc_copy(mesh, a);
  Vec from = petsc_view(x), to = petsc_view(z);
  EXPECT_EQ(MatMult(copy, from, to), PETSC_SUCCESS);
  const auto ours = values(y), theirs = values(z);
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(ours(i), theirs(i)) << rows[i];
  EXPECT_EQ(MatDestroy(&copy), PETSC_SUCCESS);
  EXPECT_EQ(VecDestroy(&from), PETSC_SUCCESS);
  EXPECT_EQ(VecDestroy(&to), PETSC_SUCCESS);
}

// The same steps as PETSc's CG with Jacobi, within one in ten.
TEST_F(Petsc, ItsSolverTakesTheSameSteps) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  constexpr Id n  = 400;
  const auto part = Partition::balanced(n, mesh.size());
  std::vector<Id> ids;
  std::vector<MatrixEntry<double>> entries;
  for (Id i = part.begin(mesh.rank()); i < part.end(mesh.rank()); ++i) {
    ids.push_back(i);
    entries.push_back({i, i, 2.1 + 0.3 * static_cast<double>(i % 7)});
    if (i > 0) entries.push_back({i, i - 1, -1.0});
    if (i + 1 < n) entries.push_back({i, i + 1, -1.0});
  }
  const Square a(mesh, ids, entries);
  const auto x = a.make_column_vector("x"), b = x.like("b"), u = x.like("u");
  Kokkos::deep_copy(b.view(), 1.0);
  CG cg(x, a, Jacobi(Space(), x, a), {.relative = 1e-10});
  const SolveResult result = cg(Space(), x, b);
  EXPECT_TRUE(result) << result.text();
  Space().fence();

  Mat copy = petsc_copy(mesh, a);
  Vec rhs = petsc_view(b), solution = petsc_view(u);
  KSP ksp = nullptr;
  PC pc   = nullptr;
  EXPECT_EQ(KSPCreate(MPI_COMM_WORLD, &ksp), PETSC_SUCCESS);
  EXPECT_EQ(KSPSetOperators(ksp, copy, copy), PETSC_SUCCESS);
  EXPECT_EQ(KSPSetType(ksp, KSPCG), PETSC_SUCCESS);
  EXPECT_EQ(KSPSetNormType(ksp, KSP_NORM_UNPRECONDITIONED), PETSC_SUCCESS);
  EXPECT_EQ(KSPGetPC(ksp, &pc), PETSC_SUCCESS);
  EXPECT_EQ(PCSetType(pc, PCJACOBI), PETSC_SUCCESS);
  EXPECT_EQ(KSPSetTolerances(ksp, 1e-10, 0.0, PETSC_DEFAULT, 1000), PETSC_SUCCESS);
  EXPECT_EQ(KSPSolve(ksp, rhs, solution), PETSC_SUCCESS);
  PetscInt steps = 0;
  EXPECT_EQ(KSPGetIterationNumber(ksp, &steps), PETSC_SUCCESS);
  EXPECT_NEAR(result.iterations, static_cast<double>(steps), 0.1 * static_cast<double>(steps));
  const auto ours = values(x), theirs = values(u);
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_NEAR(ours(i), theirs(i), 1e-8);
  EXPECT_EQ(KSPDestroy(&ksp), PETSC_SUCCESS);
  EXPECT_EQ(MatDestroy(&copy), PETSC_SUCCESS);
  EXPECT_EQ(VecDestroy(&rhs), PETSC_SUCCESS);
  EXPECT_EQ(VecDestroy(&solution), PETSC_SUCCESS);
}

}  // namespace sparse_matrix_test
