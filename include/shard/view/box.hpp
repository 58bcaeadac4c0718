// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_BOX_HPP
#define SHARD_VIEW_BOX_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>

#include "shard/base/types.hpp"

namespace shard {

/// A box of local indices [begin, end) in each dimension.
template <int Rank>
struct Box {
  Kokkos::Array<index_t, static_cast<std::size_t>(Rank)> begin{};  ///< first indices
  Kokkos::Array<index_t, static_cast<std::size_t>(Rank)> end{};    ///< one past the last

  /// Number of points; 0 if the box is empty in some dimension.
  KOKKOS_FUNCTION constexpr index_t cells() const {
    index_t n = 1;
    for (int d = 0; d < Rank; ++d) n *= end[d] > begin[d] ? end[d] - begin[d] : 0;
    return n;
  }
};

/// Disjoint boxes of a field's local indices, over which a kernel runs. At most one box and two
/// more for each of three dimensions with halos.
/// \tparam InnerDim the dimension that is contiguous
/// in memory
template <int Rank, int InnerDim>
struct Region {
  static constexpr int max_boxes = 7;           ///< one and two for each halo
  Kokkos::Array<Box<Rank>, max_boxes> boxes{};  ///< the first `count` of them count
  int count = 0;                                ///< number of boxes

  /// Number of points of all boxes.
  KOKKOS_FUNCTION constexpr index_t cells() const {
    index_t n = 0;
    for (int b = 0; b < count; ++b) n += boxes[b].cells();
    return n;
  }
};

}  // namespace shard

#endif
