// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_LINE_KERNELS_HPP
#define SHARD_LAYERS_IMPL_LINE_KERNELS_HPP

#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// Kernels along the lines of a block's spatial dimension `dim` (0 to 2); lines are numbered by
/// their first points, the last dimension fastest. Sums are in double and ascending. Along the last
/// dimension a host keeps several running sums. Compiled in src/layers for float and double; they
/// are asynchronous on `space`.
template <class Space, class T>
struct LineKernels : RequireLayerKernels<Space> {
  /// For each line: its maximum m, and the sum of exp(x - m).
  static void exponentials(const Space& space, double* statistics, const Block<const T>& x,
                           int dim);
  /// `exponentials` and `softmax`, of lines that no other rank shares.
  static void softmax_of_lines(const Space& space, const Block<T>& y, double* statistics,
                               const Block<const T>& x, int dim);
  /// Merges the ranks' maxima and sums of exponentials, in rank order.
  static void merge(const Space& space, double* statistics, const double* gathered, index_t lines,
                    int ranks);
  /// y = exp(x - m) / sum
  static void softmax(const Space& space, const Block<T>& y, const Block<const T>& x,
                      const double* statistics, int dim);
  /// For each line: sum of y a, y the softmax.
  static void dots(const Space& space, double* sums, const Block<const T>& a,
                   const Block<const T>& x, const double* statistics, int dim);
  /// b = y (a - dot), y the softmax.
  static void derivative(const Space& space, const Block<T>& b, const Block<const T>& a,
                         const Block<const T>& x, const double* statistics, const double* sums,
                         int dim);
  /// `dots` and `derivative`, of lines that no other rank shares.
  static void derivative_of_lines(const Space& space, const Block<T>& b, const Block<const T>& a,
                                  const Block<const T>& x, const double* statistics, int dim);
};

}  // namespace shard::impl

#endif
