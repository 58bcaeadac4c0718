// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_LANES_HPP
#define SHARD_SRC_LAYERS_LANES_HPP

#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

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

/// The tile of products: `rows` rows of `vectors` vectors, whose sums stay in registers. AVX-512
/// has 32 registers, others have 16. A panel has `columns` values in a row: one tile, or two, which
/// use the same rows of the first operand one after the other.
template <class T>
struct Tile {
  static constexpr int lanes   = vector_bytes / static_cast<int>(sizeof(T));
  static constexpr int rows    = vector_bytes == 64 ? 8 : 6;
  static constexpr int vectors = vector_bytes == 64 ? 3 : 2;
  static constexpr int columns = (vector_bytes == 64 ? 1 : 2) * vectors * lanes;
};

/// The offset of row r of a panel, for equidistant rows.
struct EvenRows {
  index_t step;
  index_t operator()(index_t r) const { return r * step; }
};
/// The offset of row r from a list.
struct ListedRows {
  const index_t* offsets;
  index_t operator()(index_t r) const { return offsets[r]; }
};

/// The rows that the sums of a tile are written to: the first row, and the values from one row to
/// the next.
template <class T>
struct SumRows {
  static constexpr bool adds_block = false;
  T* begin;
  index_t step;
};
/// The same rows. The products are summed from zero, and the sum is added to the earlier sums:
/// rounding errors grow with the length of a block of terms, not with the number of all terms.
template <class T>
struct BlockSumRows {
  static constexpr bool adds_block = true;
  T* begin;
  index_t step;
};

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

/// Cache lines that the next products read.
template <class T>
struct ReadAhead {
  const T* from          = nullptr;
  const index_t* offsets = nullptr;
  index_t count          = 0;
};
/// Prefetches them a few at a time between the current products, because the processor has few
/// outstanding loads.
template <class T>
struct LinesAhead {
  const T* from;
  const index_t *next, *end;
  index_t each;

  LinesAhead(const ReadAhead<T>& lines, index_t times)
      : from(lines.from),
        next(lines.offsets),
        end(lines.offsets + lines.count),
        each((lines.count + times - 1) / times) {}
  void ask() {
    for (index_t i = 0; i < each && next < end; ++i) prefetch(from + *next++);
  }
};
/// The terms of products between two prefetches.
template <class T>
inline constexpr index_t terms_at_once = 2 * line_values<T>;

/// The first operand of a product. Element (m, r) is begin[m / Tile::rows * piece + m % Tile::rows
/// * row + term(r)]; Terms is EvenRows or ListedRows.
template <class T, class Terms>
struct LeftRows {
  const T* begin;
  index_t row, piece;
  Terms term;

  LeftRows(const T* values, index_t row_step, const Terms& terms)
      : LeftRows(values, row_step, Tile<T>::rows * row_step, terms) {}
  LeftRows(const T* values, index_t row_step, index_t piece_step, const Terms& terms)
      : begin(values), row(row_step), piece(piece_step), term(terms) {}

  const T* at(index_t m) const {
    return begin + m / Tile<T>::rows * piece + m % Tile<T>::rows * row;
  }
  /// Prefetches the next terms_at_once terms of M rows, if they or the packed rows are contiguous.
  template <int M>
  void ask(index_t first, index_t r) const {
    const T* const from = at(first) + term(r);
    const index_t step  = row == 1 ? 2 * line_values<T> : row;
    for (int i = 0; i < M; ++i) {
      prefetch(from + i * step);
      prefetch(from + i * step + line_values<T>);
    }
  }
};

/// The values of a packed piece: an odd number of lines, so that pieces are in different sets.
template <class T>
index_t piece_values(index_t terms) {
  return (terms * Tile<T>::rows / line_values<T> | 1) * line_values<T> + 2 * line_values<T>;
}
template <class T>
index_t packed_values(index_t rows, index_t terms) {
  return (rows + Tile<T>::rows - 1) / Tile<T>::rows * piece_values<T>(terms);
}

/// Rows that packed_rows has packed.
template <class T>
LeftRows<T, EvenRows> packed_left(const T* packed, index_t terms) {
  return {packed, 1, piece_values<T>(terms), EvenRows{Tile<T>::rows}};
}

/// Packs rows to pieces of a tile's rows, because terms that are far apart evict one another from
/// the cache. Element (m, r) is from[m * row + offset[r]].
template <class T>
LeftRows<T, EvenRows> packed_rows(const T* from, index_t rows, index_t row, const index_t* offset,
                                  index_t count, T* packed) {
  constexpr int some  = Tile<T>::rows;
  const index_t piece = piece_values<T>(count);
  // A few pieces at a time: stores in sequence, and each line of a term is read once.
  constexpr index_t pieces = 4;
  const auto copy          = [&](index_t begin, index_t number) {
    for (index_t r = 0; r < count; ++r) {
      const T* const term = from + offset[r] + begin;
      T* const to         = packed + begin / some * piece + r * some;
      for (index_t i = 0; i < number; ++i)
        std::memcpy(to + i * piece, term + i * some, some * sizeof(T));
    }
  };
  index_t m = 0;
  for (; row == 1 && m + pieces * some <= rows; m += pieces * some) copy(m, pieces);
  for (; row == 1 && m + some <= rows; m += some) copy(m, 1);
  for (; m < rows; ++m)
    for (index_t r = 0; r < count; ++r)
      packed[m / some * piece + r * some + m % some] = from[m * row + offset[r]];
  return packed_left(packed, count);
}

/// to[m][j] = sums[m * sums_row + j] + a(m, r) * b[b_offset(r) + j] for r = 0, 1, ..., count - 1 in
/// this order; M rows from `first` on, j < Vectors * lanes. BlockSumRows add the products
/// first. Between the products it prefetches the rows that it writes, the next rows of a, and a
/// part of `next`.
template <int M, int Vectors, class T, class Terms, class Rows, class To>
void multiply_add(index_t first, const LeftRows<T, Terms>& a, const T* b, const Rows& b_offset,
                  index_t count, const T* sums, index_t sums_row, const To& to,
                  LinesAhead<T>& next) {
  // Fold expressions instead of loops, so that compilers keep the array of sums in registers.
  const auto row_of   = [](auto i) { return i / Vectors; };
  const auto at       = [](auto i) { return i % Vectors * Tile<T>::lanes; };
  const T* const left = a.at(first);
  const T* const from = sums + first * sums_row;
  T* const begin      = to.begin + first * to.step;
  const index_t a_row = a.row;
  const Terms a_term  = a.term;
  [&]<int... I, int... H>(std::integer_sequence<int, I...>, std::integer_sequence<int, H...>) {
    const auto earlier = [&](auto i) {
      return *reinterpret_cast<const Lanes<T>*>(from + row_of(i) * sums_row + at(i));
    };
    Lanes<T> s[] = {To::adds_block ? Lanes<T>{} : earlier(I)...};
    for (index_t r0 = 0, end = 0; r0 < count; r0 = end) {
      end = r0 + terms_at_once<T> < count ? r0 + terms_at_once<T> : count;
      next.ask();
      a.template ask<M>(first + M, r0);
      for (index_t m = r0 / line_values<T>; m < r0 / line_values<T> + 2 && m < M; ++m)
        (prefetch<true>(begin + m * to.step + H * Tile<T>::lanes), ...);
      for (index_t r = r0; r < end; ++r) {
        // a pointer for every third row: the rows between are at its address plus 1 or 2 steps,
        // which needs no addition
        const T* const ar[] = {left + a_term(r), left + a_term(r) + 3 * a_row,
                               left + a_term(r) + 6 * a_row};
        const T* const br   = b + b_offset(r);
        const Lanes<T> bs[] = {*reinterpret_cast<const Lanes<T>*>(br + H * Tile<T>::lanes)...};
        (add_product<T>(s[I], ar[row_of(I) / 3][row_of(I) % 3 * a_row], bs[I % Vectors]), ...);
      }
    }
    if constexpr (To::adds_block) ((s[I] += earlier(I)), ...);
    ((*reinterpret_cast<Lanes<T>*>(begin + row_of(I) * to.step + at(I)) = s[I]), ...);
  }
  (std::make_integer_sequence<int, M * Vectors>(), std::make_integer_sequence<int, Vectors>());
}

/// Calls use(number of vectors), a compile-time number, for values of up to Most vectors.
template <class T, int Most, int Vectors = 1, class Use>
void with_vectors(index_t values, const Use& use) {
  if constexpr (Vectors < Most) {
    if (values > Vectors * Tile<T>::lanes) return with_vectors<T, Most, Vectors + 1>(values, use);
  }
  use(std::integral_constant<int, Vectors>());
}

/// The same for any number of rows and the first `used` columns of a panel; other columns may be
/// unchanged.
template <class T, class Terms, class Rows, class To>
void multiply_add_rows(index_t rows, index_t used, const LeftRows<T, Terms>& a, const T* b,
                       const Rows& b_offset, index_t count, const T* sums, index_t sums_row,
                       const To& to, const ReadAhead<T>& next = {}) {
  constexpr int block = Tile<T>::rows, vectors = Tile<T>::vectors, width = vectors * Tile<T>::lanes;
  const index_t tiles = (rows + block - 1) / block * ((used + width - 1) / width),
                steps = (count + terms_at_once<T> - 1) / terms_at_once<T>;
  LinesAhead<T> ahead(next, tiles * steps + 1);
  const auto some = [&](index_t m, auto n) {
    for (index_t c = 0; c < used; c += width)
      with_vectors<T, vectors>(used - c, [&](auto v) {
        multiply_add<n(), v()>(m, a, b + c, b_offset, count, sums + c, sums_row,
                               To{to.begin + c, to.step}, ahead);
      });
  };
  index_t m = 0;
  for (; m + block <= rows; m += block) some(m, std::integral_constant<int, block>());
  for (; m + 4 <= rows; m += 4) some(m, std::integral_constant<int, 4>());
  for (; m + 2 <= rows; m += 2) some(m, std::integral_constant<int, 2>());
  for (; m < rows; ++m) some(m, std::integral_constant<int, 1>());
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
