// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_ATTENTION_BIAS_KERNELS_HPP
#define SHARD_LAYERS_IMPL_ATTENTION_BIAS_KERNELS_HPP

#include <Kokkos_Core.hpp>

#include "shard/base/types.hpp"
#include "shard/layers/impl/attention_kernels.hpp"
#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// Which value of a table [row][type][head] each pair of tokens of a window reads. The row is a
/// number with one digit for each dimension, the last one fastest. For tokens at i and j of w along
/// a dimension the digit is i - j + w - 1 if that dimension is `relative`, else i + w j.
struct BiasTable {
  index_t tokens[3] = {1, 1, 1};  ///< of a window
  bool relative[3]  = {true, true, true};
  index_t heads = 1, first_head = 0, all_heads = 1;  ///< this rank's, and of the table
  index_t types = 1, all_types = 1;                  ///< this rank's, and of the table
  /// A type is a layer and a row of windows, along the first and the last but one dimension.
  index_t rows_here = 1, first_row = 0, all_rows = 1, first_layer = 0;

  KOKKOS_FUNCTION index_t pairs() const {
    const index_t n = tokens[0] * tokens[1] * tokens[2];
    return n * n;
  }
  KOKKOS_FUNCTION index_t digits(int d) const {
    return relative[d] ? 2 * tokens[d] - 1 : tokens[d] * tokens[d];
  }
  KOKKOS_FUNCTION index_t rows() const { return digits(0) * digits(1) * digits(2); }

  KOKKOS_FUNCTION index_t row(index_t query, index_t key) const {
    index_t row = 0, step = 1;
    for (int d = 2; d >= 0; --d) {
      const index_t w = tokens[d], i = query % w, j = key % w;
      row += step * (relative[d] ? i - j + w - 1 : i + w * j);
      step *= digits(d);
      query /= w;
      key /= w;
    }
    return row;
  }
  /// The pairs of tokens that read one row of the table. Along each dimension they are `count`
  /// consecutive pairs, which begin at these places of the query and of the key.
  struct Pairs {
    index_t query[3], key[3], count[3];
  };
  KOKKOS_FUNCTION Pairs pairs_of(index_t row) const {
    Pairs p{};
    for (int d = 2; d >= 0; --d) {
      const index_t w = tokens[d], digit = row % digits(d), apart = digit - (w - 1);
      row /= digits(d);
      if (relative[d]) {
        p.query[d] = apart > 0 ? apart : 0;
        p.key[d]   = apart > 0 ? 0 : -apart;
        p.count[d] = w - (apart > 0 ? apart : -apart);
      } else {
        p.query[d] = digit % w;
        p.key[d]   = digit / w;
        p.count[d] = 1;
      }
    }
    return p;
  }
  /// The place of a value in the table, for this rank's type and head.
  KOKKOS_FUNCTION index_t at(index_t row, index_t type, index_t head) const {
    const index_t of = (type / rows_here + first_layer) * all_rows + type % rows_here + first_row;
    return (row * all_types + (all_types > 1 ? of : 0)) * all_heads + first_head + head;
  }
};

/// Kernels of tables of biases, compiled in src/layers for float and double. They are asynchronous
/// on `space`.
template <class Space, class T>
struct BiasKernels : RequireLayerKernels<Space> {
  /// values[type][head][query][key] from a table.
  static void expand(const Space& space, T* values, const T* table, const BiasTable& shape);
  /// table += the sums of the scores' gradients over the pairs that read each value, in double.
  /// They are of `heads` heads; if the table has one for all, over heads too.
  static void collect(const Space& space, T* table, const BiasSums<T>& sums, index_t heads,
                      const BiasTable& shape);
  /// y = most / (1 + exp(-x))
  static void bound(const Space& space, T* y, const T* x, index_t count, double most);
  /// b = a dy/dx of bound
  static void bound_derivative(const Space& space, T* b, const T* a, const T* y, index_t count,
                               double most);
};

}  // namespace shard::impl

#endif
