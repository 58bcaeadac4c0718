// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_OUTSIDE_KERNELS_HPP
#define SHARD_LAYERS_IMPL_OUTSIDE_KERNELS_HPP

#include "shard/layers/impl/kernels.hpp"
#include "shard/view/boundary.hpp"

namespace shard::impl {

/// The ends of the domain in a block, and its boundaries. The block contains the source of each of
/// its points outside the domain.
struct DomainEdges {
  index_t first[3] = {0, 0, 0};  ///< points inside the domain are in [first, last)
  index_t last[3]  = {1, 1, 1};
  bool filled[3] =
      {};  ///< points outside are copies; else there are none, or they are ordinary points
  BoundarySide low[3], high[3];                        ///< a longitude is a dimension of the block
  IndexRange images_low[3] = {}, images_high[3] = {};  ///< ranges of the sources of those points
  int order[3] = {0, 1, 2};  ///< folds before the dimensions that they shift

  KOKKOS_FUNCTION bool is_outside(int d, index_t i) const {
    return filled[d] && (i < first[d] || i >= last[d]);
  }
  KOKKOS_FUNCTION bool has_images(int d, index_t i) const {
    return filled[d] && ((i >= images_low[d].begin && i < images_low[d].end) ||
                         (i >= images_high[d].begin && i < images_high[d].end));
  }
  KOKKOS_FUNCTION index_t turned(int d, index_t i) const {
    const index_t n = last[d] - first[d];
    return first[d] + (i - first[d] + n / 2) % n;
  }
};

/// Kernels that update a block's points outside the domain, compiled in src/layers for float and
/// double. They are asynchronous on `space`.
template <class Space, class T>
struct OutsideKernels : RequireLayerKernels<Space> {
  /// Sets the points outside the domain: copies of their source in the block; constants, or zeros
  /// for a tangent.
  static void fill(const Space& space, const Block<T>& cells, const DomainEdges& edges,
                   bool tangent);
  /// The transpose: adds the points outside the domain to their sources, the point's own value
  /// first, then in a fixed order. Points outside are unchanged.
  static void gather(const Space& space, const Block<T>& cells, const DomainEdges& edges);
};

}  // namespace shard::impl

#endif
