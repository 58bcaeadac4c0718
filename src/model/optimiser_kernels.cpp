// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/base/impl/launch.hpp"
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

/// On a host a block is contiguous; on a device neighbouring threads read neighbouring values.
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

/// Rounds off the last `dropped` bits, ties to even; overflow gives infinity.
KOKKOS_INLINE_FUNCTION float nearest(std::uint32_t bits, int dropped) {
  bits += (1U << (dropped - 1)) - 1U + (bits >> dropped & 1U);
  return Kokkos::bit_cast<float>(bits >> dropped << dropped);
}

/// The nearest value in the format.
KOKKOS_INLINE_FUNCTION float rounded(float value, LowPrecision format) {
  const auto bits           = Kokkos::bit_cast<std::uint32_t>(value);
  const std::uint32_t sizes = bits & 0x7FFFFFFFU;
  if (sizes >= 0x7F800000U) return value;  // infinite or NaN
  if (format == LowPrecision::bfloat16) return nearest(bits, 16);
  if (sizes < 0x38800000U) {
    // below 2^-14 half precision has the fixed spacing of the floats from 1/2 to 1
    const float size = (value < 0 ? -value : value) + 0.5F;
    return value < 0 ? -(size - 0.5F) : size - 0.5F;
  }
  const float near = nearest(bits, 13);
  if (near > 65504.0F) return Kokkos::Experimental::infinity_v<float>;
  if (near < -65504.0F) return -Kokkos::Experimental::infinity_v<float>;
  return near;
}

template <class T>
struct RoundKernel {
  T* to;
  const T* from;
  LowPrecision format;

  KOKKOS_FUNCTION void operator()(index_t i) const {
    to[i] = static_cast<T>(rounded(static_cast<float>(from[i]), format));
  }
};

/// The bits of a value in a 16-bit format.
template <class T>
struct NarrowKernel {
  std::uint16_t* to;
  const T* from;
  LowPrecision format;

  KOKKOS_FUNCTION void operator()(index_t i) const {
    const float value         = rounded(static_cast<float>(from[i]), format);
    const auto bits           = Kokkos::bit_cast<std::uint32_t>(value);
    const std::uint32_t sizes = bits & 0x7FFFFFFFU, sign = bits >> 16U & 0x8000U;
    std::uint32_t narrow = 0;
    if (format == LowPrecision::bfloat16)
      narrow = bits >> 16U | (sizes > 0x7F800000U ? 0x40U : 0U);  // NaN stays NaN
    else if (sizes >= 0x7F800000U)
      narrow = sign | 0x7C00U | (sizes > 0x7F800000U ? 0x200U : 0U);
    else if (sizes < 0x38800000U)
      narrow = sign | static_cast<std::uint32_t>((value < 0 ? -value : value) * 0x1p24F);
    else
      narrow = sign | ((sizes >> 13U) - (112U << 10U));  // the exponent's zero: 15, not 127
    to[i] = static_cast<std::uint16_t>(narrow);
  }
};

template <class T>
struct WidenKernel {
  T* to;
  const std::uint16_t* from;
  LowPrecision format;

  KOKKOS_FUNCTION void operator()(index_t i) const {
    const std::uint32_t bits = from[i];
    const std::uint32_t sign = (bits & 0x8000U) << 16U, sizes = bits & 0x7FFFU;
    float value = 0;
    if (format == LowPrecision::bfloat16) {
      value = Kokkos::bit_cast<float>(bits << 16U);
    } else if (sizes < 0x400U) {
      const float size = static_cast<float>(sizes) * 0x1p-24F;
      value            = sign != 0 ? -size : size;
    } else {
      const std::uint32_t exponent = sizes < 0x7C00U ? 112U << 10U : 224U << 10U;
      value                        = Kokkos::bit_cast<float>(sign | (sizes + exponent) << 13U);
    }
    to[i] = static_cast<T>(value);
  }
};

template <class Space, class T>
void OptimiserKernels<Space, T>::adam(const Space& space, T* values, const T* gradients, T* mean,
                                      T* square, index_t count, const AdamStep& step) {
  launch("shard::adam", space, count, AdamKernel<T>{values, gradients, mean, square, step});
}

template <class Space, class T>
void OptimiserKernels<Space, T>::sgd(const Space& space, T* values, const T* gradients, T* velocity,
                                     index_t count, const SgdStep& step) {
  launch("shard::sgd", space, count, SgdKernel<T>{values, gradients, velocity, step});
}

template <class Space, class T>
void OptimiserKernels<Space, T>::scale(const Space& space, T* values, index_t count,
                                       double factor) {
  launch("shard::scale gradients", space, count, ScaleGradientsKernel<T>{values, factor});
}

template <class Space, class T>
void OptimiserKernels<Space, T>::squares(const Space& space, double* sums, const T* values,
                                         index_t count) {
  const index_t blocks = sum_blocks(count), piece = blocks > 0 ? (count + blocks - 1) / blocks : 0;
  launch("shard::squares", space, blocks,
         SquaresKernel<T>{sums, values, count, blocks, piece,
                          std::is_same_v<Space, Kokkos::DefaultHostExecutionSpace>});
}

template <class Space, class T>
void OptimiserKernels<Space, T>::round(const Space& space, T* to, const T* from, index_t count,
                                       LowPrecision format) {
  launch("shard::round", space, count, RoundKernel<T>{to, from, format});
}

template <class Space, class T>
void NarrowKernels<Space, T>::narrow(const Space& space, std::uint16_t* to, const T* from,
                                     index_t count, LowPrecision format) {
  launch("shard::narrow", space, count, NarrowKernel<T>{to, from, format});
}

template <class Space, class T>
void NarrowKernels<Space, T>::widen(const Space& space, T* to, const std::uint16_t* from,
                                    index_t count, LowPrecision format) {
  launch("shard::widen", space, count, WidenKernel<T>{to, from, format});
}

template struct OptimiserKernels<Kokkos::DefaultExecutionSpace, float>;
template struct OptimiserKernels<Kokkos::DefaultExecutionSpace, double>;
template struct NarrowKernels<Kokkos::DefaultExecutionSpace, float>;
template struct NarrowKernels<Kokkos::DefaultExecutionSpace, double>;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct OptimiserKernels<Kokkos::DefaultHostExecutionSpace, float>;
template struct OptimiserKernels<Kokkos::DefaultHostExecutionSpace, double>;
template struct NarrowKernels<Kokkos::DefaultHostExecutionSpace, float>;
template struct NarrowKernels<Kokkos::DefaultHostExecutionSpace, double>;
#endif

}  // namespace shard::impl
