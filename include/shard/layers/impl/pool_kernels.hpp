// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_POOL_KERNELS_HPP
#define SHARD_LAYERS_IMPL_POOL_KERNELS_HPP

#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// The window of a pooling between local indices, and where the world's cells lie: output o reads
/// the cells o s + k d + offset that are in [first, last).
struct PoolWindow {
  int kernel[3]     = {1, 1, 1};
  int stride[3]     = {1, 1, 1};
  int dilation[3]   = {1, 1, 1};
  index_t offset[3] = {0, 0, 0};
  index_t first[3]  = {0, 0, 0};
  index_t last[3]   = {1, 1, 1};
  index_t padded[3] = {1, 1, 1};  ///< the end of the padding, which counts by one of the rules
};

/// Kernels of poolings, compiled in src/layers for float and double. Cells beyond the world are
/// left out by their index. All launch on `space` and don't wait.
template <class Space, class T>
struct PoolKernels {
  static_assert(has_layer_kernels_v<Space>,
                "the layers' kernels are compiled for Kokkos' default execution space and its "
                "default host execution space");

  /// y[o] = the largest of the window's cells, tap[o] = which it is (row-major; -1 if the window
  /// holds none, y is then -infinity): the first of equal ones; a NaN counts as larger, the last of
  /// several. `taps` has one entry for each cell of y, row-major.
  static void max(const Space& space, const Block<T>& y, int* taps, const Block<const T>& x,
                  const PoolWindow& window);
  /// ty[o] = the cell of tx that tap[o] is
  static void max_tangent(const Space& space, const Block<T>& ty, const int* taps,
                          const Block<const T>& tx, const PoolWindow& window);
  /// dx[i] = sum of dy[o] over the outputs o (ascending) whose tap is cell i, for all cells of dx's
  /// block.
  static void max_pullback(const Space& space, const Block<T>& dx, const int* taps,
                           const Block<const T>& dy, const PoolWindow& window);
  /// The taps of owned outputs as the values of a field.
  static void taps_as_values(const Space& space, const Block<T>& chosen, const int* taps);
  /// max_pullback from the outputs that dy's block has, with the taps in a field's block of the
  /// same cells.
  static void max_pullback_ordered(const Space& space, const Block<T>& dx,
                                   const Block<const T>& chosen, const Block<const T>& dy,
                                   const PoolWindow& window);
  /// y[o] = sum of the window's cells / its cells in the world, and by one of the rules in the
  /// padding. On a device row-major; on a host of rows first, then along the last dimension, as the
  /// sums of average_pullback.
  static void average(const Space& space, const Block<T>& y, const Block<const T>& x,
                      const PoolWindow& window, bool count_padding);
  /// dx[i] = sum over the outputs o (ascending) that read cell i of dy[o] / its cells, for all
  /// cells of dx's block; zero beyond the world.
  static void average_pullback(const Space& space, const Block<T>& dx, const Block<const T>& dy,
                               const PoolWindow& window, bool count_padding);
};

/// Kernels that move channels into cells and back: fine[n, c, i r + j] = coarse[n, c r^dims + j,
/// i], j row-major; `factor` is 1 in dimensions that the field doesn't have.
template <class Space, class T>
struct PixelKernels {
  static_assert(has_layer_kernels_v<Space>,
                "the layers' kernels are compiled for Kokkos' default execution space and its "
                "default host execution space");

  /// Fills `fine`.
  static void to_fine(const Space& space, const Block<T>& fine, const Block<const T>& coarse,
                      const int* factor);
  /// Fills `coarse`.
  static void to_coarse(const Space& space, const Block<T>& coarse, const Block<const T>& fine,
                        const int* factor);
};

}  // namespace shard::impl

#endif
