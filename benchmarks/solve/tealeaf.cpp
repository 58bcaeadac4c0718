// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Conjugate gradients as in TeaLeaf (github.com/UK-MAC/TeaLeaf): heat conduction by five points
// with coefficients at faces, three loops an iteration, written by hand with MPI. Beside it CG with
// a StencilOperator of the same coefficients, with fast and with ordered dots. In turns; medians of
// the slowest rank. Both must give the same solution.
//
// mpirun -n 2 tealeaf [--cells 1000] [--iterations 100] [--turns 11] [--quick]
#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "shard/shard.hpp"
#include "shard/solve/cg.hpp"
#include "shard/solve/stencil_operator.hpp"
#include "support/arguments.hpp"
#include "ways.hpp"

namespace {

struct Rows;
using Space = Kokkos::DefaultHostExecutionSpace;
using Field =
    shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, Rows, shard::Halo<1>>,
                       shard::ShardDim<1, shard::Unsharded, shard::Halo<1>>, Kokkos::HostSpace>;

/// From 0 to 1, of a cell.
double random_at(std::int64_t i, std::int64_t j) {
  const auto bits = static_cast<std::uint64_t>(i * 1'048'583 + j + 1) * 0x9e3779b97f4a7c15;
  return static_cast<double>(bits >> 11) * 0x1.0p-53;
}
/// Of the face between this cell and the one before it along dimension d; 0 at walls.
double coefficient(std::int64_t n, int d, std::int64_t i, std::int64_t j) {
  const std::int64_t at = d == 0 ? i : j, other = d == 0 ? j : i;
  if (at <= 0 || at >= n || other < 0 || other >= n) return 0.0;
  const double here  = 0.1 + random_at(i, j),
               there = 0.1 + (d == 0 ? random_at(i - 1, j) : random_at(i, j - 1));
  return 10.0 * (here + there) / (2.0 * here * there);
}

struct HeatConduction {
  static constexpr bool is_star = true, is_symmetric = true;
  Field kx, ky;
  template <class P>
  KOKKOS_FUNCTION double operator()(const P& p, int i, int j) const {
    return (1.0 + (ky(i + 1, j) + ky(i, j)) + (kx(i, j + 1) + kx(i, j))) * p(i, j) -
           (ky(i + 1, j) * p(i + 1, j) + ky(i, j) * p(i - 1, j)) -
           (kx(i, j + 1) * p(i, j + 1) + kx(i, j) * p(i, j - 1));
  }
};

/// TeaLeaf's method on this rank's rows, with a frame of one cell.
class ByHand {
 public:
  ByHand(MPI_Comm comm, std::int64_t n, std::int64_t first, std::int64_t rows)
      : comm_(comm), rows_(static_cast<int>(rows)), columns_(static_cast<int>(n)) {
    int rank = 0, ranks = 1;
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    below_          = rank > 0 ? rank - 1 : MPI_PROC_NULL;
    above_          = rank + 1 < ranks ? rank + 1 : MPI_PROC_NULL;
    const auto size = static_cast<std::size_t>((rows + 2) * (n + 2));
    for (auto* v : {&u_, &b_, &p_, &r_, &w_, &kx_, &ky_}) v->assign(size, 0.0);
    for (int i = 0; i <= rows_; ++i)
      for (int j = 0; j <= columns_; ++j) {
        ky_[at(i, j)] = coefficient(n, 0, first + i, j);
        kx_[at(i, j)] = coefficient(n, 1, first + i, j);
        if (i < rows_ && j < columns_) b_[at(i, j)] = random_at(j, first + i) - 0.5;
      }
  }
  /// Runs `iterations` iterations from x = 0; returns r'r.
  double solve(int iterations) {
    double sums[1] = {0.0};
    for (int i = 0; i < rows_; ++i)
      for (int j = 0; j < columns_; ++j) {
        const std::size_t k = at(i, j);
        u_[k]               = 0.0;
        r_[k] = p_[k] = b_[k];
        sums[0] += r_[k] * r_[k];
      }
    double rr = add_all(sums[0]);
    for (int k = 0; k < iterations; ++k) {
      exchange();
      const double alpha = rr / add_all(product()), before = rr;
      rr                = add_all(step(alpha));
      const double beta = rr / before;
      for (int i = 0; i < rows_; ++i) {
        double* const p       = &p_[at(i, 0)];
        const double* const r = &r_[at(i, 0)];
#pragma omp simd
        for (int j = 0; j < columns_; ++j) p[j] = r[j] + beta * p[j];
      }
    }
    return rr;
  }
  double u(int i, int j) const { return u_[at(i, j)]; }

 private:
  std::size_t at(int i, int j) const {
    return static_cast<std::size_t>(i + 1) * static_cast<std::size_t>(columns_ + 2) +
           static_cast<std::size_t>(j + 1);
  }
  double add_all(double mine) const {
    MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_SUM, comm_);
    return mine;
  }
  void exchange() {
    MPI_Request q[4];
    MPI_Irecv(&p_[at(-1, 0)], columns_, MPI_DOUBLE, below_, 0, comm_, q);
    MPI_Irecv(&p_[at(rows_, 0)], columns_, MPI_DOUBLE, above_, 1, comm_, q + 1);
    MPI_Isend(&p_[at(0, 0)], columns_, MPI_DOUBLE, below_, 1, comm_, q + 2);
    MPI_Isend(&p_[at(rows_ - 1, 0)], columns_, MPI_DOUBLE, above_, 0, comm_, q + 3);
    MPI_Waitall(4, q, MPI_STATUSES_IGNORE);
  }
  /// w = A p; returns p'w.
  double product() {
    double pw       = 0.0;
    const int width = columns_ + 2;
    for (int i = 0; i < rows_; ++i) {
      const double *const p = &p_[at(i, 0)], *const kx = &kx_[at(i, 0)], *const ky = &ky_[at(i, 0)];
      double* const w = &w_[at(i, 0)];
#pragma omp simd reduction(+ : pw)
      for (int j = 0; j < columns_; ++j) {
        w[j] = (1.0 + (ky[j + width] + ky[j]) + (kx[j + 1] + kx[j])) * p[j] -
               (ky[j + width] * p[j + width] + ky[j] * p[j - width]) -
               (kx[j + 1] * p[j + 1] + kx[j] * p[j - 1]);
        pw += w[j] * p[j];
      }
    }
    return pw;
  }
  /// u += alpha p, r -= alpha w; returns r'r.
  double step(double alpha) {
    double rr = 0.0;
    for (int i = 0; i < rows_; ++i) {
      double *const u = &u_[at(i, 0)], *const r = &r_[at(i, 0)];
      const double *const p = &p_[at(i, 0)], *const w = &w_[at(i, 0)];
#pragma omp simd reduction(+ : rr)
      for (int j = 0; j < columns_; ++j) {
        u[j] += alpha * p[j];
        r[j] -= alpha * w[j];
        rr += r[j] * r[j];
      }
    }
    return rr;
  }

  MPI_Comm comm_;
  int rows_, columns_, below_ = 0, above_ = 0;
  std::vector<double> u_, b_, p_, r_, w_, kx_, ky_;
};

}  // namespace

int main(int argc, char** argv) {
  const shard::Environment environment(argc, argv);
  support::Arguments arguments(argc, argv, "[--cells N] [--iterations N] [--turns N] [--quick]");
  int n = 1000, iterations = 100, turns = 11;
  arguments.take("--cells", n, 8);
  arguments.take("--iterations", iterations, 1);
  arguments.take("--turns", turns, 1);
  if (arguments.flag("--quick")) n = 64, iterations = 10, turns = 1;
  if (!arguments.understood()) return 2;

  const shard::Mesh<Rows> mesh(environment.world(), {0});
  const Space space;
  const Field x = shard::shared_field<Field>("x", mesh, {n, n});
  const Field b = x.like("b"), kx = x.like("kx"), ky = x.like("ky");
  const auto rows = static_cast<int>(x.extent(0));
  for (int i = 0; i <= rows; ++i)
    for (int j = 0; j <= n; ++j) {
      ky(i, j) = coefficient(n, 0, x.begin(0) + i, j);
      kx(i, j) = coefficient(n, 1, x.begin(0) + i, j);
      if (i < rows && j < n) b(i, j) = random_at(j, x.begin(0) + i) - 0.5;
    }
  const shard::StencilOperator a(x, HeatConduction{kx, ky});
  shard::SolveOptions options{.relative = 0.0, .iterations = iterations};
  shard::CG fast(x, a, options);
  options.determinism = shard::Determinism::ordered;
  shard::CG ordered(x, a, options);
  ByHand by_hand(mesh.communicator(), n, x.begin(0), rows);
  shard::SolveResult last;
  const auto solve = [&](auto& solver) {
    Kokkos::deep_copy(x.view(), 0.0);
    last = solver(space, x, b);
  };
  const double points = static_cast<double>(n) * rows * iterations;
  std::vector<ways::Way> all{{"by hand", [&] { by_hand.solve(iterations); }, 13 * 8 * points},
                             {"CG", [&] { solve(fast); }, 14 * 8 * points},
                             {"CG, ordered dots", [&] { solve(ordered); }, 14 * 8 * points}};
  ways::measure(mesh.communicator(), all, turns);
  double off = 0.0;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < n; ++j) off = std::fmax(off, std::fabs(x(i, j) - by_hand.u(i, j)));
  MPI_Allreduce(MPI_IN_PLACE, &off, 1, MPI_DOUBLE, MPI_MAX, mesh.communicator());
  if (mesh.rank() == 0)
    std::printf("%d x %d cells, %d iterations, %d ranks; largest difference of solutions %.1e\n", n,
                n, last.iterations, mesh.size(), off);
  ways::print(mesh.communicator(), all);
  if (!(off < 1e-10)) {
    if (mesh.rank() == 0) std::fprintf(stderr, "tealeaf: the solutions differ\n");
    return 1;
  }
  return 0;
}
