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
  static constexpr int vectors = 3;
  static constexpr int columns = vectors * lanes;
};

/// Where row r of a panel begins: so many values after the one before.
struct EvenRows {
  index_t step;
  index_t operator()(index_t r) const { return r * step; }
};
/// The same from a list.
struct ListedRows {
  const index_t* offsets;
  index_t operator()(index_t r) const { return offsets[r]; }
};

/// sums[m][j] += a[m * a_row + a_offset[r]] * b[b_offset(r) + j] for r = 0, 1, ..., count - 1 in
/// this order; M rows, j < Vectors * lanes.
template <int M, int Vectors, class T, class Rows>
void multiply_add(const T* a, index_t a_row, const index_t* a_offset, const T* b,
                  const Rows& b_offset, index_t count, T* sums) {
  constexpr int lanes = Tile<T>::lanes, columns = Tile<T>::columns;
  Lanes<T> s[M][Vectors];
  for (int m = 0; m < M; ++m)
    for (int h = 0; h < Vectors; ++h)
      s[m][h] = *reinterpret_cast<const Lanes<T>*>(sums + m * columns + h * lanes);
  for (index_t r = 0; r < count; ++r) {
    const T *ar = a + a_offset[r], *br = b + b_offset(r);
    Lanes<T> bs[Vectors];
    for (int h = 0; h < Vectors; ++h) bs[h] = *reinterpret_cast<const Lanes<T>*>(br + h * lanes);
    for (int m = 0; m < M; ++m) {
      const T w = ar[m * a_row];
      for (int h = 0; h < Vectors; ++h) s[m][h] += w * bs[h];
    }
  }
  for (int m = 0; m < M; ++m)
    for (int h = 0; h < Vectors; ++h)
      *reinterpret_cast<Lanes<T>*>(sums + m * columns + h * lanes) = s[m][h];
}

/// The same for any number of rows.
template <int Vectors, class T, class Rows>
void multiply_add_blocks(index_t rows, const T* a, index_t a_row, const index_t* a_offset,
                         const T* b, const Rows& b_offset, index_t count, T* sums) {
  constexpr int block = Tile<T>::rows, columns = Tile<T>::columns;
  index_t m = 0;
  for (; m + block <= rows; m += block)
    multiply_add<block, Vectors>(a + m * a_row, a_row, a_offset, b, b_offset, count,
                                 sums + m * columns);
  for (; m + 2 <= rows; m += 2)
    multiply_add<2, Vectors>(a + m * a_row, a_row, a_offset, b, b_offset, count,
                             sums + m * columns);
  for (; m < rows; ++m)
    multiply_add<1, Vectors>(a + m * a_row, a_row, a_offset, b, b_offset, count,
                             sums + m * columns);
}

/// The same; of the columns the first `used` are wanted, the others may be left as they are.
template <class T, class Rows>
void multiply_add_rows(index_t rows, index_t used, const T* a, index_t a_row,
                       const index_t* a_offset, const T* b, const Rows& b_offset, index_t count,
                       T* sums) {
  static_assert(Tile<T>::vectors == 3, "each number of vectors has its case");
  if (used > 2 * Tile<T>::lanes)
    multiply_add_blocks<3>(rows, a, a_row, a_offset, b, b_offset, count, sums);
  else if (used > Tile<T>::lanes)
    multiply_add_blocks<2>(rows, a, a_row, a_offset, b, b_offset, count, sums);
  else
    multiply_add_blocks<1>(rows, a, a_row, a_offset, b, b_offset, count, sums);
}

}  // namespace shard::impl

#endif
