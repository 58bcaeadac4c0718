// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_DROPOUT_KERNELS_HPP
#define SHARD_LAYERS_IMPL_DROPOUT_KERNELS_HPP

#include <cstdint>

#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// The mask of a Dropout. `begin` and `extent` are this rank's first point and the global extents
/// [batch, channel, space], with a Block's spatial dimensions.
struct DropoutMask {
  double p           = 0.0;
  std::uint64_t seed = 0, step = 0;
  index_t begin[5] = {0, 0, 0, 0, 0}, extent[5] = {1, 1, 1, 1, 1};
};

/// Compiled in src/layers for float and double; is asynchronous on `space`.
template <class Space, class T>
struct DropoutKernels : RequireLayerKernels<Space> {
  /// y = x / (1 - p) where the mask keeps it, else 0.
  static void apply(const Space& space, const Block<T>& y, const Block<const T>& x,
                    const DropoutMask& mask);
};

/// Throws ArgumentError unless 0 <= p <= 1.
void require_probability(double p);

}  // namespace shard::impl

#endif
