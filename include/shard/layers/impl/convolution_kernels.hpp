// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_CONVOLUTION_KERNELS_HPP
#define SHARD_LAYERS_IMPL_CONVOLUTION_KERNELS_HPP

#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// Correlations that are added to the output, see ConvolutionKernels; a point's old value is first
/// in its sum. They are asynchronous on `space`.
template <class Space, class T>
struct ConvolutionSumKernels : RequireLayerKernels<Space> {
  /// coarse[n, a, o] += sum over b, k of w[a][b][k] fine[n, b, o s + k d + offset]
  static void add_correlation(const Space& space, const Block<T>& coarse,
                              const Block<const T>& fine, const T* weight,
                              const LocalWindow& window);
  /// fine[n, b, i] += sum over a, k with i = o s + k d + offset of w[a][b][k] coarse[n, a, o]
  static void add_correlation_transposed(const Space& space, const Block<T>& fine,
                                         const Block<const T>& coarse, const T* weight,
                                         const LocalWindow& window);
};

}  // namespace shard::impl

#endif
