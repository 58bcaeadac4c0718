// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_ATTENTION_TILE_HPP
#define SHARD_SRC_LAYERS_ATTENTION_TILE_HPP

#include <algorithm>
#include <cstdint>
#include <limits>

#include "attention_items.hpp"
#include "attention_tokens.hpp"
#include "input_runs.hpp"
#include "lanes.hpp"
#include "product_tile.hpp"
#include "vector_functions.hpp"

/// \file
/// Attention on a host by online softmax. A work item computes a block of one group's tokens, which
/// are the columns of all tiles, against all tokens of the other side, the rows, a chunk at a time.
/// Features are gathered as they are stored, a line of tokens for each feature, so that nothing is
/// transposed: scores (row, column) are the product of the rows' and the columns' lines, and the
/// sums (feature, column) that of the rows' lines and the weights. Scores are kept for one chunk.

namespace shard::impl {

/// The steps that the forward and the backward pass share.
template <class T>
struct AttentionTile {
  static constexpr index_t lanes = Tile<T>::lanes, width = Tile<T>::columns;
  /// The most columns and rows, whatever their features. The sums depend on the number of rows.
  static constexpr index_t most_columns = 144, most_rows = 128;
  /// The most values of an operand, and the most features.
  static constexpr index_t most_values = 128 * 128, most_features = 8192;
  static constexpr index_t most_terms = 128;
  using Rows                          = TokenList<most_rows>;
  using Columns                       = TokenList<most_columns>;

  AttentionItem<T> all;
  Tokens column_side, row_side;
  index_t column_heads;
  bool hides;  ///< the attention is masked: some tokens don't see some others

  AttentionTile(const AttentionItem<T>& item, const Tokens& columns, const Tokens& rows,
                index_t heads)
      : all(item),
        column_side(columns),
        row_side(rows),
        column_heads(heads),
        hides(item.shape.causal) {
    for (const TokenDim& d : item.shape.queries.dims)
      hides = hides || d.first_apart < d.cells || d.second_apart < d.cells;
  }

  /// False for heads of more features than fit in the buffers; these use another algorithm.
  bool fits() const { return all.features <= most_features; }

  index_t at_once(index_t most) const {
    return std::clamp<index_t>(most_values / std::max<index_t>(all.features, 1), lanes, most);
  }
  /// Rows of a chunk: the same for any processor, because the sums depend on it.
  index_t chunk() const {
    return std::clamp<index_t>(most_values / std::max<index_t>(all.features, 1), 16, most_rows);
  }
  index_t blocks() const {
    const index_t most = at_once(most_columns);
    return (column_side.tokens() + most - 1) / most;
  }
  index_t block() const {
    return blocks() == 0 ? 1 : (column_side.tokens() + blocks() - 1) / blocks();
  }
  index_t items() const { return all.batch * column_heads * column_side.groups() * blocks(); }

  /// Values from a feature of the columns to the next.
  index_t column_step() const { return (block() + width - 1) / width * width; }
  /// The same of the rows: an odd number of cache lines, so that features are in different sets.
  index_t row_step() const { return chunk() + 16; }
  index_t column_values() const { return all.features * column_step(); }
  index_t row_values() const { return all.features * row_step(); }
  index_t tile_values() const { return chunk() * width; }

  /// `h` is a head of the columns, or of the rows.
  struct Who {
    index_t n, h, group, begin, end;

    Who of_head(index_t other) const { return {n, other, group, begin, end}; }
  };
  Who who(index_t item) const {
    Who w{};
    w.begin = item % blocks() * block();
    w.end   = std::min(w.begin + block(), column_side.tokens());
    item /= blocks();
    w.group = item % column_side.groups();
    item /= column_side.groups();
    w.h = item % column_heads;
    w.n = item / column_heads;
    return w;
  }

  /// Calls use(pointer to a run of tokens in the block, step, length, its place) for each feature.
  template <class U, class List, class Use>
  void for_runs(const Block<U>& b, const Who& w, const List& tokens, const Use& use) const {
    U* feature = b.origin + w.n * b.stride[0] + w.h * all.features * b.stride[1];
    for (index_t d = 0; d < all.features; ++d, feature += b.stride[1])
      for (index_t r = 0; r < tokens.runs; ++r) {
        const auto& run = tokens.run[r];
        use(d,
            feature + run.cell[0] * b.stride[2] + run.cell[1] * b.stride[3] +
                run.cell[2] * b.stride[4],
            run.step * b.stride[4], run.length, run.place);
      }
  }
  /// Copies the tokens to to[feature * step + token].
  template <class U, class List>
  void gather(const Block<U>& b, const Who& w, const List& tokens, T* to, index_t step) const {
    for_runs(b, w, tokens,
             [&](index_t d, const T* from, index_t from_step, index_t length, index_t place) {
               copy_strided(from, from_step, length, to + d * step + place);
             });
  }
  /// The same for columns, with zeros up to a whole vector.
  template <class U>
  void gather_columns(const Block<U>& b, const Who& w, const Columns& columns, T* to) const {
    const index_t step = column_step(), end = (columns.count + lanes - 1) / lanes * lanes;
    gather(b, w, columns, to, step);
    for (index_t d = 0; d < all.features; ++d)
      std::fill(to + d * step + columns.count, to + d * step + end, T(0));
  }
  /// Zeros, or the block's values.
  void begin_sums(const Block<T>& b, const Who& w, const Columns& columns, T* sums,
                  bool zero) const {
    if (zero)
      std::fill_n(sums, column_values(), T(0));
    else
      gather_columns(b, w, columns, sums);
  }
  /// Copies from[feature * step + token] to the tokens.
  template <class List>
  void store(const Block<T>& b, const Who& w, const List& tokens, const T* values,
             index_t step) const {
    for_runs(b, w, tokens, [&](index_t d, T* to, index_t to_step, index_t length, index_t place) {
      const T* const from = values + d * step + place;
      if (to_step == 1)
        copy_run(from, length, to);
      else
        for (index_t i = 0; i < length; ++i) to[i * to_step] = from[i];
    });
  }

  /// The cache lines of a later work item's tokens, which the products prefetch: gathers alone
  /// would wait for the memory. A share of them for each product.
  struct Later {
    static constexpr index_t most = 2048;
    const T* base;  ///< the offsets are from here
    index_t offsets[most];
    index_t count = 0, asked = 0, product = 0, products;

    Later(const T* from, index_t product_count) : base(from), products(product_count) {}
    ReadAhead<T> share() {
      ++product;
      const index_t end = std::min(count, product * count / products), first = asked;
      asked = end;
      return {base, offsets + first, end - first};
    }
    void add(const T* line) {
      if (count < most)
        offsets[count++] =
            (reinterpret_cast<std::intptr_t>(line) - reinterpret_cast<std::intptr_t>(base)) /
            static_cast<std::intptr_t>(sizeof(T));
    }
  };
  /// Adds lines of runs. The first one of a run is that of the tokens before it.
  template <class List, class... Blocks>
  void add_lines(Later& later, const Who& w, const List& tokens, const Blocks&... blocks) const {
    const auto add = [&](index_t, const T* from, index_t step, index_t length, index_t) {
      if (step != 1) return;  // tokens of neighbouring groups are on the same lines
      for (index_t i = line_values<T> - 1; i < length - 1; i += line_values<T>) later.add(from + i);
      later.add(from + length - 1);
    };
    ((blocks.origin == nullptr ? void() : for_runs(blocks, w, tokens, add)), ...);
  }
  /// Products of a work item whose rows are one chunk.
  index_t tiles() const { return (block() + width - 1) / width; }

  /// Calls use(token, its index in `sums`) for queries of a head.
  template <class List, class Use>
  void for_queries(const Who& w, const List& queries, const Use& use) const {
    const TokenDim* const d = all.shape.queries.dims;
    for (index_t r = 0; r < queries.runs; ++r) {
      const auto& run = queries.run[r];
      const index_t first =
          (((w.n * all.shape.heads + w.h) * d[0].cells + run.cell[0]) * d[1].cells + run.cell[1]) *
              d[2].cells +
          run.cell[2];
      for (index_t i = 0; i < run.length; ++i) use(run.place + i, first + i * run.step);
    }
  }

  /// The furthest point along the last dimension that a query sees.
  std::int32_t furthest(std::int32_t query) const {
    constexpr index_t most = std::numeric_limits<std::int32_t>::max();
    if (!all.shape.causal) return static_cast<std::int32_t>(most);
    return static_cast<std::int32_t>(
        std::clamp<index_t>(all.shape.first_query - all.shape.first_key + query, -1, most));
  }
  /// True if no pair of rows and columns [c0, c1) sees each other in causal attention, or if there
  /// are no pairs. `Keys`: columns are keys.
  template <bool Keys>
  bool sees_none(const Rows& rows, const Columns& columns, index_t c0, index_t c1) const {
    if (rows.count == 0 || c0 == c1) return true;
    if (!all.shape.causal) return false;
    return Keys ? columns.x[c0] > furthest(rows.x[rows.count - 1])
                : rows.x[0] > furthest(columns.x[c1 - 1]);
  }
  /// Replaces the values of pairs that don't see each other.
  template <bool Keys>
  void hide(const Rows& rows, const Columns& columns, index_t c0, index_t count, T* tile,
            index_t step, T hidden) const {
    std::int32_t side[width] = {}, x[width] = {};
    for (index_t c = 0; c < count; ++c) {
      side[c] = columns.side[c0 + c];
      x[c]    = Keys ? columns.x[c0 + c] : furthest(columns.x[c0 + c]);
    }
    for (index_t j = 0; j < rows.count; ++j) {
      const std::int32_t of_row = rows.side[j], at = Keys ? furthest(rows.x[j]) : rows.x[j];
      T* const line = tile + j * step;
      for (index_t c = 0; c < width; ++c) {
        const bool sees = side[c] == of_row && (Keys ? x[c] <= at : at <= x[c]);
        line[c]         = sees ? line[c] : hidden;
      }
    }
  }

  /// Sets the tile to bias / scale, or to zero without a bias; `w` has the head of the queries.
  template <bool Keys>
  void begin_scores(const Rows& rows, const Columns& columns, index_t c0, index_t count,
                    const Who& w, T* tile, index_t step) const {
    clear(rows, tile, step);
    add_table<Keys>(all.bias.learned, rows, columns, c0, count, w, tile, step);
    add_table<Keys>(all.bias.mask, rows, columns, c0, count, w, tile, step);
  }
  static void clear(const Rows& rows, T* tile, index_t step) {
    for (index_t j = 0; j < rows.count; ++j) std::fill_n(tile + j * step, width, T(0));
  }
  template <bool Keys>
  void add_table(const PairTable<const T>& table, const Rows& rows, const Columns& columns,
                 index_t c0, index_t count, const Who& w, T* tile, index_t tile_step) const {
    if (table.values == nullptr || rows.count == 0) return;
    const T inverse    = static_cast<T>(1.0 / all.shape.scale);
    const index_t step = table.per_tokens;  // from a query to the next
    const T* const of  = table.row(w.h, w.group, 0);
    index_t c          = 0;
    if (!Keys && rows.whole()) {
      constexpr int lines = Interleaved<T>::lines;
      alignas(16) T turned[most_rows * lines];
      for (; c + lines <= count; c += lines) {
        const T* from[lines];
        for (int l = 0; l < lines; ++l)
          from[l] = of + columns.token[c0 + c + l] * step + rows.token[0];
        Interleaved<T>::copy(from, rows.count, turned, lines);
        for (index_t j = 0; j < rows.count; ++j)
          for (int l = 0; l < lines; ++l)
            tile[j * tile_step + c + l] += inverse * turned[j * lines + l];
      }
    } else if (Keys && columns.whole()) {
      for (index_t j = 0; j < rows.count; ++j) {
        const T* const from = of + rows.token[j] * step + columns.token[c0];
        for (c = 0; c < count; ++c) tile[j * tile_step + c] += inverse * from[c];
      }
    }
    for (; c < count; ++c)
      for (index_t j = 0; j < rows.count; ++j) {
        const index_t row = rows.token[j], column = columns.token[c0 + c];
        tile[j * tile_step + c] += inverse * of[Keys ? row * step + column : column * step + row];
      }
  }

  /// tile(row, column) += the product of the row's and the column's features.
  void multiply(const T* rows, index_t row_count, const T* columns, index_t count, T* tile,
                index_t tile_step, Later& later) const {
    const index_t step      = column_step();
    const ReadAhead<T> next = later.share();
    for (index_t d = 0; d < all.features; d += most_terms)
      multiply_add_rows(row_count, count, LeftRows(rows + d * row_step(), 1, EvenRows{row_step()}),
                        columns + d * step, EvenRows{step}, std::min(most_terms, all.features - d),
                        tile, tile_step, BlockSumRows<T>{tile, tile_step}, next);
  }
  /// sums(feature, column) += sum over the rows of the row's feature * weights(row, column).
  void add(const T* rows, index_t row_count, const T* weights, index_t weights_step, index_t count,
           T* sums, Later& later) const {
    const index_t step = column_step();
    multiply_add_rows(all.features, count, LeftRows(rows, row_step(), EvenRows{1}), weights,
                      EvenRows{weights_step}, row_count, sums, step, SumRows<T>{sums, step},
                      later.share());
  }

  /// Replaces scores by the weights exp(score - log of the sum of exp(score)). `Keys`: the rows are
  /// queries.
  template <bool Keys, int Vectors>
  void share(T* tile, index_t step, index_t rows, const T* of_queries) const {
    constexpr index_t count = Vectors * lanes;
    const T scale           = static_cast<T>(all.shape.scale);
    T logs[count];
    std::copy_n(of_queries, Keys ? 0 : count, logs);
    for (index_t j = 0; j < rows; ++j) {
      T* const line = tile + j * step;
      if (Keys) std::fill_n(logs, count, of_queries[j]);
      for (index_t c = 0; c < count; ++c) line[c] = exponential_of_part(scale * line[c] - logs[c]);
    }
  }
  /// Replaces products dy . v by the scores' gradients, scale * weight * (product - dy . out).
  template <bool Keys, int Vectors>
  void slope(const T* weights, T* products, index_t step, index_t rows, const T* of_queries) const {
    constexpr index_t count = Vectors * lanes;
    const T scale           = static_cast<T>(all.shape.scale);
    T means[count];
    std::copy_n(of_queries, Keys ? 0 : count, means);
    for (index_t j = 0; j < rows; ++j) {
      const T* const weight = weights + j * step;
      T* const product      = products + j * step;
      if (Keys) std::fill_n(means, count, of_queries[j]);
      for (index_t c = 0; c < count; ++c) product[c] = scale * weight[c] * (product[c] - means[c]);
    }
  }
};

}  // namespace shard::impl

#endif
