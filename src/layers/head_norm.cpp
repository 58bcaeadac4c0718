// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/layers/impl/head_norm_kernels.hpp"

#include "launch.hpp"

namespace shard::impl {

/// exp(min(log, ln 100)) / sqrt(features)
KOKKOS_FUNCTION inline double head_factor(double log, index_t features) {
  return Kokkos::exp(log < most_logit_scale ? log : most_logit_scale) /
         Kokkos::sqrt(static_cast<double>(features));
}

template <class T>
struct HeadFactorKernel {
  T* factors;
  const T* logs;
  index_t features;

  KOKKOS_FUNCTION void operator()(index_t i) const {
    factors[i] = static_cast<T>(
        head_factor(logs == nullptr ? 0.0 : static_cast<double>(logs[i / features]), features));
  }
};

template <class T>
struct HeadFactorTangentKernel {
  T* tangents;
  const T *log_tangents, *logs;
  index_t features;

  KOKKOS_FUNCTION void operator()(index_t i) const {
    const auto log     = static_cast<double>(logs[i / features]);
    const auto tangent = static_cast<double>(log_tangents[i / features]);
    tangents[i] =
        static_cast<T>(log <= most_logit_scale ? head_factor(log, features) * tangent : 0.0);
  }
};

template <class T>
struct HeadFactorGradientKernel {
  T* log_gradients;
  const double* sums;
  const T* logs;
  index_t batch, heads, features;

  KOKKOS_FUNCTION void operator()(index_t h) const {
    const auto log = static_cast<double>(logs[h]);
    if (log > most_logit_scale) return;
    double sum = 0.0;
    for (index_t n = 0; n < batch; ++n)
      for (index_t f = 0; f < features; ++f) sum += sums[2 * ((n * heads + h) * features + f) + 1];
    const double gradient = static_cast<double>(log_gradients[h]);
    log_gradients[h]      = static_cast<T>(gradient + head_factor(log, features) * sum);
  }
};

template <class Space, class T>
void HeadNormKernels<Space, T>::factors(const Space& space, T* factors, const T* logs,
                                        index_t heads, index_t features) {
  launch("shard::head_factors", space, heads * features,
         HeadFactorKernel<T>{factors, logs, features});
}

template <class Space, class T>
void HeadNormKernels<Space, T>::factor_tangents(const Space& space, T* tangents,
                                                const T* log_tangents, const T* logs, index_t heads,
                                                index_t features) {
  launch("shard::head_factor_tangents", space, heads * features,
         HeadFactorTangentKernel<T>{tangents, log_tangents, logs, features});
}

template <class Space, class T>
void HeadNormKernels<Space, T>::add_log_gradients(const Space& space, T* log_gradients,
                                                  const double* sums, const T* logs, index_t batch,
                                                  index_t heads, index_t features) {
  launch("shard::head_factor_gradients", space, heads,
         HeadFactorGradientKernel<T>{log_gradients, sums, logs, batch, heads, features});
}

SHARD_KERNELS(HeadNormKernels)

}  // namespace shard::impl
