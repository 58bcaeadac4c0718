// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_PRODUCT_TILE_HPP
#define SHARD_SRC_LAYERS_PRODUCT_TILE_HPP

#include <cstring>
#include <type_traits>
#include <utility>

#include "lanes.hpp"

namespace shard::impl {

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
  // Fold expressions instead of loops, so that compilers keep the accumulators in registers.
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

}  // namespace shard::impl

#endif
