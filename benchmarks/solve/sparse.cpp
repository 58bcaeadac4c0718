// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The product of a sparse matrix, 27 points of a cube as in HPCG, and beside it its adjoint, those
// of KokkosSparse::spmv, Tpetra and PETSc where they are installed, and a triad of as much memory
// as the machine has to move for a product. All in turns; medians of the slowest rank, and
// bandwidth.
//
// mpirun -n 2 sparse_product [--cells 100] [--turns 51] [--quick]
#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "shard/shard.hpp"
#include "shard/solve/sparse_matrix.hpp"
#include "support/arguments.hpp"
#include "ways.hpp"
#ifdef SHARD_BENCHMARK_KERNELS
#include "shard/solve/kokkos_sparse.hpp"
#endif
#ifdef SHARD_BENCHMARK_PETSC
#include "shard/solve/petsc.hpp"
#endif
#ifdef SHARD_BENCHMARK_TPETRA
#include "shard/solve/tpetra.hpp"
#endif

namespace {

struct Ranks;
struct Node;
using Id     = std::int64_t;
using Space  = Kokkos::DefaultExecutionSpace;
using Matrix = shard::SparseMatrix<double, Ranks, Node>;

Matrix matrix_of_27_points(const shard::Mesh<Ranks>& mesh, Id n) {
  const auto part = shard::Partition::balanced(n, mesh.size());  // whole planes
  std::vector<Id> ids;
  std::vector<shard::MatrixEntry<double>> entries;
  for (Id z = part.begin(mesh.rank()); z < part.end(mesh.rank()); ++z)
    for (Id y = 0; y < n; ++y)
      for (Id x = 0; x < n; ++x) {
        const Id row = (z * n + y) * n + x;
        ids.push_back(row);
        for (Id k = std::max<Id>(z - 1, 0); k <= std::min(z + 1, n - 1); ++k)
          for (Id j = std::max<Id>(y - 1, 0); j <= std::min(y + 1, n - 1); ++j)
            for (Id i = std::max<Id>(x - 1, 0); i <= std::min(x + 1, n - 1); ++i) {
              const Id column = (k * n + j) * n + i;
              entries.push_back({row, column, column == row ? 26.0 : -1.0});
            }
      }
  return {mesh, ids, entries};
}

struct Triad {
  double* a;
  const double* b;
  const double* c;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const { a[i] = b[i] + 0.5 * c[i]; }
};

}  // namespace

int main(int argc, char** argv) {
  const shard::Environment environment(argc, argv);
  support::Arguments arguments(argc, argv, "[--cells N] [--turns N] [--quick]");
  int n = 100, turns = 51;
  arguments.take("--cells", n, 4);
  arguments.take("--turns", turns, 1);
  if (arguments.flag("--quick")) n = 12, turns = 3;
  if (!arguments.understood()) return 2;

  const shard::Mesh<Ranks> mesh(environment.world(), {0});
  const Space space;
  const Matrix a = matrix_of_27_points(mesh, n);
  const auto x = a.make_column_vector("x"), y = x.like("y");
  Kokkos::deep_copy(x.view(), 1.0);
  const auto rows    = static_cast<double>(a.rows().owned()),
             entries = static_cast<double>(a.values().extent(0));
  const double bytes = 12.0 * entries + 24.0 * rows;  // value, column; where rows begin, x, y
  const auto length  = static_cast<std::int64_t>(bytes / 24.0);
  Kokkos::View<double*> triad[3];
  for (auto& v : triad) v = Kokkos::View<double*>("triad", static_cast<std::size_t>(length));

  std::vector<ways::Way> all{
      {"shard", [&] { a.apply(space, y, x); }, bytes},
      {"shard, adjoint", [&] { a.apply_adjoint(space, x, y); }, bytes + 8.0 * entries},
      {"triad",
       [&] {
         Kokkos::parallel_for("triad", Kokkos::RangePolicy<Space>(space, 0, length),
                              Triad{triad[0].data(), triad[1].data(), triad[2].data()});
       },
       24.0 * static_cast<double>(length)}};
#ifdef SHARD_BENCHMARK_KERNELS
  const shard::KokkosSparseMatrix library(a);
  all.push_back({"KokkosSparse::spmv", [&] { library.apply(space, y, x); }, bytes});
#endif
#ifdef SHARD_BENCHMARK_TPETRA
  const auto tpetra      = shard::tpetra_view(a);
  const auto tpetra_from = shard::tpetra_view(x);
  auto tpetra_to         = shard::tpetra_view(y);
  all.push_back({"Tpetra, apply", [&] { tpetra->apply(tpetra_from, tpetra_to); }, bytes});
#endif
#ifdef SHARD_BENCHMARK_PETSC
  PetscCallAbort(mesh.communicator(), PetscInitializeNoArguments());
  Mat copy = shard::petsc_copy(mesh, a);
  Vec from = shard::petsc_view(x), to = shard::petsc_view(y);
  all.push_back({"PETSc, MatMult",
                 [&] { PetscCallAbort(mesh.communicator(), MatMult(copy, from, to)); }, bytes});
#endif
  ways::measure(mesh.communicator(), all, turns);
  if (mesh.rank() == 0) std::printf("27 points, %d^3 rows, %d ranks\n", n, mesh.size());
  ways::print(mesh.communicator(), all);
#ifdef SHARD_BENCHMARK_PETSC
  MatDestroy(&copy);
  VecDestroy(&from);
  VecDestroy(&to);
  PetscFinalize();
#endif
  return 0;
}
