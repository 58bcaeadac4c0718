// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_NORM_ROWS_HPP
#define SHARD_SRC_LAYERS_NORM_ROWS_HPP

#include <type_traits>

#include "launch.hpp"
#include "norm_slope.hpp"
#include "row_sums.hpp"
#include "shard/layers/impl/norm_kernels.hpp"

/// \file
/// The norms of a host: a work item has a row of cells, or all rows of a channel.

namespace shard::impl {

/// The weight of a row of cells.
KOKKOS_FORCEINLINE_FUNCTION double row_weight(const NormRows& rows, index_t z, index_t y) {
  return rows.weights == nullptr ? 1.0 : rows.weights[rows.dim == 0 ? z : y];
}

/// True if each cell of a line has a weight of its own.
KOKKOS_FORCEINLINE_FUNCTION bool weighs_cells(const NormRows& rows) {
  return rows.weights != nullptr && rows.dim == 2;
}

/// A value of a row times the weight of the row.
template <class T>
struct RowValue {
  const T* row;
  index_t step;
  double weight;
  KOKKOS_FUNCTION double operator()(index_t i) const {
    return weight * static_cast<double>(row[i * step]);
  }
};

/// A value of a row times the weight of its cell.
template <class T>
struct CellValue {
  const T* row;
  index_t step;
  const double* weights;
  KOKKOS_FUNCTION double operator()(index_t i) const {
    return weights[i] * static_cast<double>(row[i * step]);
  }
};

template <class T>
struct NormMomentsRows {
  static constexpr int streams = 4;
  double* moments;
  Block<const T> x;
  NormRows rows;

  struct SquaredDifference {
    const T* row;
    index_t step;
    double weight, mean;
    KOKKOS_FUNCTION double operator()(index_t i) const {
      const double d = static_cast<double>(row[i * step]) - mean;
      return weight * (d * d);
    }
  };
  struct WeighedSquaredDifference {
    const T* row;
    index_t step;
    const double* weights;
    double mean;
    KOKKOS_FUNCTION double operator()(index_t i) const {
      const double d = static_cast<double>(row[i * step]) - mean;
      return weights[i] * (d * d);
    }
  };

  KOKKOS_FUNCTION double total() const {
    double sum       = 0.0;
    const index_t of = x.end[rows.dim];
    for (index_t r = 0; r < of; ++r) sum += rows.weights[r];
    return of > 0 ? sum * static_cast<double>(x.cells() / of) : 0.0;
  }

  struct Difference {
    const T* row;
    index_t step;
    double from;
    KOKKOS_FUNCTION double operator()(index_t i) const {
      return static_cast<double>(row[i * step]) - from;
    }
  };

  /// Without weights: the sums of x - p and (x - p)^2 in one pass, p the mean of the first of R
  /// rows. (mean - p)^2 is at most R times the variance, so few digits cancel.
  void add_unweighted(index_t item) const {
    const index_t n = item / x.channels, c = item % x.channels, step = x.stride[4];
    const auto count        = static_cast<double>(x.cells());
    double shift[sum_lanes] = {}, sum[sum_lanes] = {}, squares[sum_lanes] = {};
    if (count > 0) add_row(shift, x.end[2], Difference{&x.at(n, c, 0, 0, 0), step, 0.0});
    const double pivot    = count > 0 ? add_lanes(shift) / static_cast<double>(x.end[2]) : 0.0;
    const index_t quarter = x.end[1] / streams;
    for (index_t z = 0; z < x.end[0]; ++z) {
      for (index_t y = 0; y < quarter; ++y) {
        const T* const first = &x.at(n, c, z, y, 0);
        const index_t apart  = quarter * x.stride[3];
        if (step == 1)
          add_streams(std::integral_constant<index_t, 1>(), first, apart, pivot, sum, squares);
        else
          add_streams(step, first, apart, pivot, sum, squares);
      }
      for (index_t y = streams * quarter; y < x.end[1]; ++y) {
        const T* const row = &x.at(n, c, z, y, 0);
        add_row(sum, x.end[2], Difference{row, step, pivot});
        add_row(squares, x.end[2], SquaredDifference{row, step, 1.0, pivot});
      }
    }
    const double off      = count > 0 ? add_lanes(sum) / count : 0.0;
    const double rest     = add_lanes(squares) - off * off * count;
    moments[3 * item]     = count;
    moments[3 * item + 1] = pivot + off;
    moments[3 * item + 2] = rest < 0.0 ? 0.0 : rest;
  }

  /// Adds rows that are `apart`, a few values of each in turn, because one stream of loads uses a
  /// part of a core's bandwidth only. `Step`: a constant for contiguous cells.
  template <class Step>
  void add_streams(Step step, const T* first, index_t apart, double pivot, double* sum,
                   double* squares) const {
    const index_t whole = x.end[2] - x.end[2] % sum_lanes;
    for (index_t i = 0; i < whole; i += sum_lanes)
      for (int s = 0; s < streams; ++s) {
        const T* const row = first + s * apart + i * step;
#if defined(__GNUC__)
        constexpr index_t line = 64 / static_cast<index_t>(sizeof(T));
        for (index_t l = 0; l < sum_lanes; l += line) __builtin_prefetch(row + 16 * line + l);
#endif
        add_row(sum, sum_lanes, Difference{row, step, pivot});
        add_row(squares, sum_lanes, SquaredDifference{row, step, 1.0, pivot});
      }
    for (int s = 0; s < streams; ++s) {
      const T* const row = first + s * apart + whole * step;
      add_row(sum, x.end[2] - whole, Difference{row, step, pivot});
      add_row(squares, x.end[2] - whole, SquaredDifference{row, step, 1.0, pivot});
    }
  }

  void operator()(index_t item) const {
    if (rows.weights == nullptr) return add_unweighted(item);
    const index_t n = item / x.channels, c = item % x.channels, step = x.stride[4];
    const double weight   = total();
    double sum[sum_lanes] = {}, squares[sum_lanes] = {};
    for (index_t z = 0; z < x.end[0]; ++z)
      for (index_t y = 0; y < x.end[1]; ++y)
        if (weighs_cells(rows))
          add_row(sum, x.end[2], CellValue<T>{&x.at(n, c, z, y, 0), step, rows.weights});
        else
          add_row(sum, x.end[2], RowValue<T>{&x.at(n, c, z, y, 0), step, row_weight(rows, z, y)});
    const double mean = weight > 0.0 ? add_lanes(sum) / weight : 0.0;
    for (index_t z = 0; z < x.end[0]; ++z)
      for (index_t y = 0; y < x.end[1]; ++y)
        if (weighs_cells(rows))
          add_row(squares, x.end[2],
                  WeighedSquaredDifference{&x.at(n, c, z, y, 0), step, rows.weights, mean});
        else
          add_row(squares, x.end[2],
                  SquaredDifference{&x.at(n, c, z, y, 0), step, row_weight(rows, z, y), mean});
    moments[3 * item]     = weight;
    moments[3 * item + 1] = mean;
    moments[3 * item + 2] = add_lanes(squares);
  }
};

template <class T>
struct NormApplyRows {
  RowSplit split;
  Block<T> to;
  Block<const T> from;
  const double* statistics;
  const T* weight;
  const T* bias;
  NormGroups groups;

  void operator()(index_t item) const {
    const auto r    = split.row(item);
    const double* s = statistics + statistics_per_slot * groups.slot(r.n, r.c);
    const T mean    = static_cast<T>(s[0]);
    const T scale =
        static_cast<T>(weight == nullptr ? s[1] : s[1] * static_cast<double>(weight[r.c]));
    const T shift   = bias == nullptr ? T(0) : bias[r.c];
    T* y            = &to.at(r.n, r.c, r.z, r.y, r.x);
    const T* x      = &from.at(r.n, r.c, r.z, r.y, r.x);
    const index_t p = to.stride[4], q = from.stride[4];
    if (p == 1 && q == 1)
      for (index_t i = 0; i < r.count; ++i) y[i] = (x[i] - mean) * scale + shift;
    else
      for (index_t i = 0; i < r.count; ++i) y[i * p] = (x[i * q] - mean) * scale + shift;
  }
};

template <class T>
struct NormPairSumsRows {
  double* sums;
  Block<const T> a, x;
  const double* statistics;
  NormGroups groups;
  NormRows rows;

  struct Product {
    const T *a, *x;
    index_t a_step, x_step;
    double weight, mean, rstd;
    KOKKOS_FUNCTION double operator()(index_t i) const {
      return weight * static_cast<double>(a[i * a_step]) *
             ((static_cast<double>(x[i * x_step]) - mean) * rstd);
    }
  };
  struct WeighedProduct {
    const T *a, *x;
    index_t a_step, x_step;
    const double* weights;
    double mean, rstd;
    KOKKOS_FUNCTION double operator()(index_t i) const {
      return weights[i] * static_cast<double>(a[i * a_step]) *
             ((static_cast<double>(x[i * x_step]) - mean) * rstd);
    }
  };

  void operator()(index_t item) const {
    const index_t n = item / x.channels, c = item % x.channels;
    const double* s         = statistics + statistics_per_slot * groups.slot(n, c);
    double first[sum_lanes] = {}, second[sum_lanes] = {};
    for (index_t z = 0; z < x.end[0]; ++z)
      for (index_t y = 0; y < x.end[1]; ++y) {
        const T *p = &a.at(n, c, z, y, 0), *q = &x.at(n, c, z, y, 0);
        const index_t p_step = a.stride[4], q_step = x.stride[4];
        if (weighs_cells(rows)) {
          add_row(first, x.end[2], CellValue<T>{p, p_step, rows.weights});
          add_row(second, x.end[2], WeighedProduct{p, q, p_step, q_step, rows.weights, s[0], s[1]});
        } else {
          const double w = row_weight(rows, z, y);
          add_row(first, x.end[2], RowValue<T>{p, p_step, w});
          add_row(second, x.end[2], Product{p, q, p_step, q_step, w, s[0], s[1]});
        }
      }
    sums[2 * item]     = add_lanes(first);
    sums[2 * item + 1] = add_lanes(second);
  }
};

template <class T>
struct NormDerivativeRows {
  RowSplit split;
  Block<T> to;
  Block<const T> from, x;
  NormSlope<T> slope;

  void operator()(index_t item) const {
    const auto r        = split.row(item);
    const NormRows rows = slope.rows;
    const auto by       = slope.channel(r.n, r.c);
    const T mean = by.mean, scale = by.scale;
    T* out          = &to.at(r.n, r.c, r.z, r.y, r.x);
    const T* in     = &from.at(r.n, r.c, r.z, r.y, r.x);
    const T* value  = &x.at(r.n, r.c, r.z, r.y, r.x);
    const index_t p = to.stride[4], q = from.stride[4], s = x.stride[4];
    if (weighs_cells(rows)) {
      const double* row = rows.weights + r.x;
      for (index_t i = 0; i < r.count; ++i)
        out[i * p] =
            scale * in[i * q] -
            static_cast<T>(row[i] * (by.b + by.c * static_cast<double>(value[i * s] - mean)));
      return;
    }
    const double row = row_weight(rows, r.z, r.y);
    const T flat = static_cast<T>(row * by.b), steep = static_cast<T>(row * by.c);
    if (p == 1 && q == 1 && s == 1)
      for (index_t i = 0; i < r.count; ++i)
        out[i] = scale * in[i] - flat - steep * (value[i] - mean);
    else
      for (index_t i = 0; i < r.count; ++i)
        out[i * p] = scale * in[i * q] - flat - steep * (value[i * s] - mean);
  }
};

}  // namespace shard::impl

#endif
