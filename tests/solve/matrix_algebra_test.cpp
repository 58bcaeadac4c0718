// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matrices made from matrices, dense blocks, and complex values.
#include "shard/solve/matrix_algebra.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "shard/solve/bicgstab.hpp"
#include "shard/solve/block_ilu.hpp"
#include "shard/solve/block_jacobi.hpp"
#include "shard/solve/cg.hpp"
#include "shard/solve/gmres.hpp"
#include "shard/solve/matrix_assembly.hpp"
#include "shard/solve/preconditioners.hpp"
#include "solve/sparse_support.hpp"
#include "support/counting.hpp"

namespace sparse_matrix_test {

struct Level;
using Transfer = SparseMatrix<double, Ranks, Node, Level>;
using Complex  = Kokkos::complex<double>;

/// This rank's entries beside those of a dense matrix. Returns how many aren't 0.
template <class Matrix, class T>
int expect_entries(const Matrix& a, const std::vector<T>& dense, int columns, bool turned = false) {
  int seen = 0;
  for (const auto& e : a.entries()) {
    const int i = index_of(turned ? e.column : e.row), j = index_of(turned ? e.row : e.column);
    EXPECT_EQ(e.value, dense[static_cast<std::size_t>(i * columns + j)]) << i << ", " << j;
    seen += e.value != T(0);
  }
  int all = 0;
  MPI_Allreduce(&seen, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  return all;
}
template <class T>
int non_zeros(const std::vector<T>& dense) {
  return static_cast<int>(dense.size()) -
         static_cast<int>(std::count(dense.begin(), dense.end(), T(0)));
}

// The owners of A's columns aren't those of B's rows.
TEST(MatrixAlgebra, TransposeAndProductAreTheDenseOnes) {
  std::mt19937_64 random(shard::testing::seed() + 10);
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  for (int trial = 0; trial < 6; ++trial) {
    const int n = 1 + static_cast<int>(random() % 20), m = 1 + static_cast<int>(random() % 30);
    const auto rows = owned_ids(random, n), columns = owned_ids(random, m),
               other_columns = owned_ids(random, m);
    std::vector<double> dense_a, dense_b, dense(static_cast<std::size_t>(n * n));
    const Transfer a(mesh, rows, columns, given_entries(random, n, m, 3 * n, dense_a));
    const SparseMatrix<double, Ranks, Level, Node> b(mesh, other_columns, rows,
                                                     given_entries(random, m, n, 3 * m, dense_b));
    for (int i = 0; i < n; ++i)
      for (int k = 0; k < m; ++k)
        for (int j = 0; j < n; ++j)
          dense[static_cast<std::size_t>(i * n + j)] +=
              dense_a[static_cast<std::size_t>(i * m + k)] *
              dense_b[static_cast<std::size_t>(k * n + j)];
    EXPECT_EQ(expect_entries(product(mesh, a, b), dense, n), non_zeros(dense))
        << "SHARD_SEED=" << shard::testing::seed();
    EXPECT_EQ(expect_entries(transposed(mesh, a), dense_a, m, true), non_zeros(dense_a));
  }
}

/// About half of the places of a dense matrix, with values of few bits and very different sizes:
/// their products are exact, sums of them depend on the order. 0 where there is no entry.
std::vector<MatrixEntry<double>> entries_of_all_sizes(std::mt19937_64& random, int rows,
                                                      int columns, std::vector<double>& dense) {
  std::vector<MatrixEntry<double>> mine;
  dense.assign(static_cast<std::size_t>(rows * columns), 0.0);
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) {
      const auto draw = random();
      if (draw % 2 == 0) continue;
      const double v = std::ldexp(static_cast<double>(static_cast<int>(draw / 2 % 15) - 7) + 0.5,
                                  static_cast<int>(draw / 32 % 70) - 35);
      dense[static_cast<std::size_t>(i * columns + j)] = v;
      if (static_cast<int>(draw / 4096 % static_cast<unsigned>(ranks())) == rank())
        mine.push_back({3 * i - 5, 3 * j - 5, v});
    }
  return mine;
}

// Each sum is that of a loop over the ids of A's columns, from the lowest, bit for bit.
TEST(MatrixAlgebra, ProductsAreSummedInTheOrderOfIds) {
  std::mt19937_64 random(shard::testing::seed() + 13);
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const int n = 12, m = 30;
  const auto rows = owned_ids(random, n), columns = owned_ids(random, m);
  std::vector<double> dense_a, dense_b, up(static_cast<std::size_t>(n * n), 0.0), down = up;
  const Transfer a(mesh, rows, columns, entries_of_all_sizes(random, n, m, dense_a));
  const SparseMatrix<double, Ranks, Level, Node> b(mesh, columns, rows,
                                                   entries_of_all_sizes(random, m, n, dense_b));
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < n; ++j) {
      const auto add = [&](double& sum, int k) {
        sum += dense_a[static_cast<std::size_t>(i * m + k)] *
               dense_b[static_cast<std::size_t>(k * n + j)];
      };
      for (int k = 0; k < m; ++k) add(up[static_cast<std::size_t>(i * n + j)], k);
      for (int k = m; k-- > 0;) add(down[static_cast<std::size_t>(i * n + j)], k);
    }
  const MatrixProduct ab(mesh, a, b);
  expect_entries(ab.matrix(), up, n);
  ab.update(Space());
  expect_entries(ab.matrix(), up, n);
  EXPECT_NE(up, down);
}

/// R A P of a matrix of fractions, from interpolation between every second point.
std::map<std::pair<Id, Id>, double> galerkin(MPI_Comm comm, int n) {
  const Mesh<Ranks> mesh(comm, {0});
  const auto fine   = Partition::balanced(n, mesh.size());
  const auto coarse = Partition::balanced((n + 1) / 2, mesh.size());
  std::vector<Id> ids, coarse_ids;
  std::vector<MatrixEntry<double>> of_a, of_p;
  for (Id i = fine.begin(mesh.rank()); i < fine.end(mesh.rank()); ++i) {
    ids.push_back(i);
    for (Id j = std::max<Id>(0, i - 3); j < std::min<Id>(n, i + 4); ++j)
      of_a.push_back({i, j, 1.0 / static_cast<double>(3 + 2 * i + 2 * j)});
    of_p.push_back({i, i / 2, i % 2 == 0 ? 1.0 / 1.1 : 1.0 / 1.7});
    if (i % 2 == 1 && i + 1 < n) of_p.push_back({i, i / 2 + 1, 1.0 / 1.3});
  }
  for (Id i = coarse.begin(mesh.rank()); i < coarse.end(mesh.rank()); ++i) coarse_ids.push_back(i);
  const Square a(mesh, ids, of_a);
  const Transfer p(mesh, ids, coarse_ids, of_p);
  const SparseMatrix<double, Ranks, Level> made =
      product(mesh, transposed(mesh, p), product(mesh, a, p));
  EXPECT_EQ(made.rows().owned(), static_cast<index_t>(coarse_ids.size()));
  std::map<std::pair<Id, Id>, double> entries;
  for (const auto& e : made.entries()) entries[{e.row, e.column}] = e.value;
  return entries;
}

TEST(MatrixAlgebra, GalerkinProductsHaveTheBitsOfOneRank) {
  const auto mine = galerkin(MPI_COMM_WORLD, 41), all = galerkin(MPI_COMM_SELF, 41);
  std::size_t count = mine.size(), sum = 0;
  MPI_Allreduce(&count, &sum, 1, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(sum, all.size());
  for (const auto& [place, value] : mine) {
    EXPECT_EQ(value, all.at(place)) << place.first << ", " << place.second;
    EXPECT_NEAR(value, all.at({place.second, place.first}), 1e-15);  // A is symmetric
  }
}

template <class Matrix>
void expect_same_values(const Matrix& a, const Matrix& b) {
  Space().fence();
  const auto one = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), a.values()),
             two = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), b.values());
  ASSERT_EQ(one.extent(0), two.extent(0));
  for (std::size_t e = 0; e < one.extent(0); ++e) EXPECT_EQ(one(e), two(e)) << e;
}

// Rows of other ranks and several values of one place, again and again.
TEST(MatrixAssembly, ManyValuesOfOnePattern) {
  std::mt19937_64 random(shard::testing::seed() + 11);
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const int n    = 30;
  const auto ids = owned_ids(random, n);
  std::vector<double> dense;
  auto entries = given_entries(random, n, n, 9 * n, dense);
  const Square a(mesh, ids, entries);
  const MatrixAssembly assembly(mesh, a, entries);
  const auto host      = Kokkos::create_mirror_view(assembly.given());
  const auto set_again = [&](double factor) {
    for (std::size_t e = 0; e < entries.size(); ++e)
      entries[e].value = factor / static_cast<double>(3 + 7 * e + entries[e].column + 5);
    for (std::size_t e = 0; e < entries.size(); ++e) host(e) = entries[e].value;
    Kokkos::deep_copy(assembly.given(), host);
    assembly.set_values(Space());
  };
  set_again(0.7);
  expect_same_values(a, Square(mesh, ids, entries));
  const auto counts = shard::testing::count([&] {
    for (int again = 0; again < 100; ++again) set_again(1.0 + again);
  });
  EXPECT_EQ(counts.allocations, 0);
  expect_same_values(a, Square(mesh, ids, entries));

  const Square diagonal(mesh, ids, {});
  if (!dense.empty())
    expect_parts(message_thrown_by<ArgumentError>([&] { MatrixAssembly(mesh, diagonal, entries); }),
                 {"MatrixAssembly", "the matrix hasn't"});
}

// Restriction, operator and interpolation of which the operator's values change.
TEST(MatrixAlgebra, GalerkinProductsAgain) {
  std::mt19937_64 random(shard::testing::seed() + 12);
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const int n = 26, m = 9;
  const auto ids = owned_ids(random, n), coarse_ids = owned_ids(random, m);
  std::vector<double> dense;
  const Square a(mesh, ids, given_entries(random, n, n, 6 * n, dense));
  const Transfer p(mesh, ids, coarse_ids, given_entries(random, n, m, 2 * n, dense));
  const auto r = transposed(mesh, p);
  const MatrixProduct ap(mesh, a, p);
  const MatrixProduct coarse(mesh, r, ap.matrix());
  const auto host  = Kokkos::create_mirror_view(a.values());
  const auto again = [&](double factor) {
    for (std::size_t e = 0; e < host.extent(0); ++e)
      host(e) = factor / static_cast<double>(3 + e + 11 * rank());
    Kokkos::deep_copy(a.values(), host);
    ap.update(Space());
    coarse.update(Space());
  };
  again(1.0);
  expect_same_values(coarse.matrix(), product(mesh, r, product(mesh, a, p)));
  EXPECT_EQ(shard::testing::count([&] { again(0.3); }).allocations, 0);
  expect_same_values(coarse.matrix(), product(mesh, r, product(mesh, a, p)));
}

TEST(MatrixAlgebra, MatricesThatDoNotFitAreErrors) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const Id me = rank(), next = (me + 1) % ranks();
  const Square a(mesh, {me}, {{me, me, 1.0}});
  const Square other(mesh, {me + 100}, {{me + 100, me + 100, 1.0}});
  expect_parts(message_thrown_by<ArgumentError>([&] { product(mesh, a, other); }),
               {"product", "no rank owns it"});
  const SparseMatrix<double, Ranks, Cell, Node> turned(mesh, {me}, {next}, {});
  const SparseMatrix<double, Ranks, Node, Cell> straight(mesh, {me}, {me}, {{me, me, 1.0}});
  if (ranks() > 1)
    expect_parts(message_thrown_by<ArgumentError>([&] { product(mesh, straight, turned); }),
                 {"product", "rows and columns are of one type"});
}

/// Blocks of three rows on the diagonal, each row with its block's matrix, which needs pivots.
Square blocks(const Mesh<Ranks>& mesh, int count, double beside, std::vector<Id>& ids) {
  const auto part = Partition::balanced(count, mesh.size());
  std::vector<MatrixEntry<double>> entries;
  ids.clear();
  for (Id b = part.begin(mesh.rank()); b < part.end(mesh.rank()); ++b)
    for (Id r = 0; r < 3; ++r) {
      const Id i = 3 * b + r;
      ids.push_back(i);
      for (Id c = 0; c < 3; ++c)
        entries.push_back(
            {i, 3 * b + c,
             r == c ? (r == 0 ? 0.0 : 4.0) : 2.0 + static_cast<double>((r + 2 * c + b) % 3)});
      if (beside != 0.0) entries.push_back({i, (i + 3) % (3 * count), beside});
    }
  return Square(mesh, ids, entries);
}

TEST(MatrixAlgebra, DenseBlocksAreInverted) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  std::vector<Id> ids;
  const auto a = blocks(mesh, 11, 0.0, ids);
  const auto x = a.make_column_vector("x"), b = x.like("b"), y = x.like("y");
  const auto host = Kokkos::create_mirror_view(x.view());
  for (std::size_t i = 0; i < ids.size(); ++i) host(i) = std::cos(static_cast<double>(ids[i]));
  Kokkos::deep_copy(x.view(), host);
  a.apply(Space(), b, x);
  const BlockJacobi exact(a, 3);
  exact.apply(Space(), y, b);
  Space().fence();
  const auto got = values(y);
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_NEAR(got(i), host(i), 1e-13) << ids[i];

  // no block is on two ranks: the same steps as on one
  const auto steps = [&](MPI_Comm comm) {
    const Mesh<Ranks> on(comm, {0});
    const auto coupled = blocks(on, 11, 0.2, ids);
    const auto u = coupled.make_column_vector("u"), v = u.like("v");
    Kokkos::deep_copy(v.view(), 1.0);
    GMRES gmres(u, coupled, BlockJacobi(coupled, 3), {.determinism = Determinism::ordered});
    const SolveResult result = gmres(Space(), u, v);
    EXPECT_TRUE(result) << result.text();
    return std::pair(result.iterations, gmres.history());
  };
  EXPECT_EQ(steps(MPI_COMM_WORLD), steps(MPI_COMM_SELF));
  expect_parts(message_thrown_by<ArgumentError>([&] { BlockJacobi(a, 0); }),
               {"BlockJacobi", "rows; give 1 or more"});
  Kokkos::deep_copy(a.values(), 1.0);
  expect_parts(message_thrown_by<ArgumentError>([&] { BlockJacobi(a, 3); }),
               {"BlockJacobi", "rows from 0", "singular"});
}

using Wave = SparseMatrix<Complex, Ranks, Node>;

/// 2.5 - e^(i t) S - e^(-i t) S' on a ring of n, S the shift: Hermitian for real `diagonal`.
Wave ring(const Mesh<Ranks>& mesh, int n, Complex diagonal, double t, std::vector<Id>& ids) {
  const auto part = Partition::balanced(n, mesh.size());
  std::vector<MatrixEntry<Complex>> entries;
  ids.clear();
  for (Id i = part.begin(mesh.rank()); i < part.end(mesh.rank()); ++i) {
    ids.push_back(i);
    entries.push_back({i, i, diagonal});
    entries.push_back({i, (i + 1) % n, -Complex(std::cos(t), std::sin(t))});
    entries.push_back({i, (i + n - 1) % n, -Complex(std::cos(t), -std::sin(t))});
  }
  return Wave(mesh, ids, entries);
}
template <class F, class Value>
void set_complex(const F& f, const std::vector<Id>& ids, const Value& value) {
  const auto host = Kokkos::create_mirror_view(f.view());
  for (std::size_t i = 0; i < ids.size(); ++i) host(i) = value(static_cast<double>(ids[i]));
  Kokkos::deep_copy(f.view(), host);
}

// Waves are the eigenvectors; a sum of m takes m steps.
TEST(ComplexVectors, HermitianSystems) {
  constexpr int n    = 24;
  constexpr double t = 0.3, turn = 2 * 3.14159265358979323846 / n;
  const auto sum = [&](int m, bool over) {
    return [=](double j) {
      Complex all = 0.0;
      for (int k = 0; k < m; ++k) {
        const double at = turn * k * j, lambda = 2.5 - 2 * std::cos(turn * k + t);
        all += Complex(std::cos(at), std::sin(at)) / (over ? lambda : 1.0) * Complex(1.0, 0.25 * k);
      }
      return all;
    };
  };
  const auto solve = [&](MPI_Comm comm, int m) {
    const Mesh<Ranks> mesh(comm, {0});
    std::vector<Id> ids;
    const auto a = ring(mesh, n, 2.5, t, ids);
    const auto x = a.make_column_vector("x"), b = x.like("b");
    set_complex(b, ids, sum(m, false));
    CG cg(x, a, Jacobi(Space(), x, a), {.relative = 1e-11, .determinism = Determinism::ordered});
    const SolveResult result = cg(Space(), x, b);
    EXPECT_TRUE(result) << result.text();
    EXPECT_EQ(result.iterations, m);
    const auto got = values(x);
    for (std::size_t i = 0; i < ids.size(); ++i)
      EXPECT_LT(Kokkos::abs(got(i) - sum(m, true)(static_cast<double>(ids[i]))), 1e-9);
    return cg.history();
  };
  for (int m = 1; m <= 5; ++m) EXPECT_EQ(solve(MPI_COMM_WORLD, m), solve(MPI_COMM_SELF, m));
}

// A kernel on any instance may be writing the values.
TEST(MatrixAlgebra, WhatReadsValuesOnTheHostWaits) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const Id row = mesh.rank();
  const SparseMatrix<double, Ranks, Node> a(mesh, {row}, {{row, row, 2.0}});
  const auto waits = [](const char* name, const auto& make) {
    const shard::testing::Counts counts = shard::testing::count(make);
    EXPECT_NE(std::find(counts.fence_names.begin(), counts.fence_names.end(), name),
              counts.fence_names.end())
        << name;
  };
  waits("shard::SparseMatrix: the values", [&] { MatrixProduct(mesh, a, a); });
  waits("shard::SparseMatrix: the values", [&] { transposed(mesh, a); });
  waits("shard::BlockJacobi: the values", [&] { BlockJacobi(a, 1); });
  waits("shard::BlockILU: the values", [&] { BlockILU{a}; });
}

/// Steps of GMRES to 1e-10; the residual is compared with a product.
template <class Matrix, class Vector, class M>
int steps_of_gmres(const Matrix& a, const Vector& b, const M& m, const SolveOptions& options) {
  const auto x = b.like("x"), rest = b.like("rest");
  GMRES gmres(x, a, m, options);
  const SolveResult result = gmres(Space(), x, b);
  EXPECT_TRUE(result) << result.text();
  a.apply(Space(), rest, x);
  axpby(Space(), rest, 1.0, b, -1.0);
  EXPECT_LT(dots(Space(), std::tie(rest, rest))[0], 1.1e-20 * dots(Space(), std::tie(b, b))[0]);
  return result.iterations;
}

// Of i D as many as of D: the polynomials have complex coefficients.
TEST(ComplexVectors, GmresHasComplexKrylovSpaces) {
  using Real = SparseMatrix<double, Ranks, Node>;
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  constexpr int n = 20;
  const auto part = Partition::balanced(n, mesh.size());
  std::vector<Id> ids;
  std::vector<MatrixEntry<double>> diagonal;
  std::vector<MatrixEntry<Complex>> turned, wave;
  for (Id i = part.begin(mesh.rank()); i < part.end(mesh.rank()); ++i) {
    const double d = 1.0 + static_cast<double>(i);
    ids.push_back(i);
    diagonal.push_back({i, i, d});
    turned.push_back({i, i, Complex(0.0, d)});
    wave.push_back({i, i, Complex(1.0, 2.0 * (1.0 + 0.1 * d))});
    if (i > 0) wave.push_back({i, i - 1, Complex(0.0, -1.0)});
    if (i + 1 < n) wave.push_back({i, i + 1, Complex(0.0, -1.0)});
  }
  const Real d(mesh, ids, diagonal);
  const Wave id(mesh, ids, turned), k(mesh, ids, wave);
  const auto f = d.make_column_vector("f");
  const auto g = id.make_column_vector("g"), h = k.make_column_vector("h");
  deep_copy(Space(), f, 1.0);
  deep_copy(Space(), g, Complex(0.6, 0.8));
  set_complex(h, ids, [](double j) { return Complex(std::cos(3 * j), std::sin(1 + j * j)); });
  for (const int restart : {30, 6}) {
    const SolveOptions options{.relative = 1e-10, .restart = restart};
    const int real = steps_of_gmres(d, f, Identity{}, options);
    EXPECT_EQ(steps_of_gmres(id, g, Identity{}, options), real);
    if (restart > n) {
      EXPECT_LE(real, n);
      EXPECT_LE(steps_of_gmres(k, h, Identity{}, options), n);
    } else {
      EXPECT_GT(real, n);
      steps_of_gmres(k, h, Identity{}, options);
    }
    auto varying     = options;
    varying.flexible = true;
    EXPECT_LE(steps_of_gmres(k, h, Jacobi(Space(), h, k), varying), 3 * n);
    EXPECT_EQ(steps_of_gmres(k, h, Jacobi(Space(), h, k), options),
              steps_of_gmres(k, h, Jacobi(Space(), h, k), varying));
  }
  // weights: the product of another space
  const auto w = h.like("w");
  deep_copy(Space(), w, Complex(2.0));
  const auto x = h.like("x");
  GMRES weighted(x, k, {.relative = 1e-10});
  weighted.set_weights(Space(), w);
  const SolveResult result = weighted(Space(), x, h);
  EXPECT_TRUE(result) << result.text();
  EXPECT_LE(result.iterations, n);
}

// <A x, y> = <x, A' y>, both parts; the transpose is the adjoint; methods for any operator.
TEST(ComplexVectors, AdjointsAndOtherSystems) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  std::vector<Id> ids;
  const auto a = ring(mesh, 30, Complex(3.0, 1.5), 0.7, ids);
  const auto x = a.make_column_vector("x"), y = x.like("y"), ax = x.like("ax"), ay = x.like("ay");
  set_complex(y, ids, [](double j) { return Complex(std::cos(j), std::sin(2 * j)); });
  for (const Complex turn : {Complex(1.0, 0.0), Complex(0.0, 1.0)}) {
    set_complex(x, ids, [&](double j) { return turn * Complex(std::sin(3 * j), 1.0 / (1 + j)); });
    a.apply(Space(), ax, x);
    a.apply_adjoint(Space(), ay, y);
    const double left  = dots(Space(), std::tie(ax, y))[0],
                 right = dots(Space(), std::tie(x, ay))[0];
    EXPECT_NEAR(left, right, 1e-12 * std::abs(left));
    EXPECT_GT(std::abs(left), 1e-2);
    const auto other = transposed(mesh, a);
    const auto from = other.make_column_vector("from"), to = other.make_row_vector("to");
    axpby(Space(), from, 1.0, y, 0.0);
    other.apply(Space(), to, from);
    axpby(Space(), ax, 1.0, to, 0.0);
    axpby(Space(), ax, 1.0, ay, -1.0);
    EXPECT_LT(dots(Space(), std::tie(ax, ax))[0], 1e-24);
  }
  const auto b     = x.like("b");
  const auto solve = [&](auto solver) {
    Kokkos::deep_copy(x.view(), 0.0);
    a.apply(Space(), b, y);
    const SolveResult result = solver(Space(), x, b);
    EXPECT_TRUE(result) << result.text();
    axpby(Space(), x, 1.0, y, -1.0);
    EXPECT_LT(dots(Space(), std::tie(x, x))[0], 1e-16);
  };
  const SolveOptions options{.relative = 1e-11, .restart = 70};
  solve(GMRES(x, a, options));
  solve(GMRES(x, a, Jacobi(Space(), x, a), options));
}

}  // namespace sparse_matrix_test
