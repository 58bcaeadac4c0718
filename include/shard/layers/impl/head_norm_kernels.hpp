// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_HEAD_NORM_KERNELS_HPP
#define SHARD_LAYERS_IMPL_HEAD_NORM_KERNELS_HPP

#include <Kokkos_Core.hpp>

#include "shard/base/types.hpp"
#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// The largest logarithm of the factor of scaled cosine attention: ln 100.
inline constexpr double most_logit_scale = 4.6051701859880913680;

/// Kernels of the factors of scaled cosine attention, compiled in src/layers for float and double.
/// They are asynchronous on `space`. `logs` has a value for each of `heads` heads, or is null: then
/// the factor is 1.
template <class Space, class T>
struct HeadNormKernels : RequireLayerKernels<Space> {
  /// factors[h][f] = exp(min(logs[h], ln 100)) / sqrt(features)
  static void factors(const Space& space, T* factors, const T* logs, index_t heads,
                      index_t features);
  /// Their tangents.
  static void factor_tangents(const Space& space, T* tangents, const T* log_tangents, const T* logs,
                              index_t heads, index_t features);
  /// log_gradients[h] += the gradient, from sums [batch][head][feature][2] of which the second is
  /// that of dy xhat. It is summed in double, batch entries first.
  static void add_log_gradients(const Space& space, T* log_gradients, const double* sums,
                                const T* logs, index_t batch, index_t heads, index_t features);
};

}  // namespace shard::impl

#endif
