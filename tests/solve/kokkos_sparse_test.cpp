// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products and incomplete factors by Kokkos Kernels.
#include "shard/solve/kokkos_sparse.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "shard/solve/cg.hpp"
#include "shard/solve/gmres.hpp"
#include "shard/solve/kokkos_block_ilu.hpp"
#include "shard/solve/preconditioners.hpp"
#include "solve/peer_support.hpp"

namespace sparse_matrix_test {

TEST(KokkosSparse, ProductsAreOurs) {
  std::mt19937_64 random(shard::testing::seed() + 40);
  for (unsigned trial = 0; trial < 5; ++trial) {
    const int n = 1 + static_cast<int>(random() % 30), m = 1 + static_cast<int>(random() % 30);
    const ExactProduct p(40 + trial, n, m);
    const KokkosSparseMatrix product(p.a);
    for (const double factor : {1.0, 3.0}) {  // the values are shared
      p.scale_values(factor);
      product.apply(Space(), p.z, p.x);
      Space().fence();
      p.expect_equal();
    }
  }
}

// Levels of one array have a stride.
TEST(KokkosSparse, StridesAndMeshes) {
  on_meshes([](const auto& mesh) {
    const ExactProduct p(45, 23, 31, mesh);
    const KokkosSparseMatrix product(p.a);
    const auto x = p.level_of(p.a.columns());
    const auto y = p.level_of(p.a.rows());
    axpby(Space(), x, 1.0, p.x, 0.0);
    product.apply(Space(), y, x);
    axpby(Space(), p.z, 1.0, y, 0.0);
    Space().fence();
    p.expect_equal();
    axpby(Space(), p.z, 0.0, p.z, 0.0);
    product.apply(Space(), p.z, p.x);
    Space().fence();
    p.expect_equal();
  });
}

TEST(KokkosSparse, IsAnOperatorOfTheSolvers) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const Square a = three_diagonals(mesh, 200, [](Id) { return 2.5; });
  const KokkosSparseMatrix product(a);
  const auto x = a.make_column_vector("x"), b = x.like("b"), y = x.like("y");
  message_thrown_by<ArgumentError>([&] { product.apply(Space(), x, x); });
  Kokkos::deep_copy(b.view(), 1.0);
  CG cg(x, product, Jacobi(Space(), x, product), {.relative = 1e-12});
  const SolveResult result = cg(Space(), x, b);
  EXPECT_TRUE(result) << result.text();
  a.apply(Space(), y, x);
  axpby(Space(), y, 1.0, b, -1.0);
  EXPECT_LT(dots(Space(), std::tie(y, y))[0], 1e-20);
}

/// The largest difference of this rank's elements, relative to the largest element.
template <class F>
double difference(const F& f, const F& g) {
  const auto a = values(f), b = values(g);
  double most = 1e-300, apart = 0.0;
  for (index_t i = 0; i < f.extent(0); ++i) {
    most  = std::max(most, std::abs(b(i)));
    apart = std::max(apart, std::abs(a(i) - b(i)));
  }
  return apart / most;
}

// The factors with fill of each level are the host's.
TEST(KokkosSparse, IncompleteFactorsAreTheHosts) {
  std::mt19937_64 random(shard::testing::seed() + 46);
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  for (const int n : {1, 7, 90}) {
    const auto ids = owned_ids(random, n);
    std::vector<double> dense;
    auto entries = given_entries(random, n, n, 4 * n, dense);
    for (const Id id : ids) entries.push_back({id, id, 200.0});
    const Square a(mesh, ids, entries);
    const auto r = a.make_column_vector("r"), ours = r.like("ours"), theirs = r.like("theirs");
    fill(r, ids, [](int i) { return std::sin(1.0 + i * i); });
    for (const int level : {0, 1, 2, n}) {
      const BlockILU host(a, level);
      const KokkosBlockILU kernels(a, level);
      for (const double factor : {1.0, 3.0}) {
        const auto value = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), a.values());
        for (std::size_t e = 0; e < value.extent(0); e += 2) value(e) *= factor;
        Kokkos::deep_copy(a.values(), value);
        host.factor();
        kernels.factor();
        host.apply(Space(), ours, r);
        kernels.apply(Space(), theirs, r);
        Space().fence();
        EXPECT_LT(difference(theirs, ours), 1e-13) << "n " << n << ", level " << level;
      }
    }
  }
}

TEST(KokkosSparse, MoreFillTakesFewerIterations) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const Square a = five_points(mesh, 24, 1.0);
  const auto x = a.make_column_vector("x"), b = x.like("b");
  Kokkos::deep_copy(b.view(), 1.0);
  const auto steps = [&](const auto& preconditioner) {
    Kokkos::deep_copy(x.view(), 0.0);
    GMRES gmres(x, a, preconditioner, {.relative = 1e-10});
    const SolveResult result = gmres(Space(), x, b);
    EXPECT_TRUE(result) << result.text();
    return result.iterations;
  };
  const int none = steps(KokkosBlockILU(a)), one = steps(KokkosBlockILU(a, 1)),
            all = steps(KokkosBlockILU(a, 24 * 24));
  EXPECT_EQ(none, steps(BlockILU(a)));
  EXPECT_LT(one, none);
  EXPECT_LE(all, mesh.size() == 1 ? 1 : one);  // the factors of the whole block
}

// spiluk puts 1e6 in the place of a pivot that is 0.
TEST(KokkosSparse, PivotsThatVanishAreRefused) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const Id first    = 2 * mesh.rank();
  const auto factor = [&](double corner) {
    const Square a(mesh, {first, first + 1},
                   {{first, first, 1.0},
                    {first, first + 1, 1.0},
                    {first + 1, first, 1.0},
                    {first + 1, first + 1, corner}});
    KokkosBlockILU{a};
  };
  factor(1e6 + 1.0);
  expect_parts(message_thrown_by<ArgumentError>([&] { factor(1.0); }),
               {"KokkosBlockILU", "pivot of row 1"});
  const Square a(mesh, {first, first + 1}, {{first, first, 1.0}});
  expect_parts(message_thrown_by<ArgumentError>([&] { KokkosBlockILU{a}; }),
               {"KokkosBlockILU", "row 1 has no diagonal entry"});
}

}  // namespace sparse_matrix_test
