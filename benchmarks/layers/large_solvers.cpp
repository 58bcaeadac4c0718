// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The Laplacian of a box in three forms: a sparse matrix, an operator on a field, and what a solver
// does with it. Cases for a device; on hosts benchmarks/solve times them.
#include <vector>

#include "shard/shard.hpp"
#include "shard/solve/cg.hpp"
#include "shard/solve/multigrid.hpp"
#include "shard/solve/sparse_matrix.hpp"
#include "timing.hpp"

namespace {

struct Ranks;
struct Node;
using Field =
    shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, Lat, shard::Halo<1>>,
                       shard::ShardDim<1, Lon, shard::Halo<1>>>;
using Box =
    shard::ShardedView<double***, Kokkos::LayoutRight, shard::ShardDim<0, Lat, shard::Halo<1>>,
                       shard::ShardDim<1, Lon, shard::Halo<1>>,
                       shard::ShardDim<2, shard::Unsharded, shard::Halo<1>>>;

/// The product with a five-point matrix of 1024^2 rows, and with its transpose.
void time_matrix(const Grid& grid, double least) {
  constexpr index_t n = 1024;
  const shard::Mesh<Ranks> mesh(grid.communicator(), {1});
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
  answer<double>(least, {0, bytes, bytes},
                 {[&] { a.apply(space, y, x); }, [&] { a.apply_adjoint(space, x, y); }});
}

/// The operator, and a V-cycle. `x` has the extents.
template <class F>
void time_diffusion(const F& x, double least) {
  const Space space;
  const F b = x.like("b"), y = x.like("y");
  fill(b.view());
  const shard::Diffusion a(x, {});
  const shard::Multigrid multigrid(a);
  answer<double>(least, {0, 2 * bytes_of(x)},
                 {[&] { a.apply(space, y, b); }, [&] { multigrid.apply(space, y, b); }});
}

/// Multigrid-CG to 1e-8.
template <class F>
void time_solve(const F& x, double least) {
  const Space space;
  const F b = x.like("b");
  fill(b.view());
  const shard::Diffusion a(x, {});
  const shard::Multigrid multigrid(a);
  shard::CG cg(x, a, multigrid, {.relative = 1e-8});
  answer<double>(least, {}, {[&] {
                   Kokkos::deep_copy(space, x.view(), 0.0);
                   static_cast<void>(cg(space, x, b));
                 }});
}

Field square(const Grid& mesh) { return Field("x", mesh, {1024, 1024}); }
Box cube(const Grid& mesh) { return Box("x", mesh, {128, 128, 128}); }

}  // namespace

// op/type/extents
void add_large_solvers(Cases& cases) {
  cases.insert({{"sparse_product/double/1024x1024", time_matrix},
                {"diffusion/double/1024x1024",
                 [](const Grid& mesh, double least) { time_diffusion(square(mesh), least); }},
                {"diffusion/double/128x128x128",
                 [](const Grid& mesh, double least) { time_diffusion(cube(mesh), least); }},
                {"multigrid_cg/double/1024x1024",
                 [](const Grid& mesh, double least) { time_solve(square(mesh), least); }},
                {"multigrid_cg/double/128x128x128",
                 [](const Grid& mesh, double least) { time_solve(cube(mesh), least); }}});
}
