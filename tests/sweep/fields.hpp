// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_SWEEP_FIELDS_HPP
#define SHARD_TESTS_SWEEP_FIELDS_HPP

#include <Kokkos_Core.hpp>

#include "shard/view/sharded_view.hpp"
#include "support/field_inputs.hpp"
#include "support/thrown.hpp"

/// \file
/// Fields of two dimensions with halos, and what they hold.

namespace sweep_fields {

struct Member;
struct Lat;
struct Lon;

using namespace shard;
using namespace shard::testing;
using Space = Kokkos::DefaultHostExecutionSpace;
template <class T, class Layout = Kokkos::LayoutRight>
using FieldOf = ShardedView<T**, Layout, ShardDim<0, Lat, Halo<1, 2>, Symmetric>,
                            ShardDim<1, Lon, Halo<2, 1>, Periodic>, Kokkos::HostSpace>;
using Field   = FieldOf<double>;

constexpr index_t rows = 11, columns = 14;

/// Sets the owned points to value(i, j) of the global indices.
template <class F, class Value>
void set(const F& f, const Value& value) {
  for (index_t i = 0; i < f.extent(0); ++i)
    for (index_t j = 0; j < f.extent(1); ++j) f(i, j) = value(f.to_global(0, i), f.to_global(1, j));
}
/// The points, those of the halo too if it says so, that aren't value(i, j).
template <class F, class Value>
int wrong_points(const F& f, const Value& value, bool halo = false) {
  int wrong      = 0;
  const auto lo  = [&](int d) { return halo ? -F::halo_lo(d) : 0; };
  const auto end = [&](int d) { return f.extent(d) + (halo ? F::halo_hi(d) : 0); };
  for (index_t i = lo(0); i < end(0); ++i)
    for (index_t j = lo(1); j < end(1); ++j)
      wrong += f(i, j) == value(f.to_global(0, i), f.to_global(1, j)) ? 0 : 1;
  return wrong;
}

}  // namespace sweep_fields

#endif
