// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_SUPPORT_NUMBERED_HPP
#define SHARD_TESTS_SUPPORT_NUMBERED_HPP

#include <Kokkos_Core.hpp>

#include "shard/view/sharded_view.hpp"

namespace shard::testing {

struct X;
struct Y;

/// A world that is periodic both ways, with another halo on each side; and one cut in rows alone.
using Plane = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Y, Halo<2, 1>, Periodic>,
                          ShardDim<1, X, Halo<1, 2>, Periodic>, Kokkos::HostSpace>;
using Rows  = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Y, Halo<1>, Periodic>,
                         Kokkos::HostSpace>;

/// What a cell of a numbered plane holds.
inline double number_of(index_t row, index_t column, double factor) {
  return factor * static_cast<double>(1 + row * 1000 + column);
}

/// Numbers the owned cells of a field of rank 2 by their global indices; `factor` tells one step
/// from another.
template <class Field>
void fill(const Field& f, double factor) {
  for (index_t i = 0; i < f.extent(0); ++i)
    for (index_t j = 0; j < f.extent(1); ++j)
      f(i, j) = number_of(f.to_global(0, i), f.to_global(1, j), factor);
}

/// How many cells, the halo's too, don't hold what `fill` gave the cell that they are in a world
/// that is periodic in both dimensions.
template <class Field>
int wrong_cells(const Field& f, double factor) {
  int wrong = 0;
  for (index_t i = -Field::halo_lo(0); i < f.extent(0) + Field::halo_hi(0); ++i)
    for (index_t j = -Field::halo_lo(1); j < f.extent(1) + Field::halo_hi(1); ++j) {
      const index_t n = f.global_extent(0), m = f.global_extent(1);
      const index_t row = (f.to_global(0, i) % n + n) % n, column = (f.to_global(1, j) % m + m) % m;
      wrong += f(i, j) == number_of(row, column, factor) ? 0 : 1;
    }
  return wrong;
}

}  // namespace shard::testing

#endif
