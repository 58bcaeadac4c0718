// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_VENDOR_PRODUCT_HPP
#define SHARD_SRC_LAYERS_VENDOR_PRODUCT_HPP

#include <algorithm>
#include <optional>

#include "product.hpp"

namespace shard::impl {

/// A merged dimension as two: element i is at i / inner * outer_step + i % inner * step.
struct TwoSteps {
  index_t step = 1, outer_step = 0;

  static Offsets without_ones(const Offsets& o) {
    Offsets result;
    for (int d = 0; d < o.dims; ++d)
      if (o.extent[d] != 1) result.append(o.extent[d], o.stride[d]);
    return result;
  }
  /// The largest inner extent with which both have two steps.
  static index_t inner(const Offsets& a, const Offsets& b) {
    index_t extent = a.count();
    for (const Offsets& o : {without_ones(a), without_ones(b)})
      if (o.dims > 1) extent = std::min(extent, o.extent[o.dims - 1]);
    return extent;
  }
  static std::optional<TwoSteps> of(const Offsets& offsets, index_t inner) {
    const Offsets o = without_ones(offsets);
    if (o.dims == 0) return TwoSteps{};
    if (o.dims == 1) return TwoSteps{o.stride[0], inner * o.stride[0]};
    if (o.dims == 2 && o.extent[1] == inner) return TwoSteps{o.stride[1], o.stride[0]};
    return std::nullopt;
  }
};

/// A Product as vendors' libraries describe it: d = start + a b with column-major matrices, for a
/// batch of them.
struct VendorProduct {
  /// Column-major, or the transpose of a column-major matrix.
  struct Factor {
    const float* origin = nullptr;
    bool transposed     = false;
    index_t leading     = 1;  ///< from one column in memory to the next
    index_t batch       = 0;  ///< from one matrix to the next
  };
  /// More products that add to the same d aren't worth their calls.
  static constexpr index_t most_sums = 64;

  Factor a, b;
  float* d          = nullptr;
  index_t leading_d = 1, batch_d = 0;
  index_t c_column = 1;         ///< the Product's step of j within a matrix
  index_t m = 0, n = 0, k = 0;  ///< d has m rows and n columns
  index_t count     = 1;        ///< products
  bool sums         = false;    ///< the products add to one d
  bool add          = false;    ///< they add to the values of d
  const float* bias = nullptr;  ///< start of each row of d

  /// The library's description of a product, or nothing if the strides have none. Where it has no
  /// `bias`, the caller sets d to the start and sets `add`.
  static std::optional<VendorProduct> of(const Product<float>& p) {
    if (std::min({p.rows, p.columns, p.terms}) < 1) return std::nullopt;
    const index_t columns = TwoSteps::inner(p.c_column, p.b_column),
                  terms   = TwoSteps::inner(p.a_term, p.b_term);
    const auto c_column   = TwoSteps::of(p.c_column, columns),
               b_column   = TwoSteps::of(p.b_column, columns);
    const auto a_term = TwoSteps::of(p.a_term, terms), b_term = TwoSteps::of(p.b_term, terms);
    const index_t batch = p.columns / columns, sums = p.terms / terms;
    if (!c_column || !b_column || !a_term || !b_term || (batch > 1 && sums > 1) || sums > most_sums)
      return std::nullopt;
    VendorProduct v;
    v.k        = terms;
    v.count    = batch * sums;
    v.sums     = sums > 1;
    v.add      = p.add;
    v.d        = p.c;
    v.batch_d  = batch > 1 ? c_column->outer_step : 0;
    v.c_column = c_column->step;
    auto left  = factor(p.a, p.rows, terms, p.a_row, a_term->step),
         right = factor(p.b, terms, columns, b_term->step, b_column->step);
    if (!left || !right) return std::nullopt;
    left->batch  = v.sums ? a_term->outer_step : 0;
    right->batch = v.sums ? b_term->outer_step : batch > 1 ? b_column->outer_step : 0;
    if (p.c_row == 1 && c_column->step >= p.rows) {
      v.a = *left, v.b = *right;
      v.m = p.rows, v.n = columns;
      v.leading_d = c_column->step;
      if (!p.add && !v.sums && p.start_row == 1) v.bias = p.start;
    } else if (c_column->step == 1 && p.c_row >= columns) {  // the transpose: d' = b' a'
      v.a = *right, v.b = *left;
      v.a.transposed = !right->transposed;
      v.b.transposed = !left->transposed;
      v.m = columns, v.n = p.rows;
      v.leading_d = p.c_row;
    } else {
      return std::nullopt;
    }
    return v;
  }

 private:
  /// Element (i, j) of `rows` x `columns` is at origin[i * row + j * column].
  static std::optional<Factor> factor(const float* origin, index_t rows, index_t columns,
                                      index_t row, index_t column) {
    if (row == 1 && column >= rows) return Factor{origin, false, column, 0};
    if (column == 1 && row >= columns) return Factor{origin, true, row, 0};
    return std::nullopt;
  }
};

}  // namespace shard::impl

#endif
