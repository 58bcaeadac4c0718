// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_SPARSE_KERNELS_HPP
#define SHARD_SOLVE_IMPL_SPARSE_KERNELS_HPP

#include <Kokkos_Core.hpp>

#include "shard/base/types.hpp"

namespace shard::impl {

KOKKOS_FORCEINLINE_FUNCTION float conjugate(float x) { return x; }
KOKKOS_FORCEINLINE_FUNCTION double conjugate(double x) { return x; }
template <class T>
KOKKOS_FORCEINLINE_FUNCTION Kokkos::complex<T> conjugate(const Kokkos::complex<T>& x) {
  return {x.real(), -x.imag()};
}

/// y = the sum of value x over entries of a row, at every index of the inner dimension. A work item
/// is a row on a host, a row and an inner index on a device.
template <class T, bool Lines>
struct SparseRowsKernel {
  const index_t* row_begin;
  const int* column;
  const index_t* entry;  ///< of the values, which are conjugated; null: as the columns
  const T* value;
  const int* rows;  ///< which; null: all
  const T* x;
  T* y;
  index_t x_row, x_inner, y_row, y_inner, inner;  ///< strides, and the inner extent

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t i   = Lines ? item : item / inner;
    const index_t row = rows == nullptr ? i : rows[i];
    if (Lines && inner == 1) {
      y[row * y_row] = one(row, 0);
    } else if constexpr (Lines) {
      for (index_t k = 0; k < inner; ++k) y[row * y_row + k * y_inner] = T(0);
      for (index_t e = row_begin[row]; e < row_begin[row + 1]; ++e) {
        const T v           = at(e);
        const T* const from = x + column[e] * x_row;
        for (index_t k = 0; k < inner; ++k) y[row * y_row + k * y_inner] += v * from[k * x_inner];
      }
    } else {
      const index_t k              = item % inner;
      y[row * y_row + k * y_inner] = one(row, k);
    }
  }

 private:
  /// The sum of a row at one inner index, in a register.
  KOKKOS_FORCEINLINE_FUNCTION T one(index_t row, index_t k) const {
    const T* const from = x + k * x_inner;
    const index_t begin = row_begin[row], end = row_begin[row + 1];
    T sum = T(0);
    if (entry == nullptr) {
      if constexpr (Lines) prefetch(begin, end);
      for (index_t e = begin; e < end; ++e) sum += value[e] * from[column[e] * x_row];
    } else {
      for (index_t e = begin; e < end; ++e)
        sum += conjugate(value[entry[e]]) * from[column[e] * x_row];
    }
    return sum;
  }
  /// Software prefetching of what later rows read, as much as this row has: the processor's own
  /// reaches less of the memory's bandwidth (benchmarks/solve).
  KOKKOS_FORCEINLINE_FUNCTION void prefetch(index_t begin, index_t end) const {
    KOKKOS_IF_ON_HOST((prefetch_lines(value, begin, end); prefetch_lines(column, begin, end);))
  }
  template <class V>
  static void prefetch_lines(const V* array, index_t begin, index_t end) {
    constexpr index_t ahead = 256;  // entries
    for (index_t e = begin; e < end; e += static_cast<index_t>(64 / sizeof(V)))
      __builtin_prefetch(array + (e + ahead));
  }
  KOKKOS_FORCEINLINE_FUNCTION T at(index_t e) const {
    return entry == nullptr ? value[e] : conjugate(value[entry[e]]);
  }
};

/// dvalue += scale y x' at the entries, summed over the inner dimension.
template <class T>
struct SparseGradientKernel {
  const index_t* row_begin;
  const int* column;
  T* dvalue;
  const T* y;
  const T* x;
  index_t x_row, x_inner, y_row, y_inner, inner;
  double scale;

  KOKKOS_FUNCTION void operator()(index_t row) const {
    for (index_t e = row_begin[row]; e < row_begin[row + 1]; ++e) {
      T sum = T(0);
      for (index_t k = 0; k < inner; ++k)
        sum += y[row * y_row + k * y_inner] * x[column[e] * x_row + k * x_inner];
      dvalue[e] += static_cast<T>(scale) * sum;
    }
  }
};

/// d = the entry of each row in its own column.
template <class T>
struct DiagonalKernel {
  const index_t* row_begin;
  const int* column;
  const T* value;
  T* d;
  index_t stride;

  KOKKOS_FUNCTION void operator()(index_t row) const {
    T found = T(0);
    for (index_t e = row_begin[row]; e < row_begin[row + 1]; ++e)
      if (column[e] == row) found = value[e];
    d[row * stride] = found;
  }
};

}  // namespace shard::impl

#endif
