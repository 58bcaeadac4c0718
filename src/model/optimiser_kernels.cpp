// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/model/optimiser_kernels.hpp"

#include <cmath>
#include <cstdint>

#include "../layers/lanes.hpp"
#include "../layers/row_sums.hpp"
#include "shard/base/impl/launch.hpp"

namespace shard::impl {

/// Adam's step in the type of the parameters, its operations in PyTorch's order.
template <class T>
struct AdamFormula {
  T beta1, rest1, beta2, rest2, rate, root, eps, l2, keep;

  explicit AdamFormula(const AdamStep& s)
      : beta1(static_cast<T>(s.beta1)),
        rest1(static_cast<T>(1.0 - s.beta1)),
        beta2(static_cast<T>(s.beta2)),
        rest2(static_cast<T>(1.0 - s.beta2)),
        rate(static_cast<T>(s.rate)),
        root(static_cast<T>(1.0 / std::sqrt(s.root_correction))),
        eps(static_cast<T>(s.eps)),
        l2(static_cast<T>(s.l2)),
        keep(static_cast<T>(s.keep)) {}

  KOKKOS_FORCEINLINE_FUNCTION T gradient(T g, T p) const { return g + l2 * p; }
  KOKKOS_FORCEINLINE_FUNCTION T mean(T m, T g) const { return beta1 * m + rest1 * g; }
  KOKKOS_FORCEINLINE_FUNCTION T square(T v, T g) const { return beta2 * v + rest2 * g * g; }
  KOKKOS_FORCEINLINE_FUNCTION T value(T p, T m, T root_of_square) const {
    return keep * p - rate * (m / (root_of_square / root + eps));
  }
};

template <class T>
struct AdamKernel {
  T* values;
  const T* gradients;
  T* mean;
  T* square;
  AdamFormula<T> formula;

  KOKKOS_FUNCTION void operator()(index_t i) const {
    const T g = formula.gradient(gradients[i], values[i]);
    mean[i]   = formula.mean(mean[i], g);
    square[i] = formula.square(square[i], g);
    values[i] = formula.value(values[i], mean[i], Kokkos::sqrt(square[i]));
  }
  /// The same for values [begin, end), in loops that compilers vectorise.
  void run(index_t begin, index_t end) const {
    constexpr index_t width = 256;
    const AdamFormula<T> f  = formula;
    T root[width];
    for (index_t first = begin; first < end; first += width) {
      const index_t count = first + width < end ? width : end - first;
      T *const p = values + first, *const m = mean + first, *const v = square + first;
      const T* const g = gradients + first;
      for (index_t i = 0; i < count; ++i) {
        const T slope = f.gradient(g[i], p[i]);
        m[i]          = f.mean(m[i], slope);
        v[i]          = f.square(v[i], slope);
      }
      for (index_t i = 0; i < count; ++i) root[i] = v[i];
      square_roots(root, count);
      // The divisions take as long as the memory: the next block is prefetched meanwhile.
      for (index_t i = 0; i < count; i += part) {
        prefetch(p + width + i);
        prefetch(g + width + i);
        prefetch(m + width + i);
        prefetch(v + width + i);
        const index_t last = i + part < count ? i + part : count;
        for (index_t j = i; j < last; ++j) p[j] = f.value(p[j], m[j], root[j]);
      }
    }
  }

 private:
  static constexpr index_t part = 32;
  static void prefetch(const T* from) {
#if defined(__GNUC__)
    for (index_t i = 0; i < part; i += 64 / static_cast<index_t>(sizeof(T)))
      __builtin_prefetch(from + i);
#else
    static_cast<void>(from);
#endif
  }
};

/// As Adam's, in the type of the parameters.
template <class T>
struct SgdKernel {
  T* values;
  const T* gradients;
  T* velocity;
  T rate, momentum, damped, l2;
  bool nesterov, first;

  SgdKernel(T* p, const T* g, T* v, const SgdStep& s)
      : values(p),
        gradients(g),
        velocity(v),
        rate(static_cast<T>(s.rate)),
        momentum(static_cast<T>(s.momentum)),
        damped(static_cast<T>(s.damped)),
        l2(static_cast<T>(s.l2)),
        nesterov(s.nesterov),
        first(s.first) {}

  KOKKOS_FUNCTION void operator()(index_t i) const {
    T g = gradients[i] + l2 * values[i];
    if (velocity != nullptr) {
      const T v   = first ? g : momentum * velocity[i] + damped * g;
      velocity[i] = v;
      g           = nesterov ? g + momentum * v : v;
    }
    values[i] -= rate * g;
  }
  void run(index_t begin, index_t end) const {
    const SgdKernel f = *this;
    for (index_t i = begin; i < end; ++i) f(i);
  }
};

template <class T>
struct ScaleGradientsKernel {
  T* values;
  double factor;

  KOKKOS_FUNCTION void operator()(index_t i) const {
    values[i] = static_cast<T>(static_cast<double>(values[i]) * factor);
  }
  void run(index_t begin, index_t end) const {
    const ScaleGradientsKernel f = *this;
    for (index_t i = begin; i < end; ++i) f(i);
  }
};

/// As torch.lerp, which from a rate of 1/2 on starts at the other end.
template <class T>
struct AverageKernel {
  T* average;
  const T* values;
  T rate;

  KOKKOS_FUNCTION void operator()(index_t i) const {
    const T step = values[i] - average[i];
    average[i]   = rate < T(0.5) ? average[i] + rate * step : values[i] - step * (T(1) - rate);
  }
  void run(index_t begin, index_t end) const {
    const AverageKernel f = *this;
    for (index_t i = begin; i < end; ++i) f(i);
  }
};

template <class T>
struct SwapValuesKernel {
  T* some;
  T* others;

  KOKKOS_FUNCTION void operator()(index_t i) const {
    const T value = some[i];
    some[i]       = others[i];
    others[i]     = value;
  }
  void run(index_t begin, index_t end) const {
    const SwapValuesKernel f = *this;
    for (index_t i = begin; i < end; ++i) f(i);
  }
};

/// A host's work item: many values, in one loop.
template <class Functor>
struct ValueRuns {
  static constexpr index_t length = 16384;
  Functor functor;
  index_t count;

  void operator()(index_t item) const {
    const index_t begin = item * length;
    functor.run(begin, begin + length < count ? begin + length : count);
  }
};
template <class Space, class Functor>
void launch_values(const char* name, const Space& space, index_t count, const Functor& functor) {
  if constexpr (is_host_space_v<Space>) {
    constexpr index_t length = ValueRuns<Functor>::length;
    launch(name, space, (count + length - 1) / length, ValueRuns<Functor>{functor, count});
  } else {
    launch(name, space, count, functor);
  }
}

/// A block on a device, where neighbouring threads read neighbouring values.
template <class T>
struct SquaresKernel {
  double* sums;
  const T* values;
  index_t count, blocks;

  KOKKOS_FUNCTION void operator()(index_t b) const {
    double sum = 0.0;
    for (index_t i = b; i < count; i += blocks) {
      const double v = static_cast<double>(values[i]);
      sum += v * v;
    }
    sums[b] = sum;
  }
};
/// A block on a host: a piece of the array, in interleaved running sums of four parts in turn,
/// because one stream of loads uses a part of a core's bandwidth only.
template <class T>
struct SquaresPieces {
  static constexpr int streams  = 4;
  static constexpr index_t line = 64 / static_cast<index_t>(sizeof(T)), ahead = 16 * line;
  double* sums;
  const T* values;
  index_t count, piece;

  void operator()(index_t b) const {
    const index_t first = b * piece, last = first + piece < count ? first + piece : count;
    double lane[streams][sum_lanes] = {};
    const auto add                  = [&](int stream, const T* from, index_t some) {
      add_row(lane[stream], some, [from](index_t i) {
        const double v = static_cast<double>(from[i]);
        return v * v;
      });
    };
    const index_t all    = last > first ? last - first : 0;
    const index_t part   = all / (streams * sum_lanes) * sum_lanes;
    const T* const begin = values + first;
    for (index_t i = 0; i < part; i += sum_lanes)
      for (int s = 0; s < streams; ++s) {
        const T* const from = begin + s * part + i;
#if defined(__GNUC__)
        for (index_t l = 0; l < sum_lanes; l += line) __builtin_prefetch(from + ahead + l);
#endif
        add(s, from, sum_lanes);
      }
    add(0, begin + streams * part, all - streams * part);
    double sum = 0.0;
    for (int s = 0; s < streams; ++s) sum += add_lanes(lane[s]);
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
  launch_values("shard::adam", space, count,
                AdamKernel<T>{values, gradients, mean, square, AdamFormula<T>(step)});
}

template <class Space, class T>
void OptimiserKernels<Space, T>::sgd(const Space& space, T* values, const T* gradients, T* velocity,
                                     index_t count, const SgdStep& step) {
  launch_values("shard::sgd", space, count, SgdKernel<T>(values, gradients, velocity, step));
}

template <class Space, class T>
void OptimiserKernels<Space, T>::scale(const Space& space, T* values, index_t count,
                                       double factor) {
  launch_values("shard::scale gradients", space, count, ScaleGradientsKernel<T>{values, factor});
}

template <class Space, class T>
void OptimiserKernels<Space, T>::average(const Space& space, T* average, const T* values,
                                         index_t count, double rate) {
  launch_values("shard::average", space, count,
                AverageKernel<T>{average, values, static_cast<T>(rate)});
}

template <class Space, class T>
void OptimiserKernels<Space, T>::swap(const Space& space, T* some, T* others, index_t count) {
  launch_values("shard::swap values", space, count, SwapValuesKernel<T>{some, others});
}

template <class Space, class T>
void OptimiserKernels<Space, T>::squares(const Space& space, double* sums, const T* values,
                                         index_t count) {
  const index_t blocks = sum_blocks(count);
  if constexpr (is_host_space_v<Space>)
    launch("shard::squares", space, blocks,
           SquaresPieces<T>{sums, values, count, blocks > 0 ? (count + blocks - 1) / blocks : 0});
  else
    launch("shard::squares", space, blocks, SquaresKernel<T>{sums, values, count, blocks});
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
