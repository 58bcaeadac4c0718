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
  index_t crossed = 0;      ///< number of crossings of a mirror or a fold
  bool constant   = false;  ///< the value is the boundary's constant, or the caller's
};

/// The source of global index `g` in a domain of `n` points (n >= 1; n >= 2 for reflect and a fold
/// on a row) under one side's boundary. Indices inside the domain are their own source, except the
/// last one of north_before_row. Exchange plans, layers and the tests' serial oracles share this
/// map: periodic g mod n; reflect and a pole on a row with period 2(n-1); symmetric and a pole
/// between rows with 2n; clamp to 0 or n-1; a north fold takes g to c - g with c = 2n-1, 2n-2,
/// 2n-3 (and at the other end, if the halo is so wide, repeats row 0 as symmetric). Of a domain
/// without points all is constant.
KOKKOS_INLINE_FUNCTION constexpr Image image_of(BoundaryKind kind, index_t g, index_t n) {
  if (n == 0) return {0, 0, true};
  const index_t own = kind == BoundaryKind::north_before_row ? n - 1 : n;
  if (g >= 0 && g < own) return {g, 0, false};
  const auto modulo     = [](index_t a, index_t m) { return ((a % m) + m) % m; };
  const auto reflected  = [&](index_t m) { return m < n ? m : 2 * (n - 1) - m; };
  const auto mirrored   = [&](index_t m) { return m < n ? m : 2 * n - 1 - m; };
  const auto whole_part = [](index_t distance, index_t period) {
    return (distance + period - 1) / period;
  };
  const auto across = [&](index_t sum) {  // of an index and its image
    const index_t m = g % (sum + 1);
    return Image{m < own ? m : sum - m, 2 * (g / (sum + 1)) + (m < own ? 0 : 1), false};
  };
  switch (kind) {
    case BoundaryKind::given:
    case BoundaryKind::by_index:
    case BoundaryKind::linked_y:
    case BoundaryKind::linked_x:
    case BoundaryKind::constant: return {0, 0, true};
    case BoundaryKind::periodic: return {modulo(g, n), 0, false};
    case BoundaryKind::clamp: return {g < 0 ? 0 : n - 1, 0, false};
    case BoundaryKind::reflect:
    case BoundaryKind::fold_on_row:
      return {reflected(modulo(g, 2 * (n - 1))), whole_part(g < 0 ? -g : g - (n - 1), n - 1),
              false};
    case BoundaryKind::symmetric:
    case BoundaryKind::fold_between_rows:
      return {mirrored(modulo(g, 2 * n)), whole_part(g < 0 ? -g : g - (n - 1), n), false};
    case BoundaryKind::north_between_rows: return across(2 * n - 1);
    case BoundaryKind::north_on_row: return across(2 * n - 2);
    case BoundaryKind::north_before_row: return across(2 * n - 3);
  }
  return {0, 0, true};
}

/// The longitude, of `n`, to which one crossing of a fold leads from longitude `i`.
KOKKOS_INLINE_FUNCTION constexpr index_t longitude_across(const BoundarySide& fold, index_t i,
                                                          index_t n) {
  return impl::is_north(fold.kind) ? ((fold.opposite - i) % n + n) % n : (i + n / 2) % n;
}

/// Whether the element of the last row at longitude `i` of `n` is a copy of another element.
KOKKOS_INLINE_FUNCTION constexpr bool is_copy(const BoundarySide& high, index_t i, index_t n) {
  return high.kind == BoundaryKind::north_before_row ||
         (high.kind == BoundaryKind::north_on_row && i > longitude_across(high, i, n));
}

/// Longitudes of the copies in the last row: two ascending ranges [begin, end).
struct CopiedLongitudes {
  index_t begin[2];  ///< first longitudes
  index_t end[2];    ///< one past the last; not greater than `begin` if a range is empty
};

/// The longitudes, of `n`, for which is_copy holds.
constexpr CopiedLongitudes copied_longitudes(const BoundarySide& high, index_t n) {
  if (high.kind == BoundaryKind::north_before_row) return {{0, n}, {n, n}};
  if (high.kind != BoundaryKind::north_on_row) return {{0, 0}, {0, 0}};
  // the sum of the longitudes of a pair is this one, or n more
  const index_t sum = (high.opposite % n + n) % n;
  return {{sum / 2 + 1, (sum + n) / 2 + 1}, {sum + 1, n}};
}

}  // namespace shard

#endif
