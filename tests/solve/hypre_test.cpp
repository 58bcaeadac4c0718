// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products and algebraic multigrid of hypre with our matrices and vectors.
#include "shard/solve/hypre.hpp"

#include <gtest/gtest.h>

#include "solve/peer_support.hpp"
#include "solvers_hypre.hpp"

namespace sparse_matrix_test {

class Hypre : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(HYPRE_Initialize(), 0); }
};

template <class Object, class IJ, class Get>
Object object_of(IJ from, Get get) {
  void* object = nullptr;
  EXPECT_EQ(get(from, &object), 0);
  return static_cast<Object>(object);
}

TEST_F(Hypre, ProductsAreOurs) {
  on_meshes([](const auto& mesh) {
    const ExactProduct p(31, 23, 31, mesh);
    HYPRE_IJMatrix copy = hypre_copy(p.mesh, p.a);
    // vectors with strides, too
    const auto x = p.level_of(p.a.columns());
    const auto y = p.level_of(p.a.rows());
    axpby(Space(), x, 1.0, p.x, 0.0);
    HYPRE_IJVector from = hypre_copy(x), to = hypre_copy(p.z);
    EXPECT_EQ(
        HYPRE_ParCSRMatrixMatvec(1.0, object_of<HYPRE_ParCSRMatrix>(copy, HYPRE_IJMatrixGetObject),
                                 object_of<HYPRE_ParVector>(from, HYPRE_IJVectorGetObject), 0.0,
                                 object_of<HYPRE_ParVector>(to, HYPRE_IJVectorGetObject)),
        0);
    copy_from_hypre(p.z, to);
    p.expect_equal();
    copy_from_hypre(y, to);
    axpby(Space(), p.z, 1.0, y, 0.0);
    p.expect_equal();
    EXPECT_EQ(HYPRE_IJMatrixDestroy(copy), 0);
    EXPECT_EQ(HYPRE_IJVectorDestroy(from), 0);
    EXPECT_EQ(HYPRE_IJVectorDestroy(to), 0);
  });
}

// With a halo the owned elements, in the order of the axis.
TEST_F(Hypre, VectorsAreTheOwnedElements) {
  on_meshes([](const auto& mesh) {
    const auto line = line_with_halo(mesh, 31), back = line.like("back");
    HYPRE_IJVector copy = hypre_copy(line);
    double square       = 0.0;
    const auto vector   = object_of<HYPRE_ParVector>(copy, HYPRE_IJVectorGetObject);
    EXPECT_EQ(HYPRE_ParVectorInnerProd(vector, vector, &square), 0);
    EXPECT_EQ(square, 30 * 31 * 61 / 6);
    copy_from_hypre(back, copy);
    for (int i = 0; i < line.extent(0); ++i) EXPECT_EQ(back(i), line(i));
    EXPECT_EQ(HYPRE_IJVectorDestroy(copy), 0);
  });
}

// Few steps, of any size. hypre 3.1 takes 11 and 12 on one rank, 15 and 17 on 8: its coarsening and
// l1 smoother depend on the parts.
TEST_F(Hypre, AlgebraicMultigridPreconditions) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  for (const Id n : {20, 40}) {
    const Square a = five_points(mesh, n);
    BoomerAMG multigrid(mesh, a, a.make_column_vector("x"));
    EXPECT_LE(steps_of_cg(a, multigrid), 18);
    multigrid.destroy();
  }
}

}  // namespace sparse_matrix_test
