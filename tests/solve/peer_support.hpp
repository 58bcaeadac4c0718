// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_SOLVE_PEER_SUPPORT_HPP
#define SHARD_TESTS_SOLVE_PEER_SUPPORT_HPP

#include "shard/solve/cg.hpp"
#include "solve/sparse_support.hpp"

namespace sparse_matrix_test {

/// A matrix with rows and columns of any owners, x, y = A x, and z for another library's product.
/// Integers: the products are exact. On many ranks some have no rows.
template <class MeshType = Mesh<Ranks>>
struct ExactProduct {
  using Matrix = SparseMatrix<double, Ranks, Node, Cell>;
  template <class Tag>
  using Levels = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Ranks, Indices<Tag>>>;

  explicit ExactProduct(unsigned salt, int n = 23, int m = 31,
                        const MeshType& on = Mesh<Ranks>(MPI_COMM_WORLD, {0}))
      : random(shard::testing::seed() + salt),
        mesh(on),
        rows(owned_ids(random, n, parts(), part())),
        columns(owned_ids(random, m, parts(), part())),
        a(mesh, rows, columns, given_entries(random, n, m, 4 * n, dense, parts(), part())),
        x(a.make_column_vector("x")),
        y(a.make_row_vector("y")),
        z(y.like("z")) {
    fill(x, columns, [](int j) { return 1.0 + j % 7; });
    fill(z, rows, [](int) { return 1e30; });
    multiply();
  }
  void multiply() const {
    a.apply(Space(), y, x);
    Space().fence();
  }
  /// Multiplies the matrix' values, in their memory, and y = A x again.
  void scale_values(double factor) const {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), a.values());
    for (std::size_t e = 0; e < host.extent(0); ++e) host(e) *= factor;
    Kokkos::deep_copy(a.values(), host);
    multiply();
  }
  /// A vector of rows or columns with a stride of three.
  template <class Tag>
  auto level_of(const IndexSpace<Tag, Ranks>& space) const {
    const Levels<Tag> levels("levels", mesh, {space, Partition::whole(3)});
    return subview(levels, Kokkos::ALL, 1);
  }
  /// z is y.
  void expect_equal() const {
    const auto ours = values(y), theirs = values(z);
    for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(ours(i), theirs(i)) << rows[i];
  }

  int parts() const { return mesh.template size<Ranks>(); }
  int part() const { return mesh.template coordinate<Ranks>(); }

  std::mt19937_64 random;
  MeshType mesh;
  std::vector<Id> rows, columns;
  std::vector<double> dense;
  Matrix a;
  typename Matrix::column_vector x;
  typename Matrix::row_vector y, z;
};

/// A vector with a halo, whose elements are their global indices, on the axis of a mesh.
template <class MeshType>
auto line_with_halo(const MeshType& mesh, index_t size) {
  const ShardedView<double*, Kokkos::LayoutRight, ShardDim<0, Ranks, Halo<2>>> line("line", mesh,
                                                                                    {size});
  deep_copy(Space(), line, -1e6);
  for (int i = 0; i < line.extent(0); ++i) line(i) = static_cast<double>(line.to_global(0, i));
  return line;
}

/// A symmetric matrix of three diagonals, -1 beside `diagonal(i)`. Consecutive rows of each rank.
template <class Diagonal>
Square three_diagonals(const Mesh<Ranks>& mesh, Id n, const Diagonal& diagonal) {
  const auto part = Partition::balanced(n, mesh.size());
  std::vector<Id> ids;
  std::vector<MatrixEntry<double>> entries;
  for (Id i = part.begin(mesh.rank()); i < part.end(mesh.rank()); ++i) {
    ids.push_back(i);
    entries.push_back({i, i, diagonal(i)});
    if (i > 0) entries.push_back({i, i - 1, -1.0});
    if (i + 1 < n) entries.push_back({i, i + 1, -1.0});
  }
  return {mesh, ids, entries};
}

/// The Laplace operator on the n x n points of a square, numbered by rows, with a wind along them.
inline Square five_points(const Mesh<Ranks>& mesh, Id n, double wind = 0.0) {
  const auto part = Partition::balanced(n * n, mesh.size());
  std::vector<Id> ids;
  std::vector<MatrixEntry<double>> entries;
  for (Id i = part.begin(mesh.rank()); i < part.end(mesh.rank()); ++i) {
    ids.push_back(i);
    entries.push_back({i, i, 4.0 + wind});
    if (i % n > 0) entries.push_back({i, i - 1, -1.0 - wind});
    if (i % n + 1 < n) entries.push_back({i, i + 1, -1.0});
    if (i >= n) entries.push_back({i, i - n, -1.0});
    if (i + n < n * n) entries.push_back({i, i + n, -1.0});
  }
  return {mesh, ids, entries};
}

/// Steps of conjugate gradients for a right-hand side of ones.
template <class Preconditioner>
int steps_of_cg(const Square& a, const Preconditioner& preconditioner) {
  const auto x = a.make_column_vector("x"), b = x.like("b");
  Kokkos::deep_copy(b.view(), 1.0);
  CG cg(x, a, preconditioner, {.relative = 1e-10});
  const SolveResult result = cg(Space(), x, b);
  EXPECT_TRUE(result) << result.text();
  return result.iterations;
}

}  // namespace sparse_matrix_test

#endif
