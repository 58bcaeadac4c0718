// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_EMBEDDING_KERNELS_HPP
#define SHARD_LAYERS_IMPL_EMBEDDING_KERNELS_HPP

#include <string_view>

#include "shard/layers/impl/kernels.hpp"
#include "shard/view/partition.hpp"

namespace shard::impl {

/// The features that a rotary embedding rotates.
struct RotaryShape {
  index_t features = 0;          ///< of a head
  index_t first = 0, count = 0;  ///< those that are rotated
  bool halves = false;           ///< feature i with i + count / 2, else 2i with 2i + 1
  int dim     = 0;               ///< a Block's spatial dimension of the positions
};

/// Throws ArgumentError, on every rank, for heads that aren't whole, features that don't exist or
/// are odd in number, or a dimension that doesn't exist.
RotaryShape rotary_shape(std::string_view field, const Partition& channels, index_t heads,
                         index_t first, index_t count, int dim, int dims, bool halves);

/// table = the cosines of position x theta^(-2i / count) for each pair i and position, then the
/// sines.
void fill_rotary(double* table, index_t begin, index_t positions, index_t count, double theta);

/// Sines and cosines of frequencies: [sin(f t)..., cos(f t)...], or the cosines first.
struct WaveTable {
  const double* frequencies = nullptr;
  index_t count             = 0;
  bool cosines_first        = false;
};

/// Kernels of embeddings, compiled in src/layers for float and double. They are asynchronous on
/// `space`, and compute in double.
template <class Space, class T>
struct EmbeddingKernels : RequireLayerKernels<Space> {
  /// y = x with rotated pairs of features; `back` rotates in the other direction. y may be x.
  static void rotate(const Space& space, const Block<T>& y, const Block<const T>& x,
                     const RotaryShape& shape, const double* table, bool back);
  /// y[n, :] = the waves at t[n]; y has the strides y_step and 1.
  static void waves(const Space& space, T* y, index_t y_step, const T* t, index_t points,
                    const WaveTable& table);
  /// dt[n] = sum of dy[n, :] times the waves' derivatives, in ascending order.
  static void waves_pullback(const Space& space, T* dt, const T* dy, index_t dy_step, const T* t,
                             index_t points, const WaveTable& table);
  /// ty[n, :] = the waves' derivatives times tt[n].
  static void waves_pushforward(const Space& space, T* ty, index_t ty_step, const T* tt, const T* t,
                                index_t points, const WaveTable& table);
};

}  // namespace shard::impl

#endif
