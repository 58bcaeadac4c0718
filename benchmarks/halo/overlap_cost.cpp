// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What shard::overlapped costs where there is nothing to hide, and gains where there is: its time
// and that of an exchange followed by the same stencil over all owned cells.
//
// Cubes of doubles, periodic in each dimension that the stencil looks along, one of them cut. Calls
// of the kinds alternate, and medians are compared, so that what else runs on the machine disturbs
// all alike.
//   sequence, overlapped: all ranks begin at the same time, and the slowest one's time counts
//   ... late:             the others begin later than rank 0, by half of a sequence, as if their
//                         messages took that long; rank 0's time counts
#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/base/environment.hpp"
#include "shard/exchange/exchange.hpp"

namespace {

struct Cut;
using Space = Kokkos::DefaultHostExecutionSpace;

template <int D, int CutDim, int Width>
using Dim = shard::ShardDim<D, std::conditional_t<D == CutDim, Cut, shard::Unsharded>,
                            shard::Halo<Width>, shard::Periodic>;

/// Points: 5 (no halo in dimension 0), 7 or 27.
template <int Points, int CutDim>
using FieldOf =
    shard::ShardedView<double***, Kokkos::LayoutRight, Dim<0, CutDim, Points == 5 ? 0 : 1>,
                       Dim<1, CutDim, 1>, Dim<2, CutDim, 1>, Kokkos::HostSpace>;

template <int Points, class Field>
struct StencilKernel {
  Field from, to;
  KOKKOS_FUNCTION void operator()(int i, int j, int k) const {
    double sum = 0;
    if constexpr (Points == 27) {
      for (int a = -1; a < 2; ++a)
        for (int b = -1; b < 2; ++b)
          for (int c = -1; c < 2; ++c) sum += from(i + a, j + b, k + c);
    } else {
      sum = from(i, j - 1, k) + from(i, j + 1, k) + from(i, j, k - 1) + from(i, j, k + 1);
      if constexpr (Points == 7) sum += from(i - 1, j, k) + from(i + 1, j, k);
    }
    to(i, j, k) = from(i, j, k) + 0.1 * (sum - (Points == 27 ? 27 : Points - 1) * from(i, j, k));
  }
};

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

template <int Points, int CutDim>
void measure(const shard::Environment& environment, int n, int calls) {
  using Field = FieldOf<Points, CutDim>;
  const shard::Mesh<Cut> mesh(environment.world(), {environment.size()});
  Field now("now", mesh, {n, n, n}), then = now.like("then");
  const shard::Exchange halos(now);
  const Space space;
  for (int i = 0; i < now.extent(0); ++i)
    for (int j = 0; j < now.extent(1); ++j)
      for (int k = 0; k < now.extent(2); ++k)
        now(i, j, k) = std::sin(static_cast<double>(now.begin(CutDim)) + 3 * i + 5 * j + 7 * k);

  enum Kind { sequence, overlapped, sequence_late, overlapped_late, kinds };
  std::array<std::vector<double>, kinds> times;
  std::vector<double> exchanges;
  double late = 0;  // seconds
  for (int call = -10 * kinds; call < kinds * calls; ++call) {
    const auto kind    = static_cast<Kind>((call + 10 * kinds) % kinds);
    const bool is_late = kind == sequence_late || kind == overlapped_late;
    const StencilKernel<Points, Field> step{now, then};
    MPI_Barrier(environment.world());
    const double begin = MPI_Wtime();
    if (is_late && environment.rank() > 0)
      while (MPI_Wtime() < begin + late) continue;
    double exchanged = 0;
    if (kind == overlapped || kind == overlapped_late) {
      shard::overlapped("step", space, halos, now, step);
    } else {
      halos(space, now);
      exchanged = MPI_Wtime() - begin;
      shard::parallel_for("step", space, shard::owned_region(now), step);
    }
    space.fence("the step is over");
    double took[] = {MPI_Wtime() - begin, exchanged};
    if (is_late)
      MPI_Bcast(took, 2, MPI_DOUBLE, 0, environment.world());
    else
      MPI_Allreduce(MPI_IN_PLACE, took, 2, MPI_DOUBLE, MPI_MAX, environment.world());
    if (call < 0) {
      if (kind == sequence) late = took[0] / 2;
      continue;
    }
    times[kind].push_back(took[0] * 1e6);
    if (kind == sequence) exchanges.push_back(took[1] * 1e6);
  }
  if (environment.rank() != 0) return;
  std::array<double, kinds> middle{};
  for (std::size_t k = 0; k < kinds; ++k) middle[k] = median(times[k]);
  std::printf(
      "%4d^3 %3d points, cut %d, %d ranks: exchange %6.1f, sequence %7.1f, overlapped %7.1f us, "
      "ratio %.2f",
      n, Points, CutDim, environment.size(), median(exchanges), middle[sequence],
      middle[overlapped], middle[overlapped] / middle[sequence]);
  if (environment.size() > 1)
    std::printf("; late: %7.1f, %7.1f us, ratio %.2f", middle[sequence_late],
                middle[overlapped_late], middle[overlapped_late] / middle[sequence_late]);
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

// overlap_cost [CALLS]
int main(int argc, char** argv) {
  const shard::Environment environment(argc, argv);
  const int calls = argc > 1 ? std::max(1, std::atoi(argv[1])) : 201;
  for (const int n : {64, 128}) {
    measure<5, 1>(environment, n, calls);
    measure<5, 2>(environment, n, calls);
    measure<7, 0>(environment, n, calls);
    measure<7, 2>(environment, n, calls);
    measure<27, 0>(environment, n, calls);
    measure<27, 2>(environment, n, calls);
  }
}
