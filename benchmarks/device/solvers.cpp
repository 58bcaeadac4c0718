// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The Laplacian of a square in three forms: a sparse matrix, an operator on a field, and what a
// solver does with it.
#include <vector>

#include "report.hpp"
#include "shard/shard.hpp"
#include "shard/solve/cg.hpp"
#include "shard/solve/multigrid.hpp"
#include "shard/solve/sparse_matrix.hpp"

namespace {

struct Y;
struct X;
struct Ranks;
struct Node;
using shard::index_t;
using Field =
    shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, Y, shard::Halo<1>>,
                       shard::ShardDim<1, X, shard::Halo<1>>>;
using Box =
    shard::ShardedView<double***, Kokkos::LayoutRight, shard::ShardDim<0, Y, shard::Halo<1>>,
                       shard::ShardDim<1, X, shard::Halo<1>>,
                       shard::ShardDim<2, shard::Unsharded, shard::Halo<1>>>;

void time_matrix(index_t n) {
  const std::string name = "sparse product 5 x " + std::to_string(n) + "^2";
  if (!wanted(name)) return;
  const shard::Mesh<Ranks> mesh(MPI_COMM_WORLD, {1});
  std::vector<std::int64_t> ids;
  std::vector<shard::MatrixEntry<double>> entries;
  for (index_t i = 0; i < n * n; ++i) {
    ids.push_back(i);
    const auto add = [&](bool there, index_t j, double v) {
      if (there) entries.push_back({i, j, v});
    };
    add(i >= n, i - n, -1);
    add(i % n > 0, i - 1, -1);
    add(true, i, 4);
    add(i % n < n - 1, i + 1, -1);
    add(i < n * (n - 1), i + n, -1);
  }
  const shard::SparseMatrix<double, Ranks, Node> a(mesh, ids, entries);
  const auto x = a.make_column_vector("x"), y = a.make_row_vector("y");
  fill(x.view());
  const Space space;
  const double bytes =
      12.0 * static_cast<double>(entries.size()) + 24.0 * static_cast<double>(n * n);
  report(name + " forward", 0, bytes, [&] { a.apply(space, y, x); });
  report(name + " adjoint", 0, bytes, [&] { a.apply_adjoint(space, x, y); });
}

template <class F>
void time_diffusion(const std::string& size, const F& x) {
  const std::string name = "diffusion " + size;
  if (!wanted(name)) return;
  const Space space;
  const F b = x.like("b"), y = x.like("y");
  fill(b.view());
  const shard::Diffusion a(x, {});
  const double bytes = 16.0 * static_cast<double>(x.view().size());
  report(name + " operator", 0, bytes, [&] { a.apply(space, y, b); });
  const shard::Multigrid multigrid(a);
  report(name + " V-cycle", 0, 0, [&] { multigrid.apply(space, y, b); });
  shard::CG cg(x, a, multigrid, {.relative = 1e-8});
  report(name + " multigrid-CG to 1e-8", 0, 0, [&] {
    Kokkos::deep_copy(space, x.view(), 0.0);
    static_cast<void>(cg(space, x, b));
  });
}

}  // namespace

void time_solvers() {
  time_matrix(1024);
  const shard::Mesh<Y, X> mesh(MPI_COMM_WORLD, {1, 1});
  time_diffusion("1024^2", Field("x", mesh, {1024, 1024}));
  time_diffusion("128^3", Box("x", mesh, {128, 128, 128}));
}
