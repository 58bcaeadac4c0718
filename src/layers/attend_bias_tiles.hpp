// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_ATTEND_BIAS_TILES_HPP
#define SHARD_SRC_LAYERS_ATTEND_BIAS_TILES_HPP

#include <algorithm>
#include <cstddef>
#include <vector>

#include "attention_items.hpp"
#include "lanes.hpp"

namespace shard::impl {

/// The gradients that `Back` computes, and the sums of the scores' gradients. A work item is a
/// block of queries, or a head of keys, in all groups of a chunk.
template <class T, class Back>
struct AttendBiasTiles {
  Back back;
  BiasSums<T> to;

  index_t groups() const { return back.column_side.groups(); }
  index_t types() const { return (groups() + to.of_a_type - 1) / to.of_a_type; }
  index_t items() const { return to.chunks * types() * back.column_heads * back.blocks(); }

  void operator()(index_t item) const {
    typename Back::Who w{};
    w.begin = item % back.blocks() * back.block();
    w.end   = std::min(w.begin + back.block(), to.per_tokens);
    item /= back.blocks();
    w.h = item % back.column_heads;
    item /= back.column_heads;
    const index_t type = item % types(), chunk = item / types(),
                  all = back.all.batch * to.of_a_type, heads = back.all.shape.heads,
                  shared = heads / back.column_heads, first_head = w.h * shared;
    const index_t step = w.end - w.begin, pairs = to.per_tokens * step;
    // for each head [key][query], as the tiles
    thread_local std::vector<T> turned;
    turned.assign(static_cast<std::size_t>(shared * pairs), T(0));
    for (index_t m = chunk * all / to.chunks; m < (chunk + 1) * all / to.chunks; ++m) {
      w.n     = m / to.of_a_type;
      w.group = type * to.of_a_type + m % to.of_a_type;
      if (w.group >= groups()) continue;
      typename Back::Who next = w;
      next.group              = std::min(w.group + 1, groups() - 1);
      back.run(w, next,
               [&](index_t h, const auto& rows, const auto& columns, index_t c0, index_t count,
                   const T* slopes, index_t slopes_step) {
                 T* const of_head = turned.data() + (h - first_head) * pairs - w.begin;
                 for (index_t j = 0; j < rows.count; ++j) {
                   T* const line       = of_head + rows.token[j] * step;
                   const T* const from = slopes + j * slopes_step;
                   if (columns.whole())
                     for (index_t c = 0; c < count; ++c) line[columns.token[c0] + c] += from[c];
                   else
                     for (index_t c = 0; c < count; ++c) line[columns.token[c0 + c]] += from[c];
                 }
               });
    }
    for (index_t h = 0; h < shared; ++h)
      store(turned.data() + h * pairs, step,
            to.values +
                (((chunk * types() + type) * heads + first_head + h) * to.per_tokens + w.begin) *
                    to.per_tokens);
  }

 private:
  /// pairs(query, key) = sum / scale, because the tiles have scale * gradient.
  void store(T* turned, index_t queries, T* pairs) const {
    constexpr int lines = Interleaved<T>::lines;
    const T inverse     = static_cast<T>(1.0 / back.all.shape.scale);
    const index_t keys  = to.per_tokens;
    for (index_t i = 0; i < keys * queries; ++i) turned[i] *= inverse;
    index_t j = 0;
    for (; j + lines <= keys; j += lines) {
      const T* from[lines];
      for (int l = 0; l < lines; ++l) from[l] = turned + (j + l) * queries;
      Interleaved<T>::copy(from, queries, pairs + j, keys);
    }
    for (; j < keys; ++j)
      for (index_t i = 0; i < queries; ++i) pairs[i * keys + j] = turned[j * queries + i];
  }
};

}  // namespace shard::impl

#endif
