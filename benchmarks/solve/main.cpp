// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Poisson's equation in a cube by conjugate gradients with multigrid, and what the time goes to:
// the operator, smoothing, residuals, transfers, dot products, updates. Beside it PETSc's CG with
// PCMG (a DMDA, Chebyshev and Jacobi), GAMG and hypre where it is installed. All in turns; medians
// of the slowest rank. Multigrid cycles are also in units of the operator's product.
//
// mpirun -n 2 solve [--cells 128] [--turns 11] [--smoothing 2] [--quick]
#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "poisson.hpp"
#include "shard/shard.hpp"
#include "shard/solve/cg.hpp"
#include "shard/solve/fft_poisson.hpp"
#include "shard/solve/multigrid.hpp"
#include "shard/solve/refinement.hpp"
#include "support/arguments.hpp"
#include "support/turns.hpp"

namespace {

struct X;
struct Y;
using shard::Halo;
using shard::ShardDim;
using Space = Kokkos::DefaultExecutionSpace;
template <class T>
using Field = shard::ShardedView<T***, Kokkos::LayoutRight, ShardDim<0, Y, Halo<1>>,
                                 ShardDim<1, X, Halo<1>>, ShardDim<2, shard::Unsharded, Halo<1>>>;

/// Without symmetry, from -1 to 1.
struct RightHandSide {
  Field<double> b;
  KOKKOS_FUNCTION void operator()(int i, int j, int k) const {
    b(i, j, k) = poisson::right_hand_side(b.to_global(0, i), b.to_global(1, j), k);
  }
};

/// The same operator without conditions at walls, for comparison.
struct Seven {
  static constexpr bool is_star = true;
  template <class F>
  KOKKOS_FUNCTION auto operator()(const F& x, int i, int j, int k) const {
    return 6.0 * x(i, j, k) - x(i - 1, j, k) - x(i + 1, j, k) - x(i, j - 1, k) - x(i, j + 1, k) -
           x(i, j, k - 1) - x(i, j, k + 1);
  }
};

struct Way {
  std::string name;
  std::function<poisson::Solved()> run;
  std::vector<double> seconds{};
  poisson::Solved last{};
};

void measure(MPI_Comm comm, std::vector<Way>& ways, int turns) {
  for (int turn = -1; turn < turns; ++turn)  // the first isn't counted
    for (Way& way : ways) {
      const double seconds = support::slowest_seconds(comm, [&] {
        way.last = way.run();
        Kokkos::fence("benchmark");
      });
      if (turn >= 0) way.seconds.push_back(seconds);
    }
}

/// Seconds in kernels by their labels, by Kokkos' callbacks.
struct Parts {
  std::map<std::string, double> seconds;
  std::string label;
  double since = 0.0;
};
Parts parts;

void begin_kernel(const char* label, uint32_t, uint64_t*) {
  parts.label = label;
  parts.since = MPI_Wtime();
}
void end_kernel(uint64_t) { parts.seconds[parts.label] += MPI_Wtime() - parts.since; }

void print_parts(const std::function<void()>& run, bool prints) {
  namespace Tools = Kokkos::Tools::Experimental;
  Tools::set_begin_parallel_for_callback(begin_kernel);
  Tools::set_end_parallel_for_callback(end_kernel);
  const double start = MPI_Wtime();
  run();
  const double all = MPI_Wtime() - start;
  Tools::set_begin_parallel_for_callback(nullptr);
  Tools::set_end_parallel_for_callback(nullptr);
  if (!prints) return;
  double kernels = 0.0;
  for (const auto& [label, seconds] : parts.seconds) kernels += seconds;
  for (const auto& [label, seconds] : parts.seconds)
    if (seconds > 0.005 * all)
      std::printf("  %-24s %8.2f ms %5.1f %%\n", label.c_str(), seconds * 1e3, seconds / all * 100);
  std::printf("  %-24s %8.2f ms %5.1f %%\n", "outside of kernels", (all - kernels) * 1e3,
              (all - kernels) / all * 100);
}

}  // namespace

int main(int argc, char** argv) {
  const shard::Environment environment(argc, argv);
  support::Arguments arguments(argc, argv, "[--cells N] [--turns N] [--smoothing N] [--quick]");
  int n = 128, turns = 11, smoothing = 2;
  arguments.take("--smoothing", smoothing, 1);
  arguments.take("--cells", n, 8);
  arguments.take("--turns", turns, 1);
  if (arguments.flag("--quick")) n = 16, turns = 1;
  if (!arguments.understood()) return 2;

  const shard::Mesh<Y, X> mesh(environment.world(), {0, 0});
  const Space space;
  const Field<double> x("x", mesh, {n, n, n}), b = x.like("b"), y = x.like("y");
  const Field<float> single("single", mesh, {n, n, n});
  shard::parallel_for("b", space, shard::owned_region(b), RightHandSide{b});
  const double h = 1.0 / n;
  const shard::Diffusion a(x, {.spacing = {h, h, h}});
  const shard::Diffusion a_single(single, {.spacing = {h, h, h}});
  const shard::StencilOperator seven(x, Seven{});
  const shard::Multigrid cycle(a, {.smoothing = smoothing});
  const shard::Multigrid cycle_of_floats(a_single);
  const shard::Converted single_cycle(cycle_of_floats, single);
  shard::CG cg(x, a, cycle, {.relative = poisson::tolerance});
  shard::CG cg_single(x, a, single_cycle, {.relative = poisson::tolerance, .flexible = true});
  shard::Refinement refined(x, a, shard::CG(single, a_single, cycle_of_floats, {.relative = 1e-4}),
                            {.relative = poisson::tolerance});
  const auto solve = [&](auto& solver) {
    deep_copy(space, x, 0.0);
    const shard::SolveResult result = solver(space, x, b);
    return poisson::Solved{result ? result.iterations : -1, result.residual / result.rhs};
  };

  std::vector<Way> kernels{
      {"product", [&] { return a.apply(space, y, b), poisson::Solved{}; }},
      {"dot",
       [&] {
         static_cast<void>(shard::dots(space, std::tie(x, b)));
         return poisson::Solved{};
       }},
      {"product without walls", [&] { return seven.apply(space, y, b), poisson::Solved{}; }},
      {"cycle", [&] { return cycle.apply(space, y, b), poisson::Solved{}; }},
      {"cycle in float", [&] { return single_cycle.apply(space, y, b), poisson::Solved{}; }}};
  using Fourier      = shard::FFTPoisson<Field<double>>;
  const auto fourier = shard::fftw_available() ? std::make_optional<Fourier>(a) : std::nullopt;
  if (fourier)
    kernels.push_back(
        {"Fourier transforms", [&] { return fourier->apply(space, y, b), poisson::Solved{}; }});
  measure(mesh.communicator(), kernels, 5 * turns);
  std::vector<Way> solves{{"CG, multigrid", [&] { return solve(cg); }},
                          {"CG, multigrid in float", [&] { return solve(cg_single); }},
                          {"refinement in float", [&] { return solve(refined); }}};
#ifdef SHARD_BENCHMARK_PETSC
  std::vector<poisson::Petsc> petsc;
  for (const char* kind : {"mg", "gamg", "hypre"}) petsc.emplace_back(mesh.communicator(), n, kind);
  for (auto& p : petsc) solves.push_back({"PETSc, " + p.name(), [&] { return p.solve(); }});
#endif
  measure(mesh.communicator(), solves, turns);

  const bool prints = mesh.rank() == 0;
  if (prints) {
    std::printf("Poisson, %d^3 cells, %d ranks\n", n, mesh.size());
    const double product = support::median(kernels[0].seconds);
    for (const Way& way : kernels)
      std::printf("%-24s %8.3f ms, %5.2f products\n", way.name.c_str(),
                  support::median(way.seconds) * 1e3, support::median(way.seconds) / product);
    for (const Way& way : solves)
      std::printf("%-24s %8.1f ms, %d iterations, residual %.1e\n", way.name.c_str(),
                  support::median(way.seconds) * 1e3, way.last.iterations, way.last.residual);
    std::printf("one solve by kernels, with Kokkos' profiling:\n");
  }
  print_parts([&] { solve(cg); }, prints);
  return 0;
}
