// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The products of a Linear, and plain loops over them.
#ifndef SHARD_TESTS_LAYERS_LINEAR_PRODUCTS_HPP
#define SHARD_TESTS_LAYERS_LINEAR_PRODUCTS_HPP

#include "device_blocks.hpp"

#include "../../src/layers/product.hpp"

namespace shard::testing {

/// The memory of a product's result after the product.
inline std::vector<float> product_of(const impl::Product<float>& p,
                                     const std::vector<float>& memory) {
  auto result = memory;
  for (index_t i = 0; i < p.rows; ++i)
    for (index_t j = 0; j < p.columns; ++j) {
      float& to =
          result[static_cast<std::size_t>(p.c - memory.data() + i * p.c_row + p.c_column.at(j))];
      double sum = p.add ? static_cast<double>(to) : 0.0;
      if (p.start != nullptr) sum += static_cast<double>(p.start[i * p.start_row]);
      for (index_t r = 0; r < p.terms; ++r)
        sum += static_cast<double>(p.a[i * p.a_row + p.a_term.at(r)]) *
               static_cast<double>(p.b[p.b_term.at(r) + p.b_column.at(j)]);
      to = static_cast<float>(sum);
    }
  return result;
}

inline void start_in_plain_loops(const impl::Product<float>& p) {
  for (index_t i = 0; i < p.rows; ++i)
    for (index_t j = 0; j < p.columns; ++j)
      p.c[i * p.c_row + p.c_column.at(j)] = p.start[i * p.start_row];
}

/// A Linear of n0 x n1 rows, with gaps after each row and after n1 rows, and its two gradients.
/// Returns for how many of the four products `check` is true. It gets the memory that they are in.
template <class Check>
int count_linear(Generator& random, index_t n0, index_t n1, index_t in, index_t out, bool gaps,
                 const Check& check) {
  const auto rows = [&](std::vector<float>& memory, index_t length) {
    impl::TensorRows<float> r;
    r.length            = length;
    const index_t row   = length + (gaps ? random.below(3) : 0),
                  outer = row * (n1 + (gaps ? random.below(2) : 0));
    memory              = values<float>(random, outer * n0 + 1);
    r.origin            = memory.data();
    r.rows.append(n0, outer);
    r.rows.append(n1, row);
    return r;
  };
  std::vector<float> x_memory, y_memory;
  const auto x = rows(x_memory, in), y = rows(y_memory, out);
  auto weights = values<float>(random, in * out), bias = values<float>(random, out);
  impl::Product<float> p;
  p.c         = y.origin;
  p.a         = weights.data();
  p.b         = x.origin;
  p.start     = bias.data();
  p.rows      = out;
  p.columns   = n0 * n1;
  p.terms     = in;
  p.c_row     = 1;
  p.a_row     = in;
  p.start_row = 1;
  p.c_column  = y.rows;
  p.b_column  = x.rows;
  p.a_term.append(in, 1);
  p.b_term.append(in, 1);
  int described = check(p, y_memory) ? 1 : 0;
  p.start       = nullptr;
  p.add         = true;
  described += check(p, y_memory) ? 1 : 0;
  impl::Product<float> back;  // dx = w' dy
  back.c        = x.origin;
  back.a        = weights.data();
  back.b        = y.origin;
  back.rows     = in;
  back.columns  = n0 * n1;
  back.terms    = out;
  back.c_row    = 1;
  back.a_row    = 1;
  back.c_column = x.rows;
  back.b_column = y.rows;
  back.a_term.append(out, in);
  back.b_term.append(out, 1);
  described += check(back, x_memory) ? 1 : 0;
  impl::Product<float> dw;
  dw.c       = weights.data();
  dw.a       = y.origin;
  dw.b       = x.origin;
  dw.rows    = out;
  dw.columns = in;
  dw.terms   = n0 * n1;
  dw.c_row   = in;
  dw.a_row   = 1;
  dw.a_term  = y.rows;
  dw.b_term  = x.rows;
  dw.c_column.append(in, 1);
  dw.b_column.append(in, 1);
  dw.add = true;
  return described + (check(dw, weights) ? 1 : 0);
}

}  // namespace shard::testing

#endif
