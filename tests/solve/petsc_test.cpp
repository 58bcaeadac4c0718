// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products and solves of PETSc with our matrices and vectors.
#include "shard/solve/petsc_dmda.hpp"

#include <gtest/gtest.h>
#include <petscksp.h>

#include "shard/solve/cg.hpp"
#include "shard/solve/petsc.hpp"
#include "shard/solve/preconditioners.hpp"
#include "solve/peer_support.hpp"

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

TEST_F(Petsc, ProductsAreOurs) {
  on_meshes([](const auto& mesh) {
    const ExactProduct p(30, 23, 31, mesh);
    Mat copy = petsc_copy(p.mesh, p.a);
    Vec from = petsc_view(p.x), to = petsc_view(p.z);
    EXPECT_EQ(MatMult(copy, from, to), PETSC_SUCCESS);
    p.expect_equal();
    EXPECT_EQ(MatDestroy(&copy), PETSC_SUCCESS);
    EXPECT_EQ(VecDestroy(&from), PETSC_SUCCESS);
    EXPECT_EQ(VecDestroy(&to), PETSC_SUCCESS);
  });
}

// With a halo the owned elements, in the order of the axis. PETSc takes no strides.
TEST_F(Petsc, VectorsAreTheOwnedElements) {
  on_meshes([](const auto& mesh) {
    const auto line = line_with_halo(mesh, 31);
    Vec view        = petsc_view(line);
    PetscInt begin = -1, size = 0;
    PetscScalar sum = 0.0;
    EXPECT_EQ(VecGetOwnershipRange(view, &begin, nullptr), PETSC_SUCCESS);
    EXPECT_EQ(VecGetSize(view, &size), PETSC_SUCCESS);
    EXPECT_EQ(VecSum(view, &sum), PETSC_SUCCESS);
    EXPECT_EQ(begin, line.begin(0));
    EXPECT_EQ(size, 31);
    EXPECT_EQ(sum, 31 * 30 / 2);
    EXPECT_EQ(VecDestroy(&view), PETSC_SUCCESS);
    const ExactProduct p(30, 23, 31, mesh);
    const auto level = p.level_of(p.a.columns());
    expect_parts(message_thrown_by<ArgumentError>([&] { petsc_view(level); }),
                 {"petsc_view", "stride of 3"});
  });
}

// The same steps as PETSc's CG with Jacobi, within one in ten.
TEST_F(Petsc, ItsSolverTakesTheSameSteps) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const Square a =
      three_diagonals(mesh, 400, [](Id i) { return 2.1 + 0.3 * static_cast<double>(i % 7); });
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
  for (index_t i = 0; i < x.extent(0); ++i) EXPECT_NEAR(ours(i), theirs(i), 1e-8);
  EXPECT_EQ(KSPDestroy(&ksp), PETSC_SUCCESS);
  EXPECT_EQ(MatDestroy(&copy), PETSC_SUCCESS);
  EXPECT_EQ(VecDestroy(&rhs), PETSC_SUCCESS);
  EXPECT_EQ(VecDestroy(&solution), PETSC_SUCCESS);
}

struct Y;
struct X;
using Height = Unsharded;

/// Sets owned points to `more` and a number of their own, the halo to -1.
template <class F>
void number_points(const F& f, double more) {
  Kokkos::deep_copy(f.view(), -1.0);
  const auto set = [&](auto... i) {
    double number = 1.0;
    int d         = 0;
    ((number = number * 100.0 + static_cast<double>(f.to_global(d, i)), ++d), ...);
    f(i...) = number + more;
  };
  for (int i = 0; i < f.extent(0); ++i)
    for (int j = 0; j < f.extent(1); ++j) {
      if constexpr (F::rank == 2) {
        set(i, j);
      } else {
        for (int k = 0; k < f.extent(2); ++k) set(i, j, k);
      }
    }
}

/// PETSc fills the halo as we do, in the field's memory.
template <class F>
void expect_petsc_fills_halos(const F& f) {
  const F ours = f.like("ours"), theirs = f.like("theirs");
  DM grid   = petsc_dmda(f);
  Vec local = petsc_local_view(theirs), global = nullptr;
  ASSERT_EQ(DMCreateGlobalVector(grid, &global), PETSC_SUCCESS);
  const auto expect_equal = [&] {
    for (std::size_t i = 0; i < ours.view().size(); ++i)
      EXPECT_EQ(ours.view().data()[i], theirs.view().data()[i]) << i;
  };
  for (const double more : {0.0, 0.5}) {  // the view sees new values
    number_points(ours, more);
    number_points(theirs, 1e6);
    copy_to_petsc(global, ours);
    exchange(Space(), ours);
    Space().fence();
    EXPECT_EQ(DMGlobalToLocal(grid, global, INSERT_VALUES, local), PETSC_SUCCESS);
    expect_equal();
    number_points(ours, more);
    number_points(theirs, 1e6);
    copy_from_petsc(theirs, global);
    expect_equal();
  }
  EXPECT_EQ(VecDestroy(&local), PETSC_SUCCESS);
  EXPECT_EQ(VecDestroy(&global), PETSC_SUCCESS);
  EXPECT_EQ(DMDestroy(&grid), PETSC_SUCCESS);
}

// Given is what PETSc leaves as it is.
TEST_F(Petsc, GridsHaveTheFieldsMemory) {
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  const Mesh<X, Y> turned(MPI_COMM_WORLD, {0, 0});
  using Plane = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Y, Halo<1>, Given>,
                            ShardDim<1, X, Halo<1>, Periodic>>;
  using Cube  = ShardedView<double***, Kokkos::LayoutRight, ShardDim<0, Height, Halo<2>, Periodic>,
                           ShardDim<1, Y, Halo<2>, Given>, ShardDim<2, X, Halo<2>, Periodic>>;
  expect_petsc_fills_halos(Plane("f", mesh, {11, 13}));  // uneven shards
  expect_petsc_fills_halos(Cube("f", mesh, {3, 17, 19}));
  const auto refused = [](const auto& f) {
    return message_thrown_by<ArgumentError>([&] { petsc_dmda(f); });
  };
  if (const int rows = mesh.size<Y>(); rows > 1) {
    std::vector<index_t> counts(static_cast<std::size_t>(rows), 3);
    counts[0] = 1;
    const Cube narrow("f", mesh,
                      {Partition::whole(3), Partition::explicit_counts(counts),
                       Partition::balanced(19, mesh.size<X>())});
    expect_parts(refused(narrow), {"petsc_dmda", "part 0 of dimension 1", "smaller than the halo"});
  }
  Plane padded("f", mesh, {11, 64});
  const Kokkos::View<double**, Kokkos::LayoutRight> memory(
      Kokkos::view_alloc("padded", Kokkos::AllowPadding), padded.view().extent(0),
      padded.view().extent(1));
  int pads = memory.span_is_contiguous() ? 0 : 1;
  MPI_Allreduce(MPI_IN_PLACE, &pads, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (pads == 1) {
    padded = rebind(padded, memory);
    expect_parts(refused(padded), {"petsc_dmda", "padded"});
    expect_parts(message_thrown_by<ArgumentError>([&] { petsc_local_view(padded); }),
                 {"petsc_local_view", "padded"});
  }
  if (turned.size<X>() > 1 && turned.size<Y>() > 1)
    expect_parts(refused(Plane("f", turned, {11, 13})), {"petsc_dmda", "order"});
}

}  // namespace sparse_matrix_test
