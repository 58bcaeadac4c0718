// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions of functors and the kernels of the solvers, for the device.

#include "shard/reduce/reduce.hpp"
#include "shard/solve/bicgstab.hpp"
#include "shard/solve/block_ilu.hpp"
#include "shard/solve/block_jacobi.hpp"
#include "shard/solve/cg.hpp"
#include "shard/solve/eigenvalues.hpp"
#include "shard/solve/fft_poisson.hpp"
#include "shard/solve/galerkin_multigrid.hpp"
#include "shard/solve/gmres.hpp"
#include "shard/solve/lsqr.hpp"
#include "shard/solve/matrix_assembly.hpp"
#include "shard/solve/multigrid.hpp"
#include "shard/solve/pipelined_cg.hpp"
#include "shard/solve/preconditioners.hpp"
#include "shard/solve/sparse_matrix.hpp"
#include "shard/solve/tridiagonal.hpp"
#include "shard/solve/tridiagonal_lines.hpp"
#include "shard/solve/weighted_gather.hpp"

struct Lat;
struct Lon;
struct Node;

namespace device_solve {

using namespace shard;
using Plane = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Lat, Halo<1>>,
                          ShardDim<1, Lon, Halo<1>>>;

struct SquareTerm {
  Plane x;
  KOKKOS_FUNCTION Kokkos::Array<double, 2> operator()(int i, int j) const {
    return {x(i, j) * x(i, j), x(i, j)};
  }
};

/// A column of mixing, by one thread.
struct MixColumn {
  Plane x, h, g, work;
  struct Column {
    Plane of;
    int i;
    KOKKOS_FUNCTION double& operator()(int j) const { return of(i, j); }
  };
  KOKKOS_FUNCTION void operator()(const int i) const {
    const int n = static_cast<int>(x.extent(1));
    const Column column{x, i}, thickness{h, i}, mixing{g, i}, scratch{work, i};
    solve_diffusion_column(n, thickness, mixing, column, column, scratch);
    solve_tridiagonal(n, mixing, thickness, mixing, column, column, scratch);
  }
};

double use_solvers(const Mesh<Lat, Lon>& mesh) {
  const Kokkos::DefaultExecutionSpace space;
  const Plane x("x", mesh, {32, 32}), b = x.like("b");
  const auto sums = reduce<Determinism::ordered, Sum, Max>(space, x, SquareTerm{x});
  const Diffusion<Plane, Plane> a(x, b, {.spacing = {1.0, 1.0}});
  const Diffusion plain(x, {.spacing = {1.0, 1.0}});
  CG cg(x, a, Multigrid(a));
  CG other(x, plain, Multigrid(plain));
  PipelinedCG pipelined(x, a, Jacobi(space, x, a));
  GMRES gmres(x, a, Chebyshev(space, x, a));
  BiCGStab stabilised(x, a);
  Kokkos::parallel_for("mix", Kokkos::RangePolicy<Kokkos::DefaultExecutionSpace>(space, 0, 1),
                       MixColumn{x, b, b, b});
  const SparseMatrix<double, Lat, Node> matrix(mesh, {0}, {{0, 0, 2.0}});
  const auto node = matrix.make_column_vector("node"), row = matrix.make_row_vector("row");
  matrix.apply(space, row, node);
  matrix.apply_adjoint(space, node, row);
  matrix.diagonal(space, row);
  matrix.add_coefficient_gradient(space, matrix.values(), 1.0, row, node);
  const std::vector<MatrixEntry<double>> entries{{0, 0, 2.0}};
  MatrixAssembly(mesh, matrix, entries).set_values(space);
  MatrixProduct(mesh, matrix, matrix).update(space);
  LSQR lsqr(node, row, matrix);
  lsqr.set_weights(row);
  FFTPoisson(plain).apply(space, x, b);
  const SparseGather<double, Lat, Node> product(mesh, {0}, entries);
  const WeightedGather weighted(mesh, product);
  const auto w = matrix.values();
  weighted.apply(space, row, node, w);
  weighted.pullback(space, node, w, row, node, w);
  BlockILU(matrix).apply(space, node, row);
  BlockJacobi(matrix, 1).apply(space, node, row);
  GalerkinMultigrid(mesh, matrix, {CoarseLevel<double>({0}, entries)}).apply(space, node, row);
  tridiagonal_lines<1>(b, x, b).apply(space, x, b);
  a.add_coefficient_gradient(space, b, 1.0, x, x);
  return sums[0] + cg(space, x, b).residual + other(space, x, b).residual +
         pipelined(space, x, b).residual + gmres(space, x, b).residual +
         stabilised(space, x, b).residual + lsqr(space, node, row).residual +
         eigenvalue_bounds(space, x, a, Identity{}, 2).largest;
}

}  // namespace device_solve
