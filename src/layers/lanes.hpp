// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_LANES_HPP
#define SHARD_SRC_LAYERS_LANES_HPP

#include <cmath>

#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "shard/base/impl/fused.hpp"
#include "shard/base/types.hpp"

namespace shard::impl {

// Uses the compiler's vector extension if there is one: not every compiler has small arrays in
// registers.
#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
#elif defined(__AVX__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif

#if defined(__GNUC__) && !defined(__CUDACC__)
template <class T>
struct LanesOf {
  typedef T type __attribute__((vector_size(vector_bytes), aligned(sizeof(T)), may_alias));
};
template <class T>
using Lanes = typename LanesOf<T>::type;
#else
template <class T>
struct Lanes {
  T v[vector_bytes / sizeof(T)];
  friend Lanes operator*(T a, const Lanes& b) {
    Lanes c;
    for (int i = 0; i < static_cast<int>(vector_bytes / sizeof(T)); ++i) c.v[i] = a * b.v[i];
    return c;
  }
  friend Lanes operator*(const Lanes& a, const Lanes& b) {
    Lanes c;
    for (int i = 0; i < static_cast<int>(vector_bytes / sizeof(T)); ++i) c.v[i] = a.v[i] * b.v[i];
    return c;
  }
  Lanes& operator+=(const Lanes& b) {
    for (int i = 0; i < static_cast<int>(vector_bytes / sizeof(T)); ++i) v[i] += b.v[i];
    return *this;
  }
};
#endif

/// sum += a * b with the rounding of multiplied_and_added, for each value: with an explicit fused
/// multiply-add where the machine has it.
template <class T>
inline void add_products(Lanes<T>& sum, const Lanes<T>& a, const Lanes<T>& b) {
#if defined(__FMA__) && defined(__GNUC__) && !defined(__CUDACC__) && defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    sum = (Lanes<T>)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)sum);
  else
    sum = (Lanes<T>)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)sum);
#elif defined(__FMA__) && defined(__GNUC__) && !defined(__CUDACC__)
  if constexpr (sizeof(T) == 4)
    sum = (Lanes<T>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)sum);
  else
    sum = (Lanes<T>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)sum);
#elif defined(__ARM_FEATURE_FMA) && defined(__GNUC__) && !defined(__CUDACC__)
  for (int i = 0; i < vector_bytes / static_cast<int>(sizeof(T)); ++i)
    sum[i] = multiplied_and_added<T>(sum[i], a[i], b[i]);
#else
  sum += a * b;
#endif
}
/// The same with one factor for all values.
template <class T>
inline void add_product(Lanes<T>& sum, T a, const Lanes<T>& b) {
#if defined(__GNUC__) && !defined(__CUDACC__)
  add_products<T>(sum, a - Lanes<T>{}, b);  // subtracting zero keeps the sign of a zero
#else
  sum += a * b;
#endif
}

/// The values of a cache line.
template <class T>
inline constexpr index_t line_values = 64 / static_cast<index_t>(sizeof(T));

/// Prefetches a cache line to read or (`Write`) to write it.
template <bool Write = false, class T>
inline void prefetch([[maybe_unused]] const T* at) {
#if defined(__GNUC__)
  __builtin_prefetch(at, Write ? 1 : 0);
#endif
}

/// Interleaves lines of values: transposes as many lines as a vector of 16 bytes has values.
template <class T>
struct Interleaved {
  static constexpr int lines = 16 / static_cast<int>(sizeof(T));

  /// to[i * step + l] = from[l][i] for i < length.
  static void copy(const T* const* from, index_t length, T* to, index_t step) {
    index_t i = 0;
#if defined(__SSE2__)
    for (; i + lines <= length; i += lines) square(from, i, to + i * step, step);
#endif
    for (; i < length; ++i)
      for (int l = 0; l < lines; ++l) to[i * step + l] = from[l][i];
  }

  /// to[l * step + i] = from[i * lines + l] for i < length.
  static void divide(const T* from, index_t length, T* to, index_t step) {
    index_t i = 0;
#if defined(__SSE2__)
    for (; i + lines <= length; i += lines) {
      const T* of[lines];
      for (int l = 0; l < lines; ++l) of[l] = from + (i + l) * lines;
      square(of, 0, to + i, step);
    }
#endif
    for (; i < length; ++i)
      for (int l = 0; l < lines; ++l) to[l * step + i] = from[i * lines + l];
  }

#if defined(__SSE2__)
 private:
  static void square(const float* const* from, index_t i, float* to, index_t step) {
    __m128 a = _mm_loadu_ps(from[0] + i), b = _mm_loadu_ps(from[1] + i),
           c = _mm_loadu_ps(from[2] + i), d = _mm_loadu_ps(from[3] + i);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(to, a);
    _mm_storeu_ps(to + step, b);
    _mm_storeu_ps(to + 2 * step, c);
    _mm_storeu_ps(to + 3 * step, d);
  }
  static void square(const double* const* from, index_t i, double* to, index_t step) {
    const __m128d a = _mm_loadu_pd(from[0] + i), b = _mm_loadu_pd(from[1] + i);
    _mm_storeu_pd(to, _mm_unpacklo_pd(a, b));
    _mm_storeu_pd(to + step, _mm_unpackhi_pd(a, b));
  }
#endif
};

/// Square roots in place, correctly rounded. Compilers don't vectorise the C library's, which may
/// set errno.
inline void square_roots(float* values, index_t count) {
  index_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= count; i += 16)
    _mm512_storeu_ps(values + i, _mm512_sqrt_ps(_mm512_loadu_ps(values + i)));
#elif defined(__AVX__)
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(values + i, _mm256_sqrt_ps(_mm256_loadu_ps(values + i)));
#elif defined(__SSE2__)
  for (; i + 4 <= count; i += 4) _mm_storeu_ps(values + i, _mm_sqrt_ps(_mm_loadu_ps(values + i)));
#endif
  for (; i < count; ++i) values[i] = std::sqrt(values[i]);
}
inline void square_roots(double* values, index_t count) {
  index_t i = 0;
#if defined(__AVX512F__)
  for (; i + 8 <= count; i += 8)
    _mm512_storeu_pd(values + i, _mm512_sqrt_pd(_mm512_loadu_pd(values + i)));
#elif defined(__AVX__)
  for (; i + 4 <= count; i += 4)
    _mm256_storeu_pd(values + i, _mm256_sqrt_pd(_mm256_loadu_pd(values + i)));
#elif defined(__SSE2__)
  for (; i + 2 <= count; i += 2) _mm_storeu_pd(values + i, _mm_sqrt_pd(_mm_loadu_pd(values + i)));
#endif
  for (; i < count; ++i) values[i] = std::sqrt(values[i]);
}

}  // namespace shard::impl

#endif
