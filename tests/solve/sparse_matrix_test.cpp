// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sparse matrices from entries of any rank's rows, against the dense product.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "io/scratch_file.hpp"
#include "shard/io/matrix_market.hpp"
#include "shard/io/safetensors.hpp"
#include "shard/shard.hpp"
#include "shard/solve/bicgstab.hpp"
#include "shard/solve/block_ilu.hpp"
#include "shard/solve/block_jacobi.hpp"
#include "shard/solve/cg.hpp"
#include "shard/solve/csr_view.hpp"
#include "shard/solve/gmres.hpp"
#include "shard/solve/linear_solve.hpp"
#include "shard/solve/preconditioners.hpp"
#include "solve/peer_support.hpp"
#include "support/on_host.hpp"
#include "support/support.hpp"
#include "support/thrown.hpp"

namespace sparse_matrix_test {

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

template <class Offset>
void expect_csr(const Rectangular& a, const std::vector<MatrixEntry<float>>& entries) {
  const auto csr = csr_view<Offset>(a);
  EXPECT_EQ(csr.columns.data(), a.column().data());
  EXPECT_EQ(csr.values.data(), a.values().data());
  EXPECT_EQ(static_cast<const void*>(csr.row_map.data()) == a.row_begin().data(),
            csr.shares_row_map);
  EXPECT_EQ(csr.row_count(), a.rows().owned());
  EXPECT_EQ(csr.column_count, a.columns().places());
  const Kokkos::HostSpace host;
  const auto begin  = Kokkos::create_mirror_view_and_copy(host, csr.row_map);
  const auto column = Kokkos::create_mirror_view_and_copy(host, csr.columns);
  const auto value  = Kokkos::create_mirror_view_and_copy(host, csr.values);
  const auto &rows = impl::ids_of(a.rows()), &columns = impl::ids_of(a.columns());
  std::size_t at = 0;
  for (int r = 0; r < csr.row_count(); ++r)
    for (auto e = begin(static_cast<std::size_t>(r)); e < begin(static_cast<std::size_t>(r) + 1);
         ++e, ++at) {
      ASSERT_LT(at, entries.size());
      EXPECT_EQ(entries[at].row, rows[static_cast<std::size_t>(r)]);
      EXPECT_EQ(entries[at].column, columns[static_cast<std::size_t>(column(at))]);
      EXPECT_EQ(entries[at].value, value(at));
    }
  EXPECT_EQ(at, entries.size());
}

TEST(SparseMatrix, CompressedRows) {
  std::mt19937_64 random(shard::testing::seed() + 7);
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  std::vector<float> dense;
  const auto rows = owned_ids(random, 17), columns = owned_ids(random, 11);
  const Rectangular a(mesh, rows, columns, given_entries(random, 17, 11, 60, dense));
  expect_csr<index_t>(a, a.entries());
  expect_csr<std::size_t>(a, a.entries());
  expect_csr<int>(a, a.entries());
  static_assert(decltype(csr_view<std::size_t>(a))::shares_row_map &&
                !decltype(csr_view<int>(a))::shares_row_map);
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

/// -u'' + wind u' of n rows in a circle, upwind: not symmetric.
Square circle(const Mesh<Ranks>& mesh, int n, std::vector<Id>& ids) {
  const auto part = Partition::balanced(n, mesh.size());
  std::vector<MatrixEntry<double>> entries;
  ids.clear();
  for (Id i = part.begin(mesh.rank()); i < part.end(mesh.rank()); ++i) {
    const double wind = 1.0 + 0.5 * static_cast<double>((i * 7) % 5);
    ids.push_back(i);
    entries.push_back({i, i, 2.5 + wind});
    entries.push_back({i, (i + n - 1) % n, -1.0 - wind});
    entries.push_back({i, (i + 1) % n, -1.0});
  }
  return Square(mesh, ids, entries);
}

// J = c'A^-1 b: its derivative along a direction of A's values, against differences.
TEST(SparseMatrix, GradientOfValues) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  std::vector<Id> ids;
  const auto a = circle(mesh, 23, ids);
  const auto x = a.make_column_vector("x"), b = x.like("b"), c = x.like("c"), db = x.like("db");
  for (const auto* f : {&b, &c}) {
    const auto host = Kokkos::create_mirror_view(f->view());
    for (std::size_t i = 0; i < ids.size(); ++i)
      host(i) = std::sin(static_cast<double>(ids[i] * (f == &b ? 3 : 5)) + 0.4);
    Kokkos::deep_copy(f->view(), host);
  }
  const SolveOptions options{.relative = 1e-14, .restart = 40};
  const LinearSolve solve(GMRES(x, a, options), GMRES(x, adjoint_of(a), options));
  const auto value = [&] {
    solve.apply(Space(), x, b);
    return dots(Space(), std::tie(c, x))[0];
  };
  const auto values   = a.values();
  const auto original = Kokkos::create_mirror(values), along = Kokkos::create_mirror(values);
  Kokkos::deep_copy(original, values);
  for (std::size_t e = 0; e < along.extent(0); ++e)
    along(e) = std::cos(original(e) + 0.1 * static_cast<double>(ids.empty() ? 0 : ids[0]));
  const auto set_to = [&](double step) {
    const auto moved = Kokkos::create_mirror(values);
    for (std::size_t e = 0; e < along.extent(0); ++e) moved(e) = original(e) + step * along(e);
    Kokkos::deep_copy(values, moved);
  };
  constexpr double step = 1e-4;
  set_to(step);
  const double after = value();
  set_to(-step);
  const double difference = (after - value()) / (2 * step);
  set_to(0.0);
  solve.apply(Space(), x, b);
  solve.pullback(Space(), db, c);
  auto da = values;
  da      = decltype(da)("da", values.extent(0));
  solve.add_coefficient_gradient(Space(), da, db, x);
  Space().fence();
  const auto got = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), da);
  double mine = 0.0, all = 0.0;
  for (std::size_t e = 0; e < along.extent(0); ++e) mine += got(e) * along(e);
  MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_NEAR(all, difference, 1e-6 * std::abs(difference));
  EXPECT_GT(std::abs(difference), 1e-3);
}

// On one rank the block of a matrix without cycles is the matrix: one iteration. On others the
// blocks' product with the own part is tested.
TEST(SparseMatrix, IncompleteFactors) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  std::vector<Id> ids;
  const auto line = second_differences(mesh, 60, ids);  // its factors have no other entries
  const auto x = line.make_column_vector("x"), b = x.like("b"), z = x.like("z");
  const auto number = [](Id i) { return 1.0 / static_cast<double>(1 + (i * 7) % 11); };
  const auto host   = Kokkos::create_mirror_view(x.view());
  for (std::size_t i = 0; i < ids.size(); ++i) host(i) = number(ids[i]);
  Kokkos::deep_copy(x.view(), host);
  const BlockILU block(line);
  block.apply(Space(), z, x);
  Space().fence();
  const auto solved = values(z);
  for (std::size_t i = 0; i < ids.size(); ++i)
    EXPECT_NEAR(2.0 * solved(i) - (i > 0 ? solved(i - 1) : 0.0) -
                    (i + 1 < ids.size() ? solved(i + 1) : 0.0),
                host(i), 1e-13);
  const auto a = circle(mesh, 200, ids);
  const auto u = a.make_column_vector("u"), v = u.like("v");
  const BlockILU factors(a);
  std::vector<Id> shifted_ids;  // as `fill` counts
  for (const Id id : ids) shifted_ids.push_back(3 * id - 5);
  const auto solve = [&](auto solver) {
    Kokkos::deep_copy(u.view(), 0.0);
    fill(v, shifted_ids, [](int i) { return std::sin(0.7 * i * i); });
    const SolveResult result = solver(Space(), u, v);
    EXPECT_TRUE(result) << result.text();
    return result.iterations;
  };
  const SolveOptions options{.relative = 1e-10};
  EXPECT_LT(solve(BiCGStab(u, a, factors, options)), solve(BiCGStab(u, a, options)));
  Kokkos::deep_copy(a.values(), 0.0);
  expect_parts(message_thrown_by<ArgumentError>([&] { factors.factor(); }),
               {"BlockILU", "pivot of row 0"});
}

// A level of fill as large as the block gives its exact factors: the block times z is r.
TEST(SparseMatrix, IncompleteFactorsWithFill) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const Id n     = 20;
  const Square a = five_points(mesh, n, 1.0);
  const auto x = a.make_column_vector("x"), b = x.like("b");
  Kokkos::deep_copy(b.view(), 1.0);
  const auto copy = [](const auto& view) {
    return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
  };
  std::vector<int> steps;
  for (const int level : {0, 1, 3, static_cast<int>(n * n)}) {
    const BlockILU factors(a, level);
    Kokkos::deep_copy(x.view(), 0.0);
    GMRES gmres(x, a, factors, {.relative = 1e-10});
    const SolveResult result = gmres(Space(), x, b);
    EXPECT_TRUE(result) << result.text();
    steps.push_back(result.iterations);
    if (level < n * n) continue;
    factors.apply(Space(), x, b);
    Space().fence();
    const auto z = values(x), r = values(b);
    const auto begin  = copy(a.row_begin());
    const auto column = copy(a.column());
    const auto value  = copy(a.values());
    for (index_t row = 0; row < a.rows().owned(); ++row) {
      double sum = 0.0;
      for (index_t e = begin(row); e < begin(row + 1); ++e)
        if (column(e) < a.rows().owned()) sum += value(e) * z(column(e));
      EXPECT_NEAR(sum, r(row), 1e-12);
    }
  }
  EXPECT_LT(steps[1], steps[0]);  // with several blocks more fill helps only so far
  for (std::size_t i = 2; i < steps.size(); ++i)
    EXPECT_LE(steps[i], steps[mesh.size() == 1 ? i - 1 : 0]) << i;
  EXPECT_TRUE(mesh.size() > 1 || steps.back() == 1) << steps.back();
  expect_parts(message_thrown_by<ArgumentError>([&] { BlockILU(a, -1); }),
               {"BlockILU", "level of fill is -1"});
}

TEST(SparseMatrix, MatrixMarketFiles) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  std::vector<Id> ids, again;
  const auto a = circle(mesh, 37, ids);
  const shard::testing::ScratchFile file("matrix.mtx");
  const std::string& path = file.path();
  write_matrix_market(mesh, path, a);
  const auto b = read_matrix_market<double, Ranks, Node>(mesh, path);
  const auto x = a.make_column_vector("x"), y = a.make_row_vector("y"),
             u = b.make_column_vector("u"), v = b.make_row_vector("v");
  const auto host = Kokkos::create_mirror_view(x.view());
  for (std::size_t i = 0; i < ids.size(); ++i) host(i) = std::sin(static_cast<double>(ids[i]));
  for (const auto& f : {x, u}) Kokkos::deep_copy(f.view(), host);
  a.apply(Space(), y, x);
  b.apply(Space(), v, u);
  Space().fence();
  const auto one = values(y), other = values(v);
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(one(i), other(i));

  const auto row_sums = [&](const std::string& text) {
    file.write(text);
    const auto m  = read_matrix_market<double, Ranks, Node>(mesh, path);
    const auto in = m.make_column_vector("in"), out = m.make_row_vector("out");
    Kokkos::deep_copy(in.view(), 1.0);
    m.apply(Space(), out, in);
    Space().fence();
    const auto part = Partition::balanced(3, ranks());
    std::vector<double> mine(3, 0.0), all(3);
    const auto got = values(out);
    for (index_t i = 0; i < part.count(rank()); ++i)
      mine[static_cast<std::size_t>(part.begin(rank()) + i)] = got(static_cast<std::size_t>(i));
    MPI_Allreduce(mine.data(), all.data(), 3, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    return all;
  };
  EXPECT_EQ(row_sums("%%MatrixMarket matrix coordinate real symmetric\n% a comment\n\n3 3 3\n"
                     "1 1 2.5\n3 1 -1e0\n2 2 4\n"),
            (std::vector<double>{1.5, 4, -1}));
  EXPECT_EQ(row_sums("%%MatrixMarket matrix coordinate integer skew-symmetric\r\n3 3 1\r\n"
                     "3 2 7"),
            (std::vector<double>{0, -7, 7}));
  EXPECT_EQ(row_sums("%%MatrixMarket matrix coordinate pattern general\n3 3 2\n1 2\n1 3\n"),
            (std::vector<double>{2, 0, 0}));
  const auto refused = [&](const std::string& text, const char* why) {
    file.write(text);
    expect_parts(
        message_thrown_by<IoError>([&] { read_matrix_market<double, Ranks, Node>(mesh, path); }),
        {"matrix.mtx", why});
  };
  refused("no matrix\n", "doesn't begin with");
  refused("%%MatrixMarket matrix array real general\n3 3\n", "only matrices in coordinates");
  refused("%%MatrixMarket matrix coordinate real general\n3 3\n", "rows, columns, entries");
  refused("%%MatrixMarket matrix coordinate real general\n3 3 1\n1 4 2.0\n", "3 x 3 elements");
  refused("%%MatrixMarket matrix coordinate real general\n3 3 2\n1 1 2.0\n",
          "says 2 entries and has 1");
  const std::string symmetric = "%%MatrixMarket matrix coordinate real symmetric\n";
  refused(symmetric + "3 3 2\n2 1 4\n1 2 4\n", "above the diagonal");
  refused("%%MatrixMarket matrix coordinate real skew-symmetric\n3 3 1\n2 2 4\n",
          "on the diagonal");
  refused("%%MatrixMarket matrix coordinate pattern skew-symmetric\n3 3 1\n2 1\n",
          "not of a pattern");
  refused("%%MatrixMarket matrix coordinate real generalised\n3 3 1\n2 1 4\n",
          "general, symmetric");
  refused(symmetric + "3 3 1 0\n2 1 4\n", "rows, columns, entries");
  for (const char* value : {"nan", "inf", "0x10", "1e999"})
    refused(symmetric + "3 3 1\n2 1 " + value + "\n", "isn't an entry");
  file.write("%%MatrixMarket matrix coordinate real general\n3 4 1\n1 4 2.0\n");
  expect_parts(message_thrown_by<ArgumentError>(
                   [&] { read_matrix_market<double, Ranks, Node>(mesh, path); }),
               {"3 rows and 4 columns"});
  EXPECT_EQ((read_matrix_market<float, Ranks, Node, Cell>(mesh, path).columns().size()), 4);
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

// The ranks of a matrix are those of its axis, in their order, and its replicas don't count.
TEST(SparseMatrix, CommunicatorIsTheAxis) {
  on_meshes([](const auto& mesh) {
    const Id row = mesh.template coordinate<Ranks>();
    const Square a(mesh, {row}, {{row, row, 2.0}});
    int size = 0, place = -1;
    MPI_Comm_size(a.communicator(), &size);
    MPI_Comm_rank(a.communicator(), &place);
    EXPECT_EQ(size, mesh.template size<Ranks>());
    EXPECT_EQ(place, row);
  });
}

// Replicas of a matrix over another axis agree on options and errors: all ranks go on or none does.
TEST(SparseMatrix, ReplicasAgree) {
  if (ranks() % 2 != 0) return;
  const Mesh<Member, Ranks> mesh(MPI_COMM_WORLD, {2, ranks() / 2});
  const Id row     = mesh.coordinate<Ranks>();
  const int member = mesh.coordinate<Member>();
  const Square a(mesh, {row}, {{row, row, 2.0}});
  expect_parts(message_thrown_by<AgreementError>([&] { const BlockILU ilu(a, member); }),
               {"BlockILU", "level of fill 0", "level of fill 1"});
  expect_parts(message_thrown_by<AgreementError>([&] { const BlockJacobi jacobi(a, 1 + member); }),
               {"BlockJacobi", "blocks of 1 rows", "blocks of 2 rows"});
  // singular for one member alone
  const Square b(mesh, {row}, {{row, row, 2.0 * member}});
  message_thrown_by<ArgumentError>([&] { const BlockILU ilu(b); });
  message_thrown_by<ArgumentError>([&] { const BlockJacobi jacobi(b, 1); });
  // the first member writes
  const shard::testing::ScratchFile file("one.mtx"), other("other.mtx");
  expect_parts(message_thrown_by<AgreementError>(
                   [&] { write_matrix_market(mesh, member == 0 ? file.path() : other.path(), a); }),
               {"write_matrix_market", "one.mtx", "other.mtx"});
  const Square mine(mesh, {row}, {{row, row, 2.0 + member}});
  write_matrix_market(mesh, file.path(), mine);
  const auto read = read_matrix_market<double, Ranks, Node>(mesh, file.path());
  ASSERT_EQ(read.entries().size(), std::size_t{1});
  EXPECT_EQ(read.entries()[0].value, 2.0);
}

TEST(SparseMatrix, ErrorsOfItsSpacesAreItsOwn) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  expect_parts(message_thrown_by<ArgumentError>([&] {
                 const SparseMatrix<double, Ranks, Node, Cell> a(mesh, {rank()}, {rank(), 0}, {});
               }),
               {"shard::SparseMatrix", "0"});
}

}  // namespace sparse_matrix_test
