// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_ROW_SUMS_HPP
#define SHARD_SRC_LAYERS_ROW_SUMS_HPP

#include <Kokkos_Core.hpp>

#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// Adds term(x) of the cells of a row to the running sums, cell x to sum x mod sum_lanes.
template <class Term>
KOKKOS_FORCEINLINE_FUNCTION void add_row(double* lane, index_t count, const Term& term) {
  const index_t whole = count - count % sum_lanes;
  for (index_t x = 0; x < whole; x += sum_lanes)
    for (int l = 0; l < sum_lanes; ++l) lane[l] += term(x + l);
  for (index_t x = whole; x < count; ++x) lane[x - whole] += term(x);
}

KOKKOS_INLINE_FUNCTION double add_lanes(const double* lane) {
  double sum = 0.0;
  for (int l = 0; l < sum_lanes; ++l) sum += lane[l];
  return sum;
}

}  // namespace shard::impl

#endif
