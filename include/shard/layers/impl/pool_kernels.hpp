// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_POOL_KERNELS_HPP
#define SHARD_LAYERS_IMPL_POOL_KERNELS_HPP

#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// The window of a pooling in local indices: output o reads the points o s + k d + offset in
/// [first, last), those inside the domain.
struct PoolWindow {
  int kernel[3]     = {1, 1, 1};
  int stride[3]     = {1, 1, 1};
  int dilation[3]   = {1, 1, 1};
  index_t offset[3] = {0, 0, 0};
  index_t first[3]  = {0, 0, 0};
  index_t last[3]   = {1, 1, 1};
  index_t padded[3] = {1, 1, 1};  ///< the end of the padding, for divisors with padding
};

/// Kernels of poolings, compiled in src/layers for float and double. Points outside the domain are
/// skipped by index. All are asynchronous on `space`.
template <class Space, class T>
struct PoolKernels : RequireLayerKernels<Space> {
  /// y[o] = the maximum of the window, tap[o] = its position in the window (row-major; -1 for an
  /// empty window, whose y is -infinity). The first of equal ones; NaN is the largest, and the last
  /// NaN counts. `taps` has one entry for each point of y, row-major.
  static void max(const Space& space, const Block<T>& y, int* taps, const Block<const T>& x,
                  const PoolWindow& window);
  /// ty[o] = the point of tx at tap[o]
  static void max_tangent(const Space& space, const Block<T>& ty, const int* taps,
                          const Block<const T>& tx, const PoolWindow& window);
  /// dx[i] = sum of dy[o] over the outputs o (ascending) whose tap is point i, for all points of
  /// dx's block.
  static void max_pullback(const Space& space, const Block<T>& dx, const int* taps,
                           const Block<const T>& dy, const PoolWindow& window);
  /// Writes the taps of owned outputs as values of a field.
  static void taps_as_values(const Space& space, const Block<T>& chosen, const int* taps);
  /// max_pullback from the outputs in dy's block, with the taps in a block of the same points.
  static void max_pullback_ordered(const Space& space, const Block<T>& dx,
                                   const Block<const T>& chosen, const Block<const T>& dy,
                                   const PoolWindow& window);
  /// y[o] = sum of the window's points inside the domain / their number, optionally with the
  /// padding. A device adds row-major; a host adds rows first, then along the last dimension.
  static void average(const Space& space, const Block<T>& y, const Block<const T>& x,
                      const PoolWindow& window, bool count_padding);
  /// dx[i] = sum over the outputs o (ascending) that read point i of dy[o] / its points, for all
  /// points of dx's block; zero outside the domain.
  static void average_pullback(const Space& space, const Block<T>& dx, const Block<const T>& dy,
                               const PoolWindow& window, bool count_padding);
};

/// Kernels of the pixel shuffles: fine[n, c, i r + j] = coarse[n, c r^dims + j, i], j row-major, or
/// with `points_first` coarse[n, j C + c, i] for C channels of the fine field; `factor` is 1 in
/// dimensions that the field doesn't have.
template <class Space, class T>
struct PixelKernels : RequireLayerKernels<Space> {
  /// Fills `fine`.
  static void to_fine(const Space& space, const Block<T>& fine, const Block<const T>& coarse,
                      const int* factor, bool points_first);
  /// Fills `coarse`.
  static void to_coarse(const Space& space, const Block<T>& coarse, const Block<const T>& fine,
                        const int* factor, bool points_first);
};

}  // namespace shard::impl

#endif
