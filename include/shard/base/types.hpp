// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BASE_TYPES_HPP
#define SHARD_BASE_TYPES_HPP

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace shard {

/// Indices, extents and counts of points, local and global.
using index_t = std::int64_t;

/// Extents of a field, one per dimension, from any integers; narrowing from a wider or unsigned
/// integer type is not an error.
template <int Rank>
struct Extents {
  std::array<index_t, static_cast<std::size_t>(Rank)> n{};  ///< the extents, dimension 0 first

  /// All zero.
  constexpr Extents() = default;

  /// One integer of any type for each dimension.
  template <std::integral... I>
  requires(sizeof...(I) > 0) constexpr Extents(I... i) {
    static_assert(sizeof...(I) == static_cast<std::size_t>(Rank),
                  "give one extent for each dimension of the field, or each axis of the mesh");
    n = {static_cast<index_t>(i)...};
  }

  /// From an array.
  constexpr Extents(const std::array<index_t, static_cast<std::size_t>(Rank)>& extents)
      : n(extents) {}

  /// From an array of another integer type.
  template <std::integral I>
  constexpr Extents(const std::array<I, static_cast<std::size_t>(Rank)>& extents) {
    for (std::size_t d = 0; d < n.size(); ++d) n[d] = static_cast<index_t>(extents[d]);
  }

  /// The extent of dimension d.
  constexpr index_t operator[](int d) const { return n[static_cast<std::size_t>(d)]; }
  /// The extent of dimension d.
  constexpr index_t& operator[](int d) { return n[static_cast<std::size_t>(d)]; }

  /// Whether all extents are equal.
  friend constexpr bool operator==(const Extents&, const Extents&) = default;
};

}  // namespace shard

#endif
