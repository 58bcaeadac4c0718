// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A seven-point stencil over a bare View and over a ShardedView of the same extents and halos. Each
// call of a function measured_* is counted apart by tools/instruction-ratio under callgrind.
#include <Kokkos_Core.hpp>

#include <cstdio>
#include <cstdlib>
#include <type_traits>

#include "shard/shard.hpp"

struct Y;
struct X;

namespace {

using Space = Kokkos::DefaultHostExecutionSpace;
using Right =
    shard::ShardedView<double***, Kokkos::LayoutRight, shard::ShardDim<1, Y, shard::Halo<1>>,
                       shard::ShardDim<2, X, shard::Halo<1>>, Kokkos::HostSpace>;
using Left =
    shard::ShardedView<double***, Kokkos::LayoutLeft, shard::ShardDim<0, X, shard::Halo<1>>,
                       shard::ShardDim<1, Y, shard::Halo<1>>, Kokkos::HostSpace>;

template <class T>
KOKKOS_FORCEINLINE_FUNCTION void stencil(const T& to, const T& from, int i, int j, int k) {
  to(i, j, k) = from(i, j, k) + 0.1 * (from(i - 1, j, k) + from(i + 1, j, k) + from(i, j - 1, k) +
                                       from(i, j + 1, k) + from(i, j, k - 1) + from(i, j, k + 1));
}

/// The cells that the stencil is computed for, as the field's own indices have them.
struct Cells {
  int begin[3], end[3];
};

/// One work item is a plane of the slowest dimension.
template <class T, bool FirstIsSlowest>
struct PlaneKernel {
  T to, from;
  Cells cells;

  KOKKOS_FUNCTION void operator()(int slow) const {
    constexpr int fast = FirstIsSlowest ? 2 : 0;
    for (int j = cells.begin[1]; j < cells.end[1]; ++j)
      for (int f = cells.begin[fast]; f < cells.end[fast]; ++f)
        stencil(to, from, FirstIsSlowest ? slow : f, j, FirstIsSlowest ? f : slow);
  }
};

template <class T>
struct CellKernel {
  T to, from;
  KOKKOS_FUNCTION void operator()(int i, int j, int k) const { stencil(to, from, i, j, k); }
};

template <bool FirstIsSlowest, class T>
void planes(const T& to, const T& from, const Cells& cells) {
  constexpr int slow = FirstIsSlowest ? 0 : 2;
  Kokkos::parallel_for("planes",
                       Kokkos::RangePolicy<Space, Kokkos::IndexType<int>>(
                           Space(), cells.begin[slow], cells.end[slow]),
                       PlaneKernel<T, FirstIsSlowest>{to, from, cells});
}

template <bool FirstIsSlowest, class T>
void each_cell(const T& to, const T& from, const Cells& c) {
  constexpr auto order = FirstIsSlowest ? Kokkos::Iterate::Right : Kokkos::Iterate::Left;
  using Policy =
      Kokkos::MDRangePolicy<Space, Kokkos::Rank<3, order, order>, Kokkos::IndexType<int>>;
  Kokkos::parallel_for(
      "cells",
      Policy(Space(), {c.begin[0], c.begin[1], c.begin[2]}, {c.end[0], c.end[1], c.end[2]}),
      CellKernel<T>{to, from});
}

using BareRight = Right::view_type;
using BareLeft  = Left::view_type;

}  // namespace

#define MEASURED extern "C" __attribute__((noinline)) void
MEASURED measured_range_right_bare(const BareRight& to, const BareRight& from, const Cells& c) {
  planes<true>(to, from, c);
}
MEASURED measured_range_right_sharded(const Right& to, const Right& from, const Cells& c) {
  planes<true>(to, from, c);
}
MEASURED measured_range_left_bare(const BareLeft& to, const BareLeft& from, const Cells& c) {
  planes<false>(to, from, c);
}
MEASURED measured_range_left_sharded(const Left& to, const Left& from, const Cells& c) {
  planes<false>(to, from, c);
}
MEASURED measured_mdrange_right_bare(const BareRight& to, const BareRight& from, const Cells& c) {
  each_cell<true>(to, from, c);
}
MEASURED measured_mdrange_right_sharded(const Right& to, const Right& from, const Cells& c) {
  each_cell<true>(to, from, c);
}
MEASURED measured_mdrange_left_bare(const BareLeft& to, const BareLeft& from, const Cells& c) {
  each_cell<false>(to, from, c);
}
MEASURED measured_mdrange_left_sharded(const Left& to, const Left& from, const Cells& c) {
  each_cell<false>(to, from, c);
}

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  const int n = argc > 1 ? std::atoi(argv[1]) : 48;
  const shard::Mesh<Y, X> mesh(MPI_COMM_SELF, {1, 1});
  const Right right("right", mesh, {n, n, n}), to_right = right.like("to");
  const Left left("left", mesh, {n, n, n}), to_left     = left.like("to");
  Kokkos::deep_copy(right.view(), 1.0);
  Kokkos::deep_copy(left.view(), 1.0);
  // the uncut dimension has no halo: its first and last plane stay as they are
  const Cells of_right{{1, 0, 0}, {n - 1, n, n}}, of_bare_right{{1, 1, 1}, {n - 1, n + 1, n + 1}},
      of_left{{0, 0, 1}, {n, n, n - 1}}, of_bare_left{{1, 1, 1}, {n + 1, n + 1, n - 1}};
  measured_range_right_bare(to_right.view(), right.view(), of_bare_right);
  measured_range_right_sharded(to_right, right, of_right);
  measured_range_left_bare(to_left.view(), left.view(), of_bare_left);
  measured_range_left_sharded(to_left, left, of_left);
  measured_mdrange_right_bare(to_right.view(), right.view(), of_bare_right);
  measured_mdrange_right_sharded(to_right, right, of_right);
  measured_mdrange_left_bare(to_left.view(), left.view(), of_bare_left);
  measured_mdrange_left_sharded(to_left, left, of_left);
  double sum = 0;
  for (int i = 1; i < n - 1; ++i) sum += to_right(i, 1, 1) + to_left(1, 1, i);
  std::printf("%g\n", sum);
}
