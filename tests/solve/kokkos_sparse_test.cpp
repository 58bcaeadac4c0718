// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products by Kokkos Kernels.
#include "shard/solve/kokkos_sparse.hpp"

#include <gtest/gtest.h>

#include "shard/solve/cg.hpp"
#include "shard/solve/preconditioners.hpp"
#include "solve/sparse_support.hpp"

namespace sparse_matrix_test {

// Integers: the products are exact.
TEST(KokkosSparse, ProductsAreOurs) {
  std::mt19937_64 random(shard::testing::seed() + 40);
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  for (int trial = 0; trial < 5; ++trial) {
    const int n = 1 + static_cast<int>(random() % 30), m = 1 + static_cast<int>(random() % 30);
    const auto rows = owned_ids(random, n), columns = owned_ids(random, m);
    std::vector<double> dense;
    const SparseMatrix<double, Ranks, Node, Cell> a(mesh, rows, columns,
                                                    given_entries(random, n, m, 4 * n, dense));
    const KokkosSparseProduct product(a);
    const auto x = a.make_column_vector("x");
    const auto y = a.make_row_vector("y"), z = y.like("z");
    fill(x, columns, [](int j) { return 1.0 + j % 7; });
    fill(z, rows, [](int) { return 1e30; });
    for (const double factor : {1.0, 3.0}) {  // the values are shared
      const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), a.values());
      for (std::size_t e = 0; e < host.extent(0); ++e) host(e) *= factor;
      Kokkos::deep_copy(a.values(), host);
      a.apply(Space(), y, x);
      product.apply(Space(), z, x);
      Space().fence();
      const auto ours = values(y), theirs = values(z);
      for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(ours(i), theirs(i)) << rows[i];
    }
  }
}

TEST(KokkosSparse, IsAnOperatorOfTheSolvers) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  constexpr Id n  = 200;
  const auto part = Partition::balanced(n, mesh.size());
  std::vector<Id> ids;
  std::vector<MatrixEntry<double>> entries;
  for (Id i = part.begin(mesh.rank()); i < part.end(mesh.rank()); ++i) {
    ids.push_back(i);
    entries.push_back({i, i, 2.5});
    if (i > 0) entries.push_back({i, i - 1, -1.0});
    if (i + 1 < n) entries.push_back({i, i + 1, -1.0});
  }
  const Square a(mesh, ids, entries);
  const KokkosSparseProduct product(a);
  const auto x = a.make_column_vector("x"), b = x.like("b"), y = x.like("y");
  Kokkos::deep_copy(b.view(), 1.0);
  CG cg(x, product, Jacobi(Space(), x, product), {.relative = 1e-12});
  const SolveResult result = cg(Space(), x, b);
  EXPECT_TRUE(result) << result.text();
  a.apply(Space(), y, x);
  axpby(Space(), 1.0, b, -1.0, y);
  EXPECT_LT(dots(Space(), std::tie(y, y))[0], 1e-20);
}

}  // namespace sparse_matrix_test
