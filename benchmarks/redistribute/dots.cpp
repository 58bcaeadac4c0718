// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What shard::dot takes, plain and ordered, beside a Kokkos::parallel_reduce over as many products
// in contiguous memory and an MPI_Allreduce. Fields of doubles with halos; calls of the kinds
// alternate, and medians are compared.
#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "shard/base/environment.hpp"
#include "shard/reduce/reductions.hpp"
#include "support/turns.hpp"

namespace {

struct Cut;
using Space = Kokkos::DefaultHostExecutionSpace;
using Field =
    shard::ShardedView<double***, Kokkos::LayoutRight, shard::ShardDim<0, Cut, shard::Halo<1>>,
                       shard::ShardDim<1, shard::Unsharded, shard::Halo<1>>,
                       shard::ShardDim<2, shard::Unsharded, shard::Halo<1>>, Kokkos::HostSpace>;

struct PlainDotKernel {
  const double *x, *y;
  KOKKOS_FUNCTION void operator()(int i, double& sum) const { sum += x[i] * y[i]; }
};

void measure(const shard::Environment& environment, int n, int calls) {
  const shard::Mesh<Cut> mesh(environment.world(), {environment.size()});
  const Field x("x", mesh, {n, n, n}), y = x.like("y");
  const auto cells = static_cast<std::size_t>(x.extent(0)) * static_cast<std::size_t>(n) *
                     static_cast<std::size_t>(n);
  const Kokkos::View<double*, Kokkos::HostSpace> flat_x("x", cells), flat_y("y", cells);
  std::size_t next = 0;
  for (int i = 0; i < x.extent(0); ++i)
    for (int j = 0; j < n; ++j)
      for (int k = 0; k < n; ++k, ++next) {
        const double at = static_cast<double>(x.begin(0)) + i + 0.1 * j + 0.01 * k;
        flat_x(next) = x(i, j, k) = std::sin(at);
        flat_y(next) = y(i, j, k) = std::cos(3 * at);
      }
  enum Kind { plain, dot, ordered, kinds };
  std::array<std::vector<double>, kinds> times;
  std::array<double, kinds> result{};
  const Space space;
  for (int call = -3 * kinds; call < kinds * calls; ++call) {
    const auto kind = static_cast<std::size_t>((call + 3 * kinds) % kinds);
    MPI_Barrier(environment.world());
    const double begin = MPI_Wtime();
    double sum         = 0;
    if (kind == plain) {
      Kokkos::parallel_reduce("dot", Kokkos::RangePolicy<Space>(space, 0, static_cast<int>(cells)),
                              PlainDotKernel{flat_x.data(), flat_y.data()}, sum);
      MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, environment.world());
    } else if (kind == dot) {
      sum = shard::dot(space, x, y);
    } else {
      sum = shard::dot<shard::Determinism::ordered>(space, x, y);
    }
    double took = MPI_Wtime() - begin;
    MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, environment.world());
    if (call >= 0) times[kind].push_back(took * 1e6);
    result[kind] = sum;
  }
  if (environment.rank() != 0) return;
  std::array<double, kinds> middle{};
  for (std::size_t k = 0; k < kinds; ++k) middle[k] = support::median(times[k]);
  std::printf(
      "%4d^3, %d ranks: parallel_reduce %8.1f, dot %8.1f, ordered %8.1f us; dot / "
      "parallel_reduce %.2f, ordered / dot %.2f, ordered / parallel_reduce %.2f (%.17g, "
      "%.17g, %.17g)\n",
      n, environment.size(), middle[plain], middle[dot], middle[ordered],
      middle[dot] / middle[plain], middle[ordered] / middle[dot], middle[ordered] / middle[plain],
      result[plain], result[dot], result[ordered]);
}

}  // namespace

// dots [CALLS]
int main(int argc, char** argv) {
  const shard::Environment environment(argc, argv);
  const int calls = argc > 1 ? std::max(1, std::atoi(argv[1])) : 201;
  for (const int n : {32, 64, 128}) measure(environment, n, calls);
}
