// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/model/adam.hpp"

namespace shard::impl {

template <class T>
struct AdamKernel {
  T* values;
  const T* gradients;
  T* mean;
  T* square;
  AdamStep step;

  KOKKOS_FUNCTION void operator()(index_t i) const {
    const double g = static_cast<double>(gradients[i]);
    const double m = step.beta1 * static_cast<double>(mean[i]) + (1.0 - step.beta1) * g;
    const double v = step.beta2 * static_cast<double>(square[i]) + (1.0 - step.beta2) * g * g;
    mean[i]        = static_cast<T>(m);
    square[i]      = static_cast<T>(v);
    values[i]      = static_cast<T>(static_cast<double>(values[i]) -
                               step.rate * m / (Kokkos::sqrt(v * step.root_correction) + step.eps));
  }
};

template <class Space, class T>
void OptimiserKernels<Space, T>::adam(const Space& space, T* values, const T* gradients, T* mean,
                                      T* square, index_t count, const AdamStep& step) {
  if (count > 0)
    Kokkos::parallel_for(
        "shard::adam",
        Kokkos::RangePolicy<Space, Kokkos::IndexType<index_t>>(space, index_t{0}, count),
        AdamKernel<T>{values, gradients, mean, square, step});
}

template struct OptimiserKernels<Kokkos::DefaultExecutionSpace, float>;
template struct OptimiserKernels<Kokkos::DefaultExecutionSpace, double>;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct OptimiserKernels<Kokkos::DefaultHostExecutionSpace, float>;
template struct OptimiserKernels<Kokkos::DefaultHostExecutionSpace, double>;
#endif

}  // namespace shard::impl
