// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products and algebraic multigrid of hypre with our matrices and vectors.
#include "shard/solve/hypre.hpp"

#include <HYPRE_parcsr_ls.h>
#include <gtest/gtest.h>

#include <memory>

#include "shard/solve/cg.hpp"
#include "solve/sparse_support.hpp"

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

// Integers: the products are exact. Rows of any owners; a rank without any, too.
TEST_F(Hypre, ProductsAreOurs) {
  std::mt19937_64 random(shard::testing::seed() + 31);
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
  HYPRE_IJMatrix copy = hypre_copy(mesh, a);
  HYPRE_IJVector from = hypre_copy(x), to = hypre_copy(z);
  EXPECT_EQ(
      HYPRE_ParCSRMatrixMatvec(1.0, object_of<HYPRE_ParCSRMatrix>(copy, HYPRE_IJMatrixGetObject),
                               object_of<HYPRE_ParVector>(from, HYPRE_IJVectorGetObject), 0.0,
                               object_of<HYPRE_ParVector>(to, HYPRE_IJVectorGetObject)),
      0);
  copy_from_hypre(z, to);
  const auto ours = values(y), theirs = values(z);
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(ours(i), theirs(i)) << rows[i];
  EXPECT_EQ(HYPRE_IJMatrixDestroy(copy), 0);
  EXPECT_EQ(HYPRE_IJVectorDestroy(from), 0);
  EXPECT_EQ(HYPRE_IJVectorDestroy(to), 0);
}

/// One cycle of BoomerAMG as a preconditioner.
struct BoomerAMG {
  struct State {
    HYPRE_IJMatrix matrix;
    HYPRE_IJVector in, out;
    HYPRE_Solver solver = nullptr;
    template <class Matrix, class V>
    State(const Mesh<Ranks>& mesh, const Matrix& a, const V& like)
        : matrix(hypre_copy(mesh, a)), in(hypre_copy(like)), out(hypre_copy(like)) {}
    State(const State&)            = delete;
    State& operator=(const State&) = delete;
    ~State() {
      HYPRE_BoomerAMGDestroy(solver);
      HYPRE_IJMatrixDestroy(matrix);
      HYPRE_IJVectorDestroy(in);
      HYPRE_IJVectorDestroy(out);
    }
    auto rows() const { return object_of<HYPRE_ParCSRMatrix>(matrix, HYPRE_IJMatrixGetObject); }
    auto vector(HYPRE_IJVector v) const {
      return object_of<HYPRE_ParVector>(v, HYPRE_IJVectorGetObject);
    }
  };
  std::shared_ptr<State> state;

  template <class Matrix, class V>
  BoomerAMG(const Mesh<Ranks>& mesh, const Matrix& a, const V& like)
      : state(std::make_shared<State>(mesh, a, like)) {
    HYPRE_BoomerAMGCreate(&state->solver);
    HYPRE_BoomerAMGSetMaxIter(state->solver, 1);
    HYPRE_BoomerAMGSetTol(state->solver, 0.0);
    HYPRE_BoomerAMGSetRelaxType(state->solver, 18);  // Jacobi with l1 norms: symmetric
    HYPRE_BoomerAMGSetup(state->solver, state->rows(), state->vector(state->in),
                         state->vector(state->out));
  }
  template <class S, class V>
  void apply(const S& space, const V& z, const V& r) const {
    space.fence("BoomerAMG");
    copy_to_hypre(state->in, r);
    HYPRE_ParVectorSetConstantValues(state->vector(state->out), 0.0);
    HYPRE_BoomerAMGSolve(state->solver, state->rows(), state->vector(state->in),
                         state->vector(state->out));
    copy_from_hypre(z, state->out);
  }
};

// The Laplace operator of a square with numbers by rows: few steps, of any size.
TEST_F(Hypre, AlgebraicMultigridPreconditions) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  for (const Id n : {20, 40}) {
    const auto part = Partition::balanced(n * n, mesh.size());
    std::vector<Id> ids;
    std::vector<MatrixEntry<double>> entries;
    for (Id i = part.begin(mesh.rank()); i < part.end(mesh.rank()); ++i) {
      ids.push_back(i);
      entries.push_back({i, i, 4.0});
      if (i % n > 0) entries.push_back({i, i - 1, -1.0});
      if (i % n + 1 < n) entries.push_back({i, i + 1, -1.0});
      if (i >= n) entries.push_back({i, i - n, -1.0});
      if (i + n < n * n) entries.push_back({i, i + n, -1.0});
    }
    const Square a(mesh, ids, entries);
    const auto x = a.make_column_vector("x"), b = x.like("b");
    Kokkos::deep_copy(b.view(), 1.0);
    CG cg(x, a, BoomerAMG(mesh, a, x), {.relative = 1e-10});
    const SolveResult result = cg(Space(), x, b);
    EXPECT_TRUE(result) << result.text();
    EXPECT_LE(result.iterations, 20);
  }
}

}  // namespace sparse_matrix_test
