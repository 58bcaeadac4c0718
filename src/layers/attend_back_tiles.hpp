// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_ATTEND_BACK_TILES_HPP
#define SHARD_SRC_LAYERS_ATTEND_BACK_TILES_HPP

#include <algorithm>
#include <type_traits>

#include "attention_tile.hpp"
#include "scratch.hpp"

namespace shard::impl {

/// The products of dy and out on a host. A work item has the queries of a row of points, so that
/// loops over them are vectorised.
template <class T>
struct AttendProductsRows {
  static constexpr index_t width = 64;
  AttentionItem<T> all;
  double* sums;
  Block<const T> dy, out;

  index_t items() const {
    const TokenDim* const d = all.shape.queries.dims;
    return all.batch * all.shape.heads * d[0].cells * d[1].cells;
  }
  void operator()(index_t item) const {
    const TokenDim* const d = all.shape.queries.dims;
    double* const to        = sums + all.numbers + item * d[2].cells;
    const index_t y         = item % d[1].cells;
    item /= d[1].cells;
    const index_t z = item % d[0].cells;
    item /= d[0].cells;
    const index_t h = item % all.shape.heads, n = item / all.shape.heads;
    for (index_t x = 0; x < d[2].cells; x += width) {
      const index_t count = std::min(width, d[2].cells - x);
      double sum[width]   = {};
      for (index_t i = 0; i < all.features; ++i) {
        const index_t c  = h * all.features + i;
        const T *const a = &dy.at(n, c, z, y, x), *const b = &out.at(n, c, z, y, x);
        if (dy.stride[4] == 1 && out.stride[4] == 1)
          for (index_t j = 0; j < count; ++j)
            sum[j] += static_cast<double>(a[j]) * static_cast<double>(b[j]);
        else
          for (index_t j = 0; j < count; ++j)
            sum[j] += static_cast<double>(a[j * dy.stride[4]]) *
                      static_cast<double>(b[j * out.stride[4]]);
      }
      std::copy_n(sum, count, to + x);
    }
  }
};

/// The gradient of the queries, or (`Keys`) of the keys and values, which then are the columns.
template <class T, bool Keys>
struct AttendBackTiles : AttentionTile<T> {
  using Base = AttentionTile<T>;
  using Base::all, Base::width, Base::lanes, Base::hides;
  using typename Base::Columns, typename Base::Later, typename Base::Rows, typename Base::Who;

  Block<T> to, to_values;  ///< dq; or dk and dv. A null origin: not wanted
  const double* sums;
  Block<const T> dy, q, k, v;
  bool first;

  void operator()(index_t item) const {
    run(this->who(item), this->who(std::min(item + 1, this->items() - 1)), std::false_type());
  }

  /// Computes w, and prefetches what `next` reads. With `use` it calls use(head of the queries,
  /// rows, columns, first column, columns of the tile, tile of scale * gradients of the scores, its
  /// step).
  template <class Use>
  void run(const Who& w, const Who& next, const Use& use) const {
    constexpr bool uses = !std::is_same_v<Use, std::false_type>;
    const Columns columns(this->column_side, w.group, w.begin, w.end);
    const index_t of_columns = this->column_values(), of_rows = this->row_values();
    T* const mine  = scratch_values<T>(4 * of_columns + 2 * of_rows + 2 * this->tile_values());
    T *const outer = mine + of_columns, *const gradient = outer + of_columns,
             *const values = gradient + of_columns, *const others = values + of_columns,
             *const other_outer = others + of_rows, *const weights = other_outer + of_rows,
             *const products = weights + this->tile_values();
    this->gather_columns(Keys ? k : q, w, columns, mine);
    this->gather_columns(Keys ? v : dy, w, columns, outer);
    const bool slopes = to.origin != nullptr, shares = to_values.origin != nullptr;
    if (slopes) this->begin_sums(to, w, columns, gradient, first);
    if (shares) this->begin_sums(to_values, w, columns, values, first);
    // of the queries: logarithms of the sums of exp(score), and dy . out
    T logs[Base::most_columns + width] = {}, means[Base::most_columns + width] = {};
    const auto read = [&](const Who& of, const auto& queries) {
      this->for_queries(of, queries, [&](index_t i, index_t slot) {
        logs[i]  = static_cast<T>(sums[slot]);
        means[i] = static_cast<T>(sums[slot + all.numbers]);
      });
    };
    if (!Keys) read(w, columns);
    const index_t tokens = this->row_side.tokens(), chunk = this->chunk(),
                  shared     = all.shape.heads_per_key;
    const index_t first_head = Keys ? w.h * shared : all.key_head(w.h);  // of the rows
    Later later(q.origin, 4 * this->tiles() * (Keys ? shared : 1));
    if (tokens <= chunk) {
      this->add_lines(later, next, Columns(this->column_side, next.group, next.begin, next.end),
                      Keys ? k : q, Keys ? v : dy, to, to_values);
      this->add_lines(later, next.of_head(Keys ? next.h * shared : all.key_head(next.h)),
                      Rows(this->row_side, next.group, 0, tokens), Keys ? q : k, Keys ? dy : v);
    }
    for (index_t h = first_head; h < first_head + (Keys ? shared : 1); ++h)
      for (index_t begin = 0; begin < tokens; begin += chunk) {
        const Who other = w.of_head(h), &of_queries = Keys ? other : w;
        const Rows rows(this->row_side, w.group, begin, std::min(begin + chunk, tokens));
        if (this->template sees_none<Keys>(rows, columns, 0, columns.count)) continue;
        this->gather(Keys ? q : k, other, rows, others, this->row_step());
        this->gather(Keys ? dy : v, other, rows, other_outer, this->row_step());
        if (Keys) read(other, rows);
        for (index_t c0 = 0; c0 < columns.count; c0 += width) {
          const index_t some = std::min(width, columns.count - c0);
          if (this->template sees_none<Keys>(rows, columns, c0, c0 + some)) continue;
          this->template begin_scores<Keys>(rows, columns, c0, some, of_queries, weights, width);
          this->multiply(others, rows.count, mine + c0, some, weights, width, later);
          with_vectors<T, width / lanes>(some, [&](auto vectors) {
            this->template share<Keys, vectors()>(weights, width, rows.count,
                                                  logs + (Keys ? 0 : c0));
          });
          if (hides) this->template hide<Keys>(rows, columns, c0, some, weights, width, T(0));
          if (shares) this->add(other_outer, rows.count, weights, width, some, values + c0, later);
          if (!slopes && !uses) continue;
          this->clear(rows, products, width);
          this->multiply(other_outer, rows.count, outer + c0, some, products, width, later);
          with_vectors<T, width / lanes>(some, [&](auto vectors) {
            this->template slope<Keys, vectors()>(weights, products, width, rows.count,
                                                  means + (Keys ? 0 : c0));
          });
          if constexpr (uses) use(w.h, rows, columns, c0, some, products, width);
          if (slopes) this->add(others, rows.count, products, width, some, gradient + c0, later);
        }
      }
    if (slopes) this->store(to, w, columns, gradient, this->column_step());
    if (shares) this->store(to_values, w, columns, values, this->column_step());
  }
};

}  // namespace shard::impl

#endif
