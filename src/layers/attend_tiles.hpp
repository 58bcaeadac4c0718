// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_ATTEND_TILES_HPP
#define SHARD_SRC_LAYERS_ATTEND_TILES_HPP

#include <algorithm>
#include <limits>

#include "attention_tile.hpp"
#include "scratch.hpp"

namespace shard::impl {

/// The forward pass; the columns are queries.
template <class T>
struct AttendTiles : AttentionTile<T> {
  using Base = AttentionTile<T>;
  using Base::all, Base::width, Base::lanes, Base::hides;
  using typename Base::Columns, typename Base::Later, typename Base::Rows, typename Base::Who;
  static constexpr T none = -Kokkos::Experimental::infinity_v<T>;

  Block<T> out;
  double* sums;
  Block<const T> q, k, v;
  bool first, last;

  void operator()(index_t item) const {
    const Who w       = this->who(item);
    const Who of_keys = w.of_head(all.key_head(w.h));
    const Columns columns(this->column_side, w.group, w.begin, w.end);
    const index_t of_columns = this->column_values(), of_rows = this->row_values();
    T* const queries = scratch_values<T>(2 * of_columns + 2 * of_rows + this->tile_values());
    T *const values = queries + of_columns, *const keys = values + of_columns,
             *const key_values = keys + of_rows, *const tile = key_values + of_rows;
    this->gather_columns(q, w, columns, queries);
    this->begin_sums(out, w, columns, values, first);
    T largest[Base::most_columns + width], sum[Base::most_columns + width];
    std::fill_n(largest, this->column_step(), none);
    std::fill_n(sum, this->column_step(), T(0));
    if (!first)
      this->for_queries(w, columns, [&](index_t c, index_t slot) {
        largest[c] = static_cast<T>(sums[slot]);
        sum[c]     = static_cast<T>(sums[slot + all.numbers]);
      });
    const index_t tokens = this->row_side.tokens(), chunk = this->chunk();
    Later later(q.origin, 2 * this->tiles());
    if (item + 1 < this->items() && tokens <= chunk) {
      const Who next = this->who(item + 1);
      this->add_lines(later, next, Columns(this->column_side, next.group, next.begin, next.end), q,
                      out);
      this->add_lines(later, next.of_head(all.key_head(next.h)),
                      Rows(this->row_side, next.group, 0, tokens), k, v);
    }
    for (index_t begin = 0; begin < tokens; begin += chunk) {
      const Rows rows(this->row_side, w.group, begin, std::min(begin + chunk, tokens));
      if (this->template sees_none<false>(rows, columns, 0, columns.count)) continue;
      this->gather(k, of_keys, rows, keys, this->row_step());
      this->gather(v, of_keys, rows, key_values, this->row_step());
      for (index_t c0 = 0; c0 < columns.count; c0 += width) {
        const index_t some = std::min(width, columns.count - c0);
        if (this->template sees_none<false>(rows, columns, c0, c0 + some)) continue;
        this->template begin_scores<false>(rows, columns, c0, some, w, tile, width);
        this->multiply(keys, rows.count, queries + c0, some, tile, width, later);
        if (hides) this->template hide<false>(rows, columns, c0, some, tile, width, none);
        with_vectors<T, width / lanes>(some, [&](auto vectors) {
          weigh<vectors()>(tile, rows.count, largest + c0, sum + c0, values + c0);
        });
        this->add(key_values, rows.count, tile, width, some, values + c0, later);
      }
    }
    if (last)
      for (index_t d = 0; d < all.features; ++d) {
        T* const line = values + d * this->column_step();
        for (index_t c = 0; c < columns.count; ++c)
          line[c] = sum[c] == T(0) ? T(0) : line[c] / sum[c];
      }
    this->store(out, w, columns, values, this->column_step());
    this->for_queries(w, columns, [&](index_t c, index_t slot) {
      const double most = static_cast<double>(largest[c]), of_all = static_cast<double>(sum[c]);
      sums[slot] = last ? all.logarithm(most, of_all) : most;
      if (!last) sums[slot + all.numbers] = of_all;
    });
  }

 private:
  /// Replaces scores by exp(score - largest of the column), and rescales the earlier sums where the
  /// largest grows.
  template <int Vectors>
  void weigh(T* tile, index_t rows, T* largest, T* sum, T* values) const {
    constexpr index_t count = Vectors * lanes;
    const T scale           = static_cast<T>(all.shape.scale);
    T now[count], shift[count], less[count], added[count] = {};
    std::copy_n(largest, count, now);
    for (index_t j = 0; j < rows; ++j) {
      T* const line = tile + j * width;
      for (index_t c = 0; c < count; ++c) {
        line[c] *= scale;
        now[c] = line[c] > now[c] ? line[c] : now[c];
      }
    }
    bool rescales = false;
    for (index_t c = 0; c < count; ++c) {
      less[c]    = exponential_of_part(largest[c] - now[c]);
      less[c]    = largest[c] == none ? T(0) : less[c];
      shift[c]   = now[c] == none ? T(0) : now[c];  // no row was visible so far
      rescales   = rescales || (sum[c] != T(0) && less[c] != T(1));
      largest[c] = now[c];
    }
    if (rescales)
      for (index_t d = 0; d < all.features; ++d) {
        T* const line = values + d * this->column_step();
        for (index_t c = 0; c < count; ++c) line[c] *= less[c];
      }
    for (index_t j = 0; j < rows; ++j) {
      T* const line = tile + j * width;
      for (index_t c = 0; c < count; ++c) {
        line[c] = exponential_of_part(line[c] - shift[c]);
        added[c] += line[c];
      }
    }
    for (index_t c = 0; c < count; ++c) sum[c] = sum[c] * less[c] + added[c];
  }
};

}  // namespace shard::impl

#endif
