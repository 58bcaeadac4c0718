// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Multigrid with Galerkin products: iterations with jumps, symmetry, the same bits on all ranks.
#include "shard/solve/galerkin_multigrid.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "shard/solve/block_ilu.hpp"
#include "shard/solve/block_jacobi.hpp"
#include "shard/solve/cg.hpp"
#include "solve/sparse_support.hpp"
#include "support/counting.hpp"

namespace sparse_matrix_test {
namespace {

std::vector<int> turned_order() {
  std::vector<int> order;
  for (int r = ranks(); r > 0; --r) order.push_back(r - 1);
  return order;
}

using Coefficient = std::function<double(Id, Id)>;

/// This rank's part of the numbers below n; on the first ranks if there are few.
std::vector<Id> part_of(const Mesh<Ranks>& mesh, Id n) {
  const auto part = Partition::balanced(n, n < 300 ? (mesh.size() + 1) / 2 : mesh.size());
  std::vector<Id> ids;
  if (mesh.rank() < part.parts())
    for (Id i = part.begin(mesh.rank()); i < part.end(mesh.rank()); ++i) ids.push_back(i);
  return ids;
}

/// Linear elements on the (n + 1)^2 cells of a square whose walls have the value 0.
struct Problem {
  Mesh<Ranks> mesh;
  Id n;
  std::vector<Id> ids = part_of(mesh, n* n);
  Square a;

  Problem(MPI_Comm comm, Id points, const Coefficient& k)
      : mesh(comm, {0}), n(points), a(mesh, ids, entries(k)) {}

  std::vector<MatrixEntry<double>> entries(const Coefficient& k) const {
    std::vector<MatrixEntry<double>> list;
    for (const Id id : ids) {
      const Id i = id / n, j = id % n;
      const auto face = [&](Id p, Id q, double weight) {
        list.push_back({id, id, weight});
        if (p >= 0 && p < n && q >= 0 && q < n) list.push_back({id, p * n + q, -weight});
      };
      face(i - 1, j, 0.5 * (k(i, j) + k(i, j + 1)));
      face(i + 1, j, 0.5 * (k(i + 1, j) + k(i + 1, j + 1)));
      face(i, j - 1, 0.5 * (k(i, j) + k(i + 1, j)));
      face(i, j + 1, 0.5 * (k(i, j + 1) + k(i + 1, j + 1)));
    }
    return list;
  }
  /// Bilinear interpolation from every second point, to at most `most` points.
  std::vector<CoarseLevel<double>> levels(Id most) const {
    std::vector<CoarseLevel<double>> made;
    const auto along = [](Id i, Id m) {
      std::vector<std::pair<Id, double>> from;
      if (i % 2 == 1) return std::vector<std::pair<Id, double>>{{i / 2, 1.0}};
      if (i > 0) from.push_back({i / 2 - 1, 0.5});
      if (i / 2 < m) from.push_back({i / 2, 0.5});
      return from;
    };
    for (Id fine = n; fine * fine > most; fine /= 2) {
      std::vector<MatrixEntry<double>> list;
      for (const Id id : part_of(mesh, fine * fine))
        for (const auto& [p, v] : along(id / fine, fine / 2))
          for (const auto& [q, w] : along(id % fine, fine / 2))
            list.push_back({id, p * (fine / 2) + q, v * w});
      made.emplace_back(part_of(mesh, fine / 2 * (fine / 2)), list);
    }
    return made;
  }
};

double rough(Id i) { return std::sin(0.3 + 1.7 * static_cast<double>(i % 89)); }
void set_rough(const Square::column_vector& f, const std::vector<Id>& ids) {
  const auto host = Kokkos::create_mirror_view(f.view());
  Kokkos::deep_copy(host, 1e30);  // no product may read the halo
  for (std::size_t i = 0; i < ids.size(); ++i) host(i) = rough(ids[i]);
  Kokkos::deep_copy(f.view(), host);
}

double one(Id, Id) { return 1.0; }
/// Along lines of all coarse levels' cells, and elsewhere.
double jumps(Id i, Id j) { return i >= 16 && i < 40 && j >= 24 ? 1e4 : 1.0; }
double odd_jumps(Id i, Id j) { return i >= 13 && i < 34 && j >= 5 && j < 31 ? 1e4 : 1.0; }

struct Solved {
  int iterations;
  std::vector<double> history;
};
Solved solve(MPI_Comm comm, Id n, const Coefficient& k, const GalerkinOptions& options = {},
             bool flexible = false) {
  const Problem p(comm, n, k);
  const auto x = p.a.make_column_vector("x"), b = x.like("b");
  set_rough(b, p.ids);
  const GalerkinMultigrid multigrid(p.mesh, p.a, p.levels(60), options);
  CG cg(x, p.a, multigrid,
        {.relative = 1e-8, .flexible = flexible, .determinism = Determinism::ordered});
  const SolveResult result = cg(Space(), x, b);
  EXPECT_TRUE(result) << result.text();
  SolveResult second;
  Kokkos::deep_copy(x.view(), 0.0);
  EXPECT_EQ(shard::testing::count([&] { second = cg(Space(), x, b); }).allocations, 0);
  return {result.iterations, cg.history()};
}

TEST(GalerkinMultigrid, IterationsWithJumps) {
  const int plain = solve(MPI_COMM_WORLD, 47, one).iterations;
  EXPECT_LE(plain, 7);
  EXPECT_LE(std::abs(solve(MPI_COMM_WORLD, 23, one).iterations - plain), 1);
  using enum MultigridCycle;
  const int once = solve(MPI_COMM_WORLD, 23, one, {}, true).iterations;
  EXPECT_LE(solve(MPI_COMM_WORLD, 23, one, {.cycle = w}).iterations, once);
  EXPECT_LE(solve(MPI_COMM_WORLD, 23, one, {.cycle = f}, true).iterations, once);
  EXPECT_LE(solve(MPI_COMM_WORLD, 23, one, {.cycle = full}, true).iterations, once);
  EXPECT_LE(solve(MPI_COMM_WORLD, 47, jumps).iterations, 2 * plain);
  EXPECT_LE(solve(MPI_COMM_WORLD, 47, odd_jumps).iterations, 3 * plain);
}

TEST(GalerkinMultigrid, SameBitsOnAllRanks) {
  EXPECT_EQ(solve(MPI_COMM_WORLD, 23, odd_jumps).history,
            solve(MPI_COMM_SELF, 23, odd_jumps).history);
}

TEST(GalerkinMultigrid, IsSymmetricAndUpdates) {
  const Problem p(MPI_COMM_WORLD, 23, one);
  const auto x = p.a.make_column_vector("x"), y = x.like("y"), mx = x.like("mx"), my = x.like("my");
  set_rough(x, p.ids);
  set_rough(y, p.ids);
  p.a.apply(Space(), y, x);
  const auto levels = p.levels(60);
  const GalerkinMultigrid multigrid(p.mesh, p.a, levels);
  EXPECT_EQ(multigrid.levels(), 3);
  const auto sides = [&](const auto& m) {
    m.apply(Space(), mx, x);
    m.apply(Space(), my, y);
    return dots<Determinism::ordered>(Space(), std::tie(mx, y), std::tie(my, x), std::tie(mx, x));
  };
  const auto before = sides(multigrid);
  EXPECT_NEAR(before[0], before[1], 1e-12 * std::abs(before[0]));
  EXPECT_GT(before[2], 0.0);
  // other values: as if made anew
  const Problem other(MPI_COMM_WORLD, 23, odd_jumps);
  Kokkos::deep_copy(p.a.values(), other.a.values());
  multigrid.update(Space());
  const auto after = sides(multigrid);
  EXPECT_EQ(after, sides(GalerkinMultigrid(p.mesh, p.a, levels)));
  EXPECT_NE(after, before);
}

// A line without walls, whose null space is the constants; interpolation as matrices.
TEST(GalerkinMultigrid, NeumannByMatrices) {
  struct Level1;
  struct Level2;
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  const auto line = [&](Id n) {
    std::vector<MatrixEntry<double>> list;
    for (const Id i : part_of(mesh, n)) {
      if (i % 2 == 0) list.push_back({i, i / 2, 1.0});
      if (i % 2 == 1) list.push_back({i, i / 2, 0.5}), list.push_back({i, i / 2 + 1, 0.5});
    }
    return list;
  };
  const auto ids = part_of(mesh, 257), ids1 = part_of(mesh, 129), ids2 = part_of(mesh, 65);
  std::vector<MatrixEntry<double>> entries;
  for (const Id i : ids)
    for (const Id j : {i - 1, i + 1})
      if (j >= 0 && j < 257) entries.push_back({i, i, 1.0}), entries.push_back({i, j, -1.0});
  const Square a(mesh, ids, entries);
  const SparseMatrix<double, Ranks, Node, Level1> p1(mesh, ids, ids1, line(257));
  const SparseMatrix<double, Ranks, Level1, Level2> p2(mesh, ids1, ids2, line(129));
  const auto x = a.make_column_vector("x"), b = x.like("b"), known = x.like("known");
  set_rough(known, ids);
  a.apply(Space(), b, known);  // of mean 0
  CG cg(x, a, GalerkinMultigrid(mesh, a, {p1, p2}),
        {.relative = 1e-10, .nullspace = Nullspace::constant});
  const SolveResult result = cg(Space(), x, b);
  EXPECT_TRUE(result) << result.text();
  EXPECT_LE(result.iterations, 12);
}

// Replicas over another axis don't take part: the last level is gathered among the axis' ranks.
TEST(GalerkinMultigrid, ReplicasOverAnotherAxis) {
  struct Member;
  if (ranks() % 2 != 0) return;
  const Mesh<Member, Ranks> members(MPI_COMM_WORLD, {2, ranks() / 2}, {.order = turned_order()});
  const int parts = ranks() / 2, mine = members.coordinate<Ranks>();
  const auto ids_of = [&](Id n) {
    const auto part = Partition::balanced(n, parts);
    std::vector<Id> ids;
    for (Id i = part.begin(mine); i < part.end(mine); ++i) ids.push_back(i);
    return ids;
  };
  std::vector<MatrixEntry<double>> entries, p;
  for (const Id i : ids_of(64)) {
    entries.push_back({i, i, 2.1});
    for (const Id j : {i - 1, i + 1})
      if (j >= 0 && j < 64) entries.push_back({i, j, -1.0});
    p.push_back({i, i / 2, 1.0});
  }
  const Square a(members, ids_of(64), entries);
  const auto x = a.make_column_vector("x"), b = x.like("b");
  set_rough(b, ids_of(64));
  const GalerkinMultigrid multigrid(members, a, {CoarseLevel<double>(ids_of(32), p)});
  const SolveResult result = CG(x, a, multigrid, {.relative = 1e-10})(Space(), x, b);
  EXPECT_TRUE(result) << result.text();
  EXPECT_LE(result.iterations, 15);
  multigrid.update(Space());
}

// A graph of two parts: the last level is solved part by part, whatever the rounding.
TEST(GalerkinMultigrid, TwoParts) {
  const Mesh<Ranks> mesh(MPI_COMM_WORLD, {0});
  for (int trial = 0; trial < 6; ++trial) {
    const auto weight = [&](Id i) { return 1.0 + 0.37 * std::sin(trial + 1.3 * double(i)); };
    std::vector<MatrixEntry<double>> entries, p;
    const auto ids = part_of(mesh, 400);
    for (const Id i : ids) {
      for (const Id j : {i - 1, i + 1})
        if (j >= 0 && j < 400 && j / 200 == i / 200) {
          const double w = weight(std::min(i, j));
          entries.push_back({i, i, w}), entries.push_back({i, j, -w});
        }
      p.push_back({i, i / 8, 1.0});
    }
    const Square a(mesh, ids, entries);
    const auto x = a.make_column_vector("x"), b = x.like("b"), known = x.like("known"),
               first = x.like("first"), second = x.like("second");
    set_rough(known, ids);
    a.apply(Space(), b, known);
    for (std::size_t i = 0; i < ids.size(); ++i) {
      Kokkos::deep_copy(Kokkos::subview(first.view(), i), ids[i] < 200 ? 1.0 : 0.0);
      Kokkos::deep_copy(Kokkos::subview(second.view(), i), ids[i] < 200 ? 0.0 : 1.0);
    }
    const GalerkinMultigrid multigrid(mesh, a, {CoarseLevel<double>(part_of(mesh, 50), p)});
    CG cg(x, a, multigrid, {.relative = 1e-8});
    cg.set_nullspace(Space(), std::vector{first, second});
    const SolveResult result = cg(Space(), x, b);
    EXPECT_TRUE(result) << trial << ' ' << result.text();
  }
}

// The same with elements that were summed in float: the null space isn't exact to double's
// rounding.
TEST(GalerkinMultigrid, TwoPartsInFloat) {
  std::vector<MatrixEntry<double>> entries, all;
  const auto ids = part_of(Mesh<Ranks>(MPI_COMM_WORLD, {0}), 20);
  for (Id i = 0; i < 20; ++i) {
    float sum = 0;
    for (const Id j : {i - 1, i + 1})
      if (j >= 0 && j < 20 && j / 10 == i / 10) {
        const auto w = static_cast<float>(1.0 + 0.37 * std::sin(1.3 * double(std::min(i, j))));
        sum += w;
        all.push_back({i, j, -w});
      }
    all.push_back({i, i, sum});
  }
  for (const auto& e : all)
    if (std::find(ids.begin(), ids.end(), e.row) != ids.end()) entries.push_back(e);
  const auto inverse = impl::gathered_inverse(MPI_COMM_WORLD, MPI_COMM_WORLD, ids, entries,
                                              std::numeric_limits<float>::epsilon());
  for (const double v : inverse.values) EXPECT_LT(std::fabs(v), 10.0);  // else of rounding
}

TEST(GalerkinMultigrid, Errors) {
  const Problem p(MPI_COMM_WORLD, 23, one);
  const auto message = [&](const Square& a, const std::vector<CoarseLevel<double>>& levels) {
    return message_thrown_by<ArgumentError>([&] { GalerkinMultigrid(p.mesh, a, levels); });
  };
  expect_parts(message(p.a, {}), {"GalerkinMultigrid", "give at least one"});
  std::vector<MatrixEntry<double>> same;
  const auto ids = part_of(p.mesh, 1100);
  for (const Id id : ids) same.push_back({id, id, 1.0});
  expect_parts(message(Square(p.mesh, ids, same), {CoarseLevel<double>(ids, same)}),
               {"GalerkinMultigrid", "1100", "at most 1024"});
  const Problem negative(MPI_COMM_WORLD, 23, [](Id, Id) { return -1.0; });
  expect_parts(message(negative.a, p.levels(60)), {"GalerkinMultigrid", "diagonal"});
  // vectors, and what differs between ranks
  const auto levels = p.levels(60);
  const GalerkinMultigrid multigrid(p.mesh, p.a, levels);
  const auto x     = p.a.make_column_vector("x"),
             other = Square(p.mesh, ids, same).make_row_vector("o");
  const auto own   = BlockJacobi(p.a, 3);
  const BlockILU ilu(p.a);
  message_thrown_by<ArgumentError>([&] { p.a.apply(Space(), x, x); });
  message_thrown_by<ArgumentError>([&] { p.a.apply_adjoint(Space(), x, x); });
  message_thrown_by<ArgumentError>([&] { multigrid.apply(Space(), x, x); });
  message_thrown_by<ArgumentError>([&] { own.apply(Space(), x, x); });
  ilu.apply(Space(), x, x);
  if (p.ids.size() != ids.size()) {
    message_thrown_by<ArgumentError>([&] { ilu.apply(Space(), other, x); });
    message_thrown_by<ArgumentError>([&] { own.apply(Space(), x, other); });
    message_thrown_by<ArgumentError>([&] { p.a.diagonal(Space(), other); });
    message_thrown_by<ArgumentError>([&] { axpby(Space(), x, 1.0, other, 1.0); });
  }
  const auto impossible = [&](const GalerkinOptions& options, const char* name) {
    expect_parts(message_thrown_by<ArgumentError>(
                     [&] { GalerkinMultigrid(p.mesh, p.a, p.levels(60), options); }),
                 {"GalerkinMultigrid", name});
  };
  impossible({.smoothing = 0}, "smoothing must be at least 1");
  impossible({.rough = 1.0}, "rough must be between 0 and 1");
  if (ranks() == 1) return;
  const bool last = rank() == ranks() - 1;
  auto fewer      = p.levels(60);
  if (last) fewer.pop_back();
  const auto refused = [&](const auto& given, const GalerkinOptions& options) {
    message_thrown_by<AgreementError>([&] { GalerkinMultigrid(p.mesh, p.a, given, options); });
  };
  refused(fewer, {});
  refused(levels, {.smoothing = last ? 3 : 2});
  refused(levels, {.cycle = last ? MultigridCycle::w : MultigridCycle::v});
  refused(levels, {.rough = last ? 0.2 : 0.3});
  message_thrown_by<AgreementError>([&] { BlockILU(p.a, last ? 1 : 0); });
}

// A factorisation that fails leaves the one before.
TEST(BlockILU, KeepsItsFactorsIfTheNextFail) {
  const Problem p(MPI_COMM_WORLD, 23, one);
  const auto r = p.a.make_row_vector("r"), z = r.like("z"), before = r.like("before");
  set_rough(r, p.ids);
  const BlockILU ilu(p.a);
  ilu.apply(Space(), before, r);
  const auto values = p.a.values();
  const auto old    = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), values);
  if (rank() == 0) Kokkos::deep_copy(values, 0.0);
  message_thrown_by<ArgumentError>([&] { ilu.factor(); });
  ilu.apply(Space(), z, r);
  axpby(Space(), z, -1.0, before, 1.0);
  EXPECT_EQ(dots(Space(), std::tie(z, z))[0], 0.0);
  Kokkos::deep_copy(values, old);
}

}  // namespace
}  // namespace sparse_matrix_test
