// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_ELEMENTWISE_NORM_KERNELS_HPP
#define SHARD_LAYERS_IMPL_ELEMENTWISE_NORM_KERNELS_HPP

#include <string_view>

#include "shard/layers/impl/kernels.hpp"
#include "shard/layers/impl/norm_kernels.hpp"
#include "shard/view/impl/geometry.hpp"

namespace shard::impl {

/// Kernels of a norm with weights for each channel and point, compiled in src/layers for float and
/// double. They are asynchronous on `space`. Blocks of parameters have the same points as x and a
/// batch stride of 0; one without an origin is absent.
template <class Space, class T>
struct ElementwiseNormKernels : RequireLayerKernels<Space> {
  /// to = from factor + xhat slope + shift, xhat = (x - mean) rstd, in double; absent blocks are
  /// skipped (also a factor). `to` may be `from`.
  static void combine(const Space& space, const Block<T>& to, const Block<const T>& from,
                      const Block<const T>& factor, const Block<const T>& x,
                      const double* statistics, const NormGroups& groups,
                      const Block<const T>& slope, const Block<const T>& shift);
  /// dw += sum over the batch, ascending, of dy xhat, db += that of dy; in double.
  static void add_gradients(const Space& space, const Block<T>& weight_gradient,
                            const Block<T>& bias_gradient, const Block<const T>& dy,
                            const Block<const T>& x, const double* statistics,
                            const NormGroups& groups);
};

/// Throws ArgumentError, on every rank, unless `cells` is on x's mesh and has the partitions of all
/// its dimensions but the batch.
void require_cells_of(std::string_view function, const Geometry& cells, const Geometry& x);

}  // namespace shard::impl

#endif
