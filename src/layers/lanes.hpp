// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_LANES_HPP
#define SHARD_SRC_LAYERS_LANES_HPP

#include "shard/base/types.hpp"

namespace shard::impl {

// The compiler's own vectors where it has them: loops over small arrays are kept in registers by
// some compilers in some sizes only.
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
  Lanes& operator+=(const Lanes& b) {
    for (int i = 0; i < static_cast<int>(vector_bytes / sizeof(T)); ++i) v[i] += b.v[i];
    return *this;
  }
};
#endif

/// A tile of products: `rows` rows of `columns` values, so many that the sums stay in registers.
template <class T>
struct Tile {
  static constexpr int lanes   = vector_bytes / static_cast<int>(sizeof(T));
  static constexpr int rows    = vector_bytes == 64 ? 8 : 4;
  static constexpr int columns = 2 * lanes;
};

/// sums[m][j] += a[m * a_row + a_offset[r]] * b[r * b_row + j] for r = 0, 1, ..., count - 1
/// in this order; M rows.
template <int M, class T>
void multiply_add(const T* a, index_t a_row, const index_t* a_offset, const T* b, index_t b_row,
                  index_t count, T* sums) {
  constexpr int lanes = Tile<T>::lanes, columns = Tile<T>::columns;
  Lanes<T> s[M][2];
  for (int m = 0; m < M; ++m)
    for (int h = 0; h < 2; ++h)
      s[m][h] = *reinterpret_cast<const Lanes<T>*>(sums + m * columns + h * lanes);
  for (index_t r = 0; r < count; ++r) {
    const T* ar       = a + a_offset[r];
    const Lanes<T> b0 = *reinterpret_cast<const Lanes<T>*>(b + r * b_row);
    const Lanes<T> b1 = *reinterpret_cast<const Lanes<T>*>(b + r * b_row + lanes);
    for (int m = 0; m < M; ++m) {
      const T w = ar[m * a_row];
      s[m][0] += w * b0;
      s[m][1] += w * b1;
    }
  }
  for (int m = 0; m < M; ++m)
    for (int h = 0; h < 2; ++h)
      *reinterpret_cast<Lanes<T>*>(sums + m * columns + h * lanes) = s[m][h];
}

/// The same for any number of rows.
template <class T>
void multiply_add_rows(index_t rows, const T* a, index_t a_row, const index_t* a_offset, const T* b,
                       index_t b_row, index_t count, T* sums) {
  constexpr int block = Tile<T>::rows;
  index_t m           = 0;
  for (; m + block <= rows; m += block)
    multiply_add<block>(a + m * a_row, a_row, a_offset, b, b_row, count,
                        sums + m * Tile<T>::columns);
  for (; m + 2 <= rows; m += 2)
    multiply_add<2>(a + m * a_row, a_row, a_offset, b, b_row, count, sums + m * Tile<T>::columns);
  for (; m < rows; ++m)
    multiply_add<1>(a + m * a_row, a_row, a_offset, b, b_row, count, sums + m * Tile<T>::columns);
}

}  // namespace shard::impl

#endif
