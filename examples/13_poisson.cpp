// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Poisson's equation in a box: conjugate gradients with multigrid, its history, and the same bits
// on every number of ranks.
#include <shard/shard.hpp>
#include <shard/solve/cg.hpp>
#include <shard/solve/multigrid.hpp>

#include <cmath>
#include <cstdio>

struct X;
struct Y;

// cells of the unit cube; Zero: the solution is 0 at the walls
using Field =
    shard::ShardedView<double***, Kokkos::LayoutRight, shard::ShardDim<0, Y, shard::Halo<1>>,
                       shard::ShardDim<1, X, shard::Halo<1>>,
                       shard::ShardDim<2, shard::Unsharded, shard::Halo<1>>>;

constexpr double pi = 3.14159265358979323846;

struct Wave {  // the solution, times a factor
  Field f;
  double factor;
  KOKKOS_FUNCTION double at(int d, int i) const {
    return Kokkos::sin(pi * (static_cast<double>(f.to_global(d, i)) + 0.5) /
                       static_cast<double>(f.global_extent(d)));
  }
  KOKKOS_FUNCTION void operator()(int i, int j, int k) const {
    f(i, j, k) = factor * at(0, i) * at(1, j) * at(2, k);
  }
};

struct Error {
  Field x, exact;
  KOKKOS_FUNCTION double operator()(int i, int j, int k) const {
    return Kokkos::abs(x(i, j, k) - exact(i, j, k));
  }
};

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  constexpr int n    = 48;
  constexpr double h = 1.0 / n;
  const shard::Mesh<Y, X> mesh(environment.world(), {0, 0});
  const Kokkos::DefaultExecutionSpace space;
  const Field x("x", mesh, {n, n, n}), b = x.like("b"), exact = x.like("exact");
  shard::parallel_for("b", space, shard::owned_region(b), Wave{b, 3 * pi * pi});
  shard::parallel_for("exact", space, shard::owned_region(b), Wave{exact, 1.0});

  const shard::Diffusion a(x, {.spacing = {h, h, h}});
  const shard::Multigrid multigrid(a);
  shard::CG cg(x, a, multigrid, {.relative = 1e-10, .determinism = shard::Determinism::ordered});
  const shard::SolveResult result = cg(space, x, b);

  const double error = shard::reduce<shard::Max>(space, x, Error{x, exact});
  if (mesh.rank() == 0) {
    for (std::size_t k = 0; k < cg.history().size(); ++k) {  // a bar for each factor of 10
      std::printf("%3zu  %9.2e  ", k, cg.history()[k]);
      for (double r = cg.history()[k]; r > 1e-8; r /= 10) std::putchar('*');
      std::putchar('\n');
    }
    std::printf("%s; the largest error is %.3e, of second order in 1/%d\n", result.text().c_str(),
                error, n);
  }
  return result && error < 1e-3 ? 0 : 1;
}
