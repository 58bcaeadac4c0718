// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/model/optimiser_kernels.hpp"

#include <cstdint>
#include <type_traits>

namespace shard::impl {

template <class T>
struct AdamKernel {
  T* values;
  const T* gradients;
  T* mean;
  T* square;
  AdamStep step;

  KOKKOS_FUNCTION void operator()(index_t i) const {
    const double p = static_cast<double>(values[i]);
    const double g = static_cast<double>(gradients[i]) + step.l2 * p;
    const double m = step.beta1 * static_cast<double>(mean[i]) + (1.0 - step.beta1) * g;
    const double v = step.beta2 * static_cast<double>(square[i]) + (1.0 - step.beta2) * g * g;
    mean[i]        = static_cast<T>(m);
    square[i]      = static_cast<T>(v);
    values[i]      = static_cast<T>(step.keep * p -
                               step.rate * m / (Kokkos::sqrt(v * step.root_correction) + step.eps));
  }
};

template <class T>
struct SgdKernel {
  T* values;
  const T* gradients;
  T* velocity;
  SgdStep step;

  KOKKOS_FUNCTION void operator()(index_t i) const {
    const double p = static_cast<double>(values[i]);
    double g       = static_cast<double>(gradients[i]) + step.l2 * p;
    if (velocity != nullptr) {
      const double v =
          step.first ? g : step.momentum * static_cast<double>(velocity[i]) + step.damped * g;
      velocity[i] = static_cast<T>(v);
      g           = step.nesterov ? g + step.momentum * v : v;
    }
    values[i] = static_cast<T>(p - step.rate * g);
  }
};

template <class T>
struct ScaleGradientsKernel {
  T* values;
  double factor;

  KOKKOS_FUNCTION void operator()(index_t i) const {
    values[i] = static_cast<T>(static_cast<double>(values[i]) * factor);
  }
};

/// A block is a piece of the array on a host; on a device neighbouring threads read neighbouring
/// values.
template <class T>
struct SquaresKernel {
  double* sums;
  const T* values;
  index_t count, blocks, piece;
  bool in_pieces;

  KOKKOS_FUNCTION void operator()(index_t b) const {
    const index_t first = in_pieces ? b * piece : b, step = in_pieces ? 1 : blocks;
    const index_t last = in_pieces && first + piece < count ? first + piece : count;
    double sum         = 0.0;
    for (index_t i = first; i < last; i += step) {
      const double v = static_cast<double>(values[i]);
      sum += v * v;
    }
    sums[b] = sum;
  }
};

template <class T>
struct RoundKernel {
  T* to;
  const T* from;
  LowPrecision format;

  KOKKOS_FUNCTION void operator()(index_t i) const {
    const auto value          = static_cast<float>(from[i]);
    const std::uint32_t bits  = Kokkos::bit_cast<std::uint32_t>(value);
    const std::uint32_t sizes = bits & 0x7FFFFFFFU;
    float rounded             = value;
    if (sizes < 0x7F800000U) {  // neither infinite nor NaN
      if (format == LowPrecision::bfloat16) {
        rounded = nearest(bits, 16);
      } else if (sizes < 0x38800000U) {
        // below 2^-14 half has a fixed grid, that of the floats from 1/2 to 1
        const float size = (value < 0 ? -value : value) + 0.5F;
        rounded          = value < 0 ? -(size - 0.5F) : size - 0.5F;
      } else {
        rounded = nearest(bits, 13);
        if (rounded > 65504.0F) rounded = Kokkos::Experimental::infinity_v<float>;
        if (rounded < -65504.0F) rounded = -Kokkos::Experimental::infinity_v<float>;
      }
    }
    to[i] = static_cast<T>(rounded);
  }

  /// Without the last `dropped` bits, ties to even; what overflows is infinite by itself.
  KOKKOS_FUNCTION static float nearest(std::uint32_t bits, int dropped) {
    bits += (1U << (dropped - 1)) - 1U + (bits >> dropped & 1U);
    return Kokkos::bit_cast<float>(bits >> dropped << dropped);
  }
};

namespace {

template <class Space, class Kernel>
void for_each_value(const char* name, const Space& space, index_t count, const Kernel& kernel) {
  if (count > 0)
    Kokkos::parallel_for(
        name, Kokkos::RangePolicy<Space, Kokkos::IndexType<index_t>>(space, index_t{0}, count),
        kernel);
}

}  // namespace

template <class Space, class T>
void OptimiserKernels<Space, T>::adam(const Space& space, T* values, const T* gradients, T* mean,
                                      T* square, index_t count, const AdamStep& step) {
  for_each_value("shard::adam", space, count, AdamKernel<T>{values, gradients, mean, square, step});
}

template <class Space, class T>
void OptimiserKernels<Space, T>::sgd(const Space& space, T* values, const T* gradients, T* velocity,
                                     index_t count, const SgdStep& step) {
  for_each_value("shard::sgd", space, count, SgdKernel<T>{values, gradients, velocity, step});
}

template <class Space, class T>
void OptimiserKernels<Space, T>::scale(const Space& space, T* values, index_t count,
                                       double factor) {
  for_each_value("shard::scale gradients", space, count, ScaleGradientsKernel<T>{values, factor});
}

template <class Space, class T>
void OptimiserKernels<Space, T>::squares(const Space& space, double* sums, const T* values,
                                         index_t count) {
  const index_t blocks = sum_blocks(count), piece = blocks > 0 ? (count + blocks - 1) / blocks : 0;
  for_each_value("shard::squares", space, blocks,
                 SquaresKernel<T>{sums, values, count, blocks, piece,
                                  std::is_same_v<Space, Kokkos::DefaultHostExecutionSpace>});
}

template <class Space, class T>
void OptimiserKernels<Space, T>::round(const Space& space, T* to, const T* from, index_t count,
                                       LowPrecision format) {
  for_each_value("shard::round", space, count, RoundKernel<T>{to, from, format});
}

template struct OptimiserKernels<Kokkos::DefaultExecutionSpace, float>;
template struct OptimiserKernels<Kokkos::DefaultExecutionSpace, double>;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct OptimiserKernels<Kokkos::DefaultHostExecutionSpace, float>;
template struct OptimiserKernels<Kokkos::DefaultHostExecutionSpace, double>;
#endif

}  // namespace shard::impl
