// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_OUTSIDE_KERNELS_HPP
#define SHARD_LAYERS_IMPL_OUTSIDE_KERNELS_HPP

#include "shard/layers/impl/kernels.hpp"
#include "shard/view/boundary.hpp"

namespace shard::impl {

/// Where the world ends in a block, and what lies beyond it. The block holds the image of each of
/// its cells beyond the world.
struct DomainEdges {
  index_t first[3] = {0, 0, 0};  ///< the world's cells are those in [first, last)
  index_t last[3]  = {1, 1, 1};
  bool filled[3]   = {};  ///< cells beyond are images; else there are none, or they are cells too
  BoundarySide low[3], high[3];                        ///< a longitude is a dimension of the block
  IndexRange images_low[3] = {}, images_high[3] = {};  ///< where the images of those cells lie
  int order[3] = {0, 1, 2};  ///< folds before the dimensions that they turn

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

/// Kernels that set a block's cells beyond the world anew, compiled in src/layers for float and
/// double. They launch on `space` and don't wait.
template <class Space, class T>
struct OutsideKernels {
  static_assert(has_layer_kernels_v<Space>,
                "the layers' kernels are compiled for Kokkos' default execution space and its "
                "default host execution space");

  /// Sets the cells beyond the world: images from the world's cells in the block; constants, or
  /// zeros of a tangent.
  static void fill(const Space& space, const Block<T>& cells, const DomainEdges& edges,
                   bool tangent);
  /// The transpose: adds the cells beyond the world to the cells that they are images of, the
  /// cell's own value first, then in a fixed order. Those beyond stay as they are.
  static void gather(const Space& space, const Block<T>& cells, const DomainEdges& edges);
};

}  // namespace shard::impl

#endif
