// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_NORM_SLOPE_HPP
#define SHARD_SRC_LAYERS_NORM_SLOPE_HPP

#include <Kokkos_Core.hpp>

#include "shard/layers/impl/norm_kernels.hpp"

namespace shard::impl {

/// The derivative of a norm: a from - r (b + c (x - mean)), where r is the row's weight, and a
/// (`scale`), b and c are those of the channel and slot.
template <class T>
struct NormSlope {
  const double* statistics;
  const double* slot_sums;      ///< may be null
  const T* weight;              ///< may be null
  const T* weight_tangent;      ///< may be null
  const T* bias_tangent;        ///< may be null
  bool weigh_sums, with_input;  ///< `weight` is a factor of b and c; `from` is used
  NormGroups groups;
  NormRows rows;
  double total;

  struct Channel {
    T mean, scale;
    double b, c;
  };
  KOKKOS_FORCEINLINE_FUNCTION Channel channel(index_t n, index_t channel) const {
    const index_t slot = groups.slot(n, channel);
    const double rstd  = statistics[statistics_per_slot * slot + 1];
    const double w     = weight == nullptr ? 1.0 : static_cast<double>(weight[channel]);
    double b = 0.0, c = 0.0;
    if (slot_sums != nullptr) {
      const double factor = weigh_sums ? w * rstd : rstd;
      b                   = factor * slot_sums[2 * slot] / total;
      c                   = factor * rstd * slot_sums[2 * slot + 1] / total;
    }
    if (weight_tangent != nullptr) c -= rstd * static_cast<double>(weight_tangent[channel]);
    if (bias_tangent != nullptr) b -= static_cast<double>(bias_tangent[channel]);
    return {static_cast<T>(statistics[statistics_per_slot * slot]),
            with_input ? static_cast<T>(rstd * w) : T(0), b, c};
  }
};

}  // namespace shard::impl

#endif
