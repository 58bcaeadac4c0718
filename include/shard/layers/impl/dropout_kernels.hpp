// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_DROPOUT_KERNELS_HPP
#define SHARD_LAYERS_IMPL_DROPOUT_KERNELS_HPP

#include <cstdint>
#include <string_view>

#include "shard/exchange/stale.hpp"
#include "shard/layers/impl/activation_kernels.hpp"
#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// The mask of a Dropout. `begin` and `extent` are this rank's first point and the global extents
/// [batch, channel, space], with a Block's spatial dimensions.
struct DropoutMask {
  double p           = 0.0;
  std::uint64_t seed = 0, step = 0;
  index_t begin[5] = {0, 0, 0, 0, 0}, extent[5] = {1, 1, 1, 1, 1};
  bool of_samples = false;  ///< one decision for all values of a batch entry

  /// For the points of a field.
  template <class X>
  static DropoutMask of(const X& x, double p, std::uint64_t seed, std::uint64_t step) {
    DropoutMask mask;
    mask.p    = p;
    mask.seed = seed;
    mask.step = step;
    for (int d = 0; d < X::rank; ++d) {
      const int to    = d < 2 ? d : d + 5 - X::rank;
      mask.begin[to]  = x.begin(d);
      mask.extent[to] = x.global_extent(d);
    }
    return mask;
  }
};

/// Compiled in src/layers for float and double; is asynchronous on `space`.
template <class Space, class T>
struct DropoutKernels : RequireLayerKernels<Space> {
  /// y = x / (1 - p) where the mask keeps it, else 0.
  static void apply(const Space& space, const Block<T>& y, const Block<const T>& x,
                    const DropoutMask& mask);
  /// Sets y to standard normal numbers of the mask's seed, step and points.
  static void normal(const Space& space, const Block<T>& y, const DropoutMask& points);
};

/// Throws ArgumentError unless 0 <= p <= 1.
void require_probability(std::string_view function, double p);

}  // namespace shard::impl

#endif
