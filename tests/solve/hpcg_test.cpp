// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The validation of the benchmark HPCG (Dongarra, Heroux and Luszczek 2016) in small: its matrix of
// 27 points, the steps of CG for exaggerated diagonals, symmetric operators.
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>

#include "shard/solve/block_ilu.hpp"
#include "shard/solve/cg.hpp"
#include "shard/solve/preconditioners.hpp"
#include "solve/sparse_support.hpp"

namespace sparse_matrix_test {
namespace {

constexpr Id n = 8;  // of n^3 points

/// 26 on the diagonal and -1 for each neighbour; diagonals by `scale(row)`.
template <class Scale>
Square matrix_of_27_points(const Mesh<Ranks>& mesh, const Scale& scale, std::vector<Id>& ids) {
  const auto part = Partition::balanced(n * n * n, mesh.size());
  std::vector<MatrixEntry<double>> entries;
  ids.clear();
  for (Id row = part.begin(mesh.rank()); row < part.end(mesh.rank()); ++row) {
    ids.push_back(row);
    const Id x = row % n, y = row / n % n, z = row / (n * n);
    for (Id k = std::max<Id>(z - 1, 0); k <= std::min(z + 1, n - 1); ++k)
      for (Id j = std::max<Id>(y - 1, 0); j <= std::min(y + 1, n - 1); ++j)
        for (Id i = std::max<Id>(x - 1, 0); i <= std::min(x + 1, n - 1); ++i) {
          const Id column = (k * n + j) * n + i;
          entries.push_back({row, column, column == row ? 26.0 * scale(row) : -1.0});
        }
  }
  return Square(mesh, ids, entries);
}

// Ten clusters of eigenvalues: at most 12 steps, and 2 with the diagonal as preconditioner.
TEST(Hpcg, StepsForExaggeratedDiagonals) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  std::vector<Id> ids;
  const auto scale = [](Id row) { return row < 9 ? 1e6 * static_cast<double>(row + 2) : 1e6; };
  const Square a   = matrix_of_27_points(mesh, scale, ids);
  const auto x = a.make_column_vector("x"), b = x.like("b");
  const auto host = Kokkos::create_mirror_view(b.view());
  Kokkos::deep_copy(host, 0.0);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    double neighbours = -1.0;  // b = A (1, 1, ...) before the exaggeration, times it
    for (const auto& e : a.entries()) neighbours += e.row == ids[i] ? 1.0 : 0.0;
    host(i) = (26.0 - neighbours) * scale(ids[i]);
  }
  Kokkos::deep_copy(b.view(), host);
  const auto steps = [&](auto cg) {
    Kokkos::deep_copy(x.view(), 0.0);
    const SolveResult result = cg(Space(), x, b);
    EXPECT_TRUE(result) << result.text();
    return result.iterations;
  };
  const SolveOptions options{.relative = 1e-12, .determinism = Determinism::ordered};
  EXPECT_LE(steps(CG(x, a, options)), 12);
  EXPECT_LE(steps(CG(x, a, Jacobi(Space(), x, a), options)), 2);
}

TEST(Hpcg, OperatorAndPreconditionersAreSymmetric) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  std::vector<Id> ids;
  const Square a = matrix_of_27_points(
      mesh, [](Id) { return 1.0; }, ids);
  const auto x = a.make_column_vector("x"), y = x.like("y"), ax = x.like("ax"), ay = x.like("ay");
  fill(x, ids, [](int i) { return std::sin(1.3 * i); });
  fill(y, ids, [](int i) { return std::cos(0.7 * i * i); });
  const auto check = [&](const auto& op) {
    op.apply(Space(), ax, x);
    op.apply(Space(), ay, y);
    const auto both = dots<Determinism::ordered>(Space(), std::tie(ax, y), std::tie(x, ay),
                                                 std::tie(ax, ax), std::tie(y, y));
    EXPECT_NEAR(both[0], both[1], 1e-14 * std::sqrt(both[2] * both[3]));
  };
  check(a);
  check(Jacobi(Space(), x, a));
  check(Chebyshev(Space(), x, a, {.steps = 4}));
  check(BlockILU(a));
}

}  // namespace
}  // namespace sparse_matrix_test
