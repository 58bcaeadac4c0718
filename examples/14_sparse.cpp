// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A sparse matrix: assembled from entries, written to a Matrix Market file and read again, and a
// system with it solved by BiCGStab with incomplete factors. With a path it solves that matrix.
#include <shard/io/matrix_market.hpp>
#include <shard/shard.hpp>
#include <shard/solve/bicgstab.hpp>
#include <shard/solve/block_ilu.hpp>

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "help.hpp"

struct Ranks;  // the mesh axis
struct Node;   // the index space of rows and columns
using Matrix = shard::SparseMatrix<double, Ranks, Node>;

/// Transport by wind and diffusion on n x n points of a square, upwind: not symmetric.
Matrix transport(const shard::Mesh<Ranks>& mesh, std::int64_t n) {
  const auto mine = shard::Partition::balanced(n * n, mesh.size());
  std::vector<std::int64_t> ids;
  std::vector<shard::MatrixEntry<double>> entries;
  for (std::int64_t id = mine.begin(mesh.rank()); id < mine.end(mesh.rank()); ++id) {
    ids.push_back(id);
    const std::int64_t i = id / n, j = id % n;
    const double wind = 2.0;
    entries.push_back({id, id, 4.0 + wind});
    if (i > 0) entries.push_back({id, id - n, -1.0 - wind});
    if (i + 1 < n) entries.push_back({id, id + n, -1.0});
    if (j > 0) entries.push_back({id, id - 1, -1.0});
    if (j + 1 < n) entries.push_back({id, id + 1, -1.0});
  }
  return {mesh, ids, entries};
}

constexpr const char* usage =
    R"(14_sparse [MATRIX.mtx]: solves with this matrix, else with one of its own)";

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  if (asks_for_help(environment, argc, argv, usage)) return 0;
  const shard::Mesh<Ranks> mesh(environment.world(), {0});
  const Kokkos::DefaultExecutionSpace space;
  std::string path = argc > 1 ? argv[1] : "";
  if (path.empty()) {
    path = "14_sparse." + std::to_string(mesh.size()) + ".mtx";
    shard::write_matrix_market(mesh, path, transport(mesh, 60));
  }
  const auto a = shard::read_matrix_market<double, Ranks, Node>(mesh, path);

  const auto x = a.make_column_vector("x"), b = a.make_row_vector("b");
  deep_copy(space, x, 1.0);
  a.apply(space, b, x);  // so that the solution is 1
  deep_copy(space, x, 0.0);
  shard::BiCGStab solver(x, a, shard::BlockILU(a), {.relative = 1e-10});
  const shard::SolveResult result = solver(space, x, b);

  deep_copy(space, b, 1.0);
  shard::axpby(space, x, 1.0, b, -1.0);
  const double error = shard::norm_max(space, x);
  if (mesh.rank() == 0)
    std::printf("%s: %lld rows; %s; the largest error is %.1e\n", path.c_str(),
                static_cast<long long>(a.rows().size()), result.text().c_str(), error);
  if (argc < 2 && mesh.rank() == 0) std::remove(path.c_str());
  return result && error < 1e-6 ? 0 : 1;
}
