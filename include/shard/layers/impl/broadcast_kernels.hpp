// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_BROADCAST_KERNELS_HPP
#define SHARD_LAYERS_IMPL_BROADCAST_KERNELS_HPP

#include <cstddef>

#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// The terms of y = a (base + z) + b w + s. All blocks have y's extents. z, w and s may have stride
/// 0 in any dimension: broadcast values. A block without an origin is omitted: a or b with its
/// product, s, or z (then the factor is base).
template <class T>
struct Products {
  Block<const T> a, z, b, w, s;
  double base = 0.0;
};

/// Where sums of products go: in a Block's dimensions, 0 where the sum runs.
struct SumPlaces {
  bool keeps[5]    = {};
  index_t step[5]  = {};
  index_t first    = 0;  ///< of this rank's first sum
  index_t count    = 0;  ///< of all sums
  bool keeps_space = false;

  /// Number of values of scratch memory that `sums` needs for a field of these extents.
  template <class Memory>
  static std::size_t room(index_t planes, index_t cells) {
    return static_cast<std::size_t>(planes) + CellPieces::room<Memory>(planes, cells, 1);
  }
};

/// Kernels of products with broadcast values, compiled in src/layers for float and double. They are
/// asynchronous on `space`.
template <class Space, class T>
struct BroadcastKernels : RequireLayerKernels<Space> {
  /// Computes y, which may be a or b.
  static void combine(const Space& space, const Block<T>& y, const Products<T>& terms);
  /// Sets `sums` to zero, then adds to each the products a x of its points in double (without an
  /// origin x is 1). A host adds in ascending order, along the last dimension in sum_lanes
  /// interleaved sums; a device adds planes in CellPieces. `scratch` has SumPlaces::room values.
  static void sums(const Space& space, double* sums, const SumPlaces& places,
                   const Block<const T>& a, const Block<const T>& x, double* scratch);
  /// to = sums, which are row-major; with `adds` to += sums.
  static void store(const Space& space, const Block<T>& to, const double* sums, bool adds);
};

}  // namespace shard::impl

#endif
