// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_PRODUCT_HPP
#define SHARD_SRC_LAYERS_PRODUCT_HPP

#include "shard/layers/impl/linear_kernels.hpp"

namespace shard::impl {

/// c(i, j) = start(i, j) + sum over r of a(i, r) b(r, j), r ascending; or c(i, j) += that sum. A
/// host sums blocks of 128 terms and adds the blocks; for its order in bfloat16 see
/// bfloat16_tiles.cpp.
template <class T>
struct Product {
  T* c           = nullptr;
  const T* a     = nullptr;
  const T* b     = nullptr;
  const T* start = nullptr;  ///< null for zeros
  index_t rows = 0, columns = 0, terms = 0;
  index_t c_row = 0, a_row = 0, start_row = 0;  ///< steps of i
  index_t start_column = 0;                     ///< of j; on a device zero
  Offsets c_column, b_column;                   ///< of j
  Offsets a_term, b_term;                       ///< of r
  bool add = false;
};

}  // namespace shard::impl

#endif
