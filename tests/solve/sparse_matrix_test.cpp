// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sparse matrices from entries of any rank's rows, against the dense product.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "shard/shard.hpp"
#include "shard/solve/cg.hpp"
#include "shard/solve/preconditioners.hpp"
#include "shard/solve/sparse_matrix.hpp"
#include "support/on_host.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace sparse_matrix_test {

struct Ranks;
struct Node;
struct Cell;

using namespace shard;
using shard::testing::expect_parts;
using shard::testing::message_thrown_by;
using shard::testing::ranks;
using Space       = Kokkos::DefaultExecutionSpace;
using Id          = std::int64_t;
using Square      = SparseMatrix<double, Ranks, Node>;
using Rectangular = SparseMatrix<float, Ranks, Node, Cell>;

int rank() {
  int me = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &me);
  return me;
}

/// Ids 0 to n - 1 times three less five, each with a random owner; this rank's, in a random order.
std::vector<Id> owned_ids(std::mt19937_64& random, int n) {
  std::vector<Id> mine;
  for (int i = 0; i < n; ++i)
    if (static_cast<int>(random() % static_cast<unsigned>(ranks())) == rank())
      mine.push_back(3 * i - 5);
  std::mt19937_64 own(random() + static_cast<unsigned>(rank()));
  std::shuffle(mine.begin(), mine.end(), own);
  return mine;
}

/// Entries that all ranks know, and who gives which: rows of its own or not, several of one place.
template <class T>
std::vector<MatrixEntry<T>> given_entries(std::mt19937_64& random, int rows, int columns, int count,
                                          std::vector<T>& dense) {
  std::vector<MatrixEntry<T>> mine;
  dense.assign(static_cast<std::size_t>(rows * columns), T(0));
  for (int e = 0; e < count; ++e) {
    const auto i = static_cast<int>(random() % static_cast<unsigned>(rows)),
               j = static_cast<int>(random() % static_cast<unsigned>(columns));
    const T v    = static_cast<T>(static_cast<int>(random() % 33) - 16);
    dense[static_cast<std::size_t>(i * columns + j)] += v;
    if (static_cast<int>(random() % static_cast<unsigned>(ranks())) == rank())
      mine.push_back({3 * i - 5, 3 * j - 5, v});
  }
  return mine;
}

int index_of(Id id) { return static_cast<int>((id + 5) / 3); }

/// Sets the owned elements to a function of their ids, the rest to what no product may read.
template <class F, class Value>
void fill(const F& f, const std::vector<Id>& ids, const Value& value) {
  const auto host = Kokkos::create_mirror_view(f.view());
  Kokkos::deep_copy(host, 1e30);
  for (std::size_t i = 0; i < ids.size(); ++i) host(i) = value(index_of(ids[i]));
  Kokkos::deep_copy(f.view(), host);
}
template <class F>
auto values(const F& f) {
  return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), f.view());
}

TEST(SparseMatrix, IsTheDenseProduct) {
  std::mt19937_64 random(shard::testing::seed());
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  for (int trial = 0; trial < 12; ++trial) {
    const int n    = 1 + static_cast<int>(random() % 40);
    const auto ids = owned_ids(random, n);
    std::vector<double> dense;
    const auto entries = given_entries(random, n, n, 5 * n, dense);
    const Square a(mesh, ids, entries);
    const auto x = a.make_column_vector("x"), y = a.make_row_vector("y");
    const auto number = [](int j) { return 1.0 + j % 7; };
    fill(x, ids, number);
    fill(y, ids, [](int) { return 1e30; });
    a.apply(Space(), y, x);
    const auto d = a.make_row_vector("d");
    a.diagonal(Space(), d);
    Space().fence();
    const auto got = values(y), diagonal = values(d);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const int row   = index_of(ids[i]);
      double expected = 0;
      for (int j = 0; j < n; ++j)
        expected += dense[static_cast<std::size_t>(row * n + j)] * number(j);
      EXPECT_EQ(got(i), expected) << "row " << row << ", SHARD_SEED=" << shard::testing::seed();
      EXPECT_EQ(diagonal(i), dense[static_cast<std::size_t>(row * n + row)]);
    }
    fill(y, ids, number);
    a.apply_adjoint(Space(), x, y);
    Space().fence();
    const auto transposed = values(x);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const int column = index_of(ids[i]);
      double expected  = 0;
      for (int r = 0; r < n; ++r)
        expected += dense[static_cast<std::size_t>(r * n + column)] * number(r);
      EXPECT_EQ(transposed(i), expected) << "column " << column;
    }
    for (auto i = static_cast<std::size_t>(a.columns().owned()); i < transposed.extent(0); ++i)
      EXPECT_EQ(transposed(i), 0.0);
  }
}

// Three vectors at once, rows and columns of two spaces.
TEST(SparseMatrix, BetweenTwoSpacesOfSeveralVectors) {
  std::mt19937_64 random(shard::testing::seed() + 1);
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const int n = 17, m = 29;
  const auto rows = owned_ids(random, n), columns = owned_ids(random, m);
  std::vector<float> dense;
  const auto entries = given_entries(random, n, m, 90, dense);
  const Rectangular a(mesh, rows, columns, entries);
  using X = ShardedView<float**, Kokkos::LayoutRight, ShardDim<0, Ranks, Indices<Cell>>>;
  using Y = ShardedView<float**, Kokkos::LayoutLeft, ShardDim<0, Ranks, Indices<Node>>>;
  const X x("x", mesh, {a.columns(), Partition::whole(3)});
  const Y y("y", mesh, {a.rows(), Partition::whole(3)});
  const auto number = [](int j, int k) { return static_cast<float>(1 + (j + 2 * k) % 5); };
  const auto host   = Kokkos::create_mirror_view(x.view());
  for (std::size_t i = 0; i < columns.size(); ++i)
    for (int k = 0; k < 3; ++k) host(i, k) = number(index_of(columns[i]), k);
  Kokkos::deep_copy(x.view(), host);
  a.apply(Space(), y, x);
  Space().fence();
  const auto got = values(y);
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (int k = 0; k < 3; ++k) {
      float expected = 0;
      for (int j = 0; j < m; ++j)
        expected += dense[static_cast<std::size_t>(index_of(rows[i]) * m + j)] * number(j, k);
      EXPECT_EQ(got(i, k), expected);
    }
}

/// A ring of fractions that don't add exactly: the bits are those of one rank.
TEST(SparseMatrix, RowsHaveTheSameBitsForAllOwners) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  std::mt19937_64 random(shard::testing::seed() + 2);
  const int n    = 50;
  const auto ids = owned_ids(random, n);
  std::vector<MatrixEntry<double>> entries;
  std::vector<double> expected;
  const auto x_of = [](int j) { return 1.0 / (3 + j); };
  const auto a_of = [](int i, int j) { return 1.0 / (7 + 5 * i + j); };
  for (const Id id : ids) {
    std::vector<int> near;
    for (int o = -4; o <= 4; ++o) near.push_back(((index_of(id) + o * o * o) % n + n) % n);
    std::sort(near.begin(), near.end());
    near.erase(std::unique(near.begin(), near.end()), near.end());
    double sum = 0;
    for (const int j : near) sum += a_of(index_of(id), j) * x_of(j);
    expected.push_back(sum);
    for (const int j : near) entries.push_back({id, 3 * j - 5, a_of(index_of(id), j)});
  }
  std::shuffle(entries.begin(), entries.end(), random);
  const Square a(mesh, ids, entries);
  const auto x = a.make_column_vector("x"), y = a.make_row_vector("y");
  fill(x, ids, x_of);
  a.apply(Space(), y, x);
  Space().fence();
  const auto got = values(y);
  for (std::size_t i = 0; i < ids.size(); ++i)
    if constexpr (shard::testing::computes_on_host)
      EXPECT_EQ(got(i), expected[i]) << ids[i];
    else
      EXPECT_NEAR(got(i), expected[i], 1e-14) << ids[i];
}

/// tri(-1, 2, -1) of n rows, each rank adding the elements that begin in its own rows.
Square second_differences(const Mesh<Ranks>& mesh, int n, std::vector<Id>& ids) {
  const auto part = Partition::balanced(n, mesh.size());
  std::vector<MatrixEntry<double>> entries;
  const auto add = [&](Id i, Id j, double v) {
    if (i >= 0 && j >= 0 && i < n && j < n) entries.push_back({i, j, v});
  };
  if (mesh.rank() == 0) add(0, 0, 1.0);
  ids.clear();
  for (Id i = part.begin(mesh.rank()); i < part.end(mesh.rank()); ++i) {
    ids.push_back(i);
    add(i, i, 1.0), add(i + 1, i + 1, 1.0);  // the second is often the next rank's
    add(i, i + 1, -1.0), add(i + 1, i, -1.0);
  }
  return Square(mesh, ids, entries);
}

// The same steps and bits as on one rank.
TEST(SparseMatrix, IsAnOperatorOfTheSolvers) {
  constexpr int n  = 60;
  const auto solve = [](MPI_Comm comm, std::vector<Id>& ids) {
    const Mesh<Ranks> mesh(comm, {0});
    const auto a = second_differences(mesh, n, ids);
    const auto x = a.make_column_vector("x"), b = x.like("b"), exact = x.like("exact");
    const auto host = Kokkos::create_mirror_view(exact.view());
    for (std::size_t i = 0; i < ids.size(); ++i)
      host(i) = 1.0 / static_cast<double>(1 + (ids[i] * 7) % 11);
    Kokkos::deep_copy(exact.view(), host);
    a.apply(Space(), b, exact);
    CG cg(x, a, Jacobi(Space(), x, a), {.relative = 1e-12, .determinism = Determinism::ordered});
    const SolveResult result = cg(Space(), x, b);
    EXPECT_TRUE(result) << result.text();
    std::vector<double> solution;
    const auto got = values(x);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      EXPECT_NEAR(got(i), host(i), 1e-9);
      solution.push_back(got(i));
    }
    return std::pair(result.iterations, solution);
  };
  std::vector<Id> ids, all;
  const auto [steps, x]             = solve(MPI_COMM_WORLD, ids);
  const auto [steps_alone, x_alone] = solve(MPI_COMM_SELF, all);
  EXPECT_EQ(steps, steps_alone);
  for (std::size_t i = 0; i < ids.size(); ++i)
    EXPECT_EQ(x[i], x_alone[static_cast<std::size_t>(ids[i])]) << ids[i];
}

TEST(SparseMatrix, WrongEntriesAndVectorsAreErrors) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 const Square a(mesh, {rank()}, {{1000, 0, 1.0}});
               }),
               {"needs the id 1000", "no rank owns it"});
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 const Square a(mesh, {rank()}, {{rank(), 1000, 1.0}});
               }),
               {"needs the id 1000", "no rank owns it"});
  if (ranks() > 1)
    expect_parts(message_thrown_by<ArgumentError>([&] { const Square a(mesh, {7}, {}); }),
                 {"the id 7 is owned by rank"});
  const Square a(mesh, {rank()}, {{rank(), (rank() + 1) % ranks(), 1.0}});
  const Square b(mesh, {rank()}, {{rank(), rank(), 1.0}});
  const auto x = b.make_column_vector("x"), y = a.make_row_vector("y");
  if (ranks() > 1)
    expect_parts(message_thrown_by<ArgumentError>([&] { a.apply(Space(), y, x); }),
                 {"\"x\" or \"y\"", "isn't of the matrix' columns"});
}

}  // namespace sparse_matrix_test
