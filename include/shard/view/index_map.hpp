// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_INDEX_MAP_HPP
#define SHARD_VIEW_INDEX_MAP_HPP

#include <Kokkos_Macros.hpp>

#include "shard/base/types.hpp"
#include "shard/view/boundary.hpp"

namespace shard {

/// Where a point outside the domain takes its value from, along one dimension.
struct Image {
  index_t source  = 0;      ///< a global index inside the domain; meaningless for a constant
  index_t crossed = 0;      ///< number of pole crossings (folds only, else 0)
  bool constant   = false;  ///< the value is the boundary's constant
};

/// The source of global index `g` in a domain of `n` points (n >= 1; n >= 2 for reflect and a fold
/// with the pole on a row) under one side's boundary. Indices inside the domain are their own
/// source. Exchange plans, layers and the tests' serial oracles share this map: periodic g mod n;
/// reflect with period 2(n-1); symmetric with 2n; clamp to 0 or n-1; a fold reflects, and counts
/// the poles that it crosses.
KOKKOS_INLINE_FUNCTION constexpr Image image_of(BoundaryKind kind, index_t g, index_t n) {
  if (g >= 0 && g < n) return {g, 0, false};
  const auto modulo     = [](index_t a, index_t m) { return ((a % m) + m) % m; };
  const auto reflected  = [&](index_t m) { return m < n ? m : 2 * (n - 1) - m; };
  const auto mirrored   = [&](index_t m) { return m < n ? m : 2 * n - 1 - m; };
  const auto whole_part = [](index_t distance, index_t period) {
    return (distance + period - 1) / period;
  };
  switch (kind) {
    case BoundaryKind::constant: return {0, 0, true};
    case BoundaryKind::periodic: return {modulo(g, n), 0, false};
    case BoundaryKind::reflect: return {reflected(modulo(g, 2 * (n - 1))), 0, false};
    case BoundaryKind::symmetric: return {mirrored(modulo(g, 2 * n)), 0, false};
    case BoundaryKind::clamp: return {g < 0 ? 0 : n - 1, 0, false};
    case BoundaryKind::fold_on_row:
      return {reflected(modulo(g, 2 * (n - 1))), whole_part(g < 0 ? -g : g - (n - 1), n - 1),
              false};
    case BoundaryKind::fold_between_rows:
      return {mirrored(modulo(g, 2 * n)), whole_part(g < 0 ? -g : g - (n - 1), n), false};
  }
  return {0, 0, true};
}

}  // namespace shard

#endif
