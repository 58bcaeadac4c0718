// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of Tpetra with our matrices and vectors, in the same memory.
#include "shard/solve/tpetra.hpp"

#include <gtest/gtest.h>

#include "solve/sparse_support.hpp"

namespace sparse_matrix_test {

// Integers: the products are exact. Rows and columns of any owners; new values are seen.
TEST(Tpetra, ProductsAreOurs) {
  std::mt19937_64 random(shard::testing::seed() + 32);
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const int n = 23, m = 31;
  const auto rows = owned_ids(random, n), columns = owned_ids(random, m);
  std::vector<double> dense;
  const SparseMatrix<double, Ranks, Node, Cell> a(mesh, rows, columns,
                                                  given_entries(random, n, m, 4 * n, dense));
  const auto x = a.make_column_vector("x");
  const auto y = a.make_row_vector("y"), z = y.like("z");
  fill(x, columns, [](int j) { return 1.0 + j % 7; });
  const auto view = tpetra_view(a);
  auto from = tpetra_view(x), to = tpetra_view(z);
  for (const double factor : {1.0, 3.0}) {
    for (std::size_t e = 0; e < a.values().extent(0); ++e) a.values()(e) *= factor;
    view->apply(from, to);
    a.apply(Space(), y, x);
    Space().fence();
    const auto ours = values(y), theirs = values(z);
    for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(ours(i), theirs(i)) << rows[i];
  }
}

}  // namespace sparse_matrix_test
