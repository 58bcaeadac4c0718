// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_ATTENTION_TILES_HPP
#define SHARD_SRC_LAYERS_ATTENTION_TILES_HPP

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "attention_items.hpp"
#include "input_runs.hpp"
#include "lanes.hpp"
#include "scratch.hpp"
#include "vector_functions.hpp"

/// \file
/// Attention on a host by online softmax. A work item computes a block of one group's tokens, which
/// are the columns of all tiles, against all tokens of the other side, the rows, a chunk at a time.
/// Features are gathered as they are stored, a line of tokens for each feature, so that nothing is
/// transposed: scores (row, column) are the product of the rows' and the columns' lines, and the
/// sums (feature, column) that of the rows' lines and the weights. Scores are kept for one chunk.

namespace shard::impl {

/// The tokens of a range of one group's that exist: the last window of a dimension may be partial.
template <index_t Most>
struct TokenList {
  /// Tokens `step` points apart along the last dimension.
  struct Run {
    index_t cell[3], step, length;
    index_t place;  ///< of the first one in the list
  };
  index_t count = 0, runs = 0;
  Run run[Most];
  std::int32_t token[Most];  ///< its number in the group
  std::int32_t side[Most];   ///< tokens attend only to tokens of the same side
  std::int32_t x[Most];      ///< its point along the last dimension

  TokenList(const Tokens& all, index_t group, index_t begin, index_t end) {
    index_t first[3];
    for (int d = 2; d >= 0; --d) {
      const TokenDim& dim = all.dims[d];
      first[d]            = group % dim.groups * dim.group_stride - dim.before;
      group /= dim.groups;
    }
    const index_t row = all.dims[2].tokens, rows = all.dims[1].tokens;
    for (index_t t = begin, length = 0; t < end; t += length) {
      const index_t place[3] = {t / row / rows, t / row % rows, t % row};
      length                 = std::min(row - place[2], end - t);
      add_row(all.dims, first, place, t, length);
    }
  }

  /// True if the tokens are consecutive.
  bool whole() const { return count > 0 && token[count - 1] - token[0] + 1 == count; }

 private:
  static std::int32_t side_of(const TokenDim& dim, index_t cell) {
    return (cell >= dim.first_apart ? 1 : 0) + (cell >= dim.second_apart ? 1 : 0);
  }
  void add_row(const TokenDim (&dims)[3], const index_t (&first)[3], const index_t (&place)[3],
               index_t number, index_t length) {
    Run r{{}, dims[2].token_stride, 0, count};
    for (int d = 0; d < 3; ++d) r.cell[d] = first[d] + place[d] * dims[d].token_stride;
    for (int d = 0; d < 2; ++d)
      if (r.cell[d] < 0 || r.cell[d] >= dims[d].cells) return;
    index_t begin = 0;
    for (; begin < length && r.cell[2] < 0; ++begin) r.cell[2] += r.step;
    const std::int32_t of_row = 16 * side_of(dims[0], r.cell[0]) + 4 * side_of(dims[1], r.cell[1]);
    for (index_t i = begin, at = r.cell[2]; i < length && at < dims[2].cells; ++i, at += r.step) {
      token[count] = static_cast<std::int32_t>(number + i);
      x[count]     = static_cast<std::int32_t>(at);
      side[count]  = of_row + side_of(dims[2], at);
      ++count;
    }
    r.length = count - r.place;
    if (r.length > 0) run[runs++] = r;
  }
};

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

/// All gradients, where the keys of a group are one chunk and its queries one block: the scores and
/// their weights are computed once for all. A work item is a group and a head of keys. The sums
/// have the order of AttendBackTiles.
template <class T>
struct AttendBackGroups : AttentionTile<T> {
  using Base = AttentionTile<T>;
  using Base::all, Base::width, Base::lanes, Base::hides;
  using typename Base::Columns, typename Base::Later, typename Base::Rows, typename Base::Who;

  Block<T> dq, dk, dv;  ///< a null origin: not wanted
  const double* sums;
  Block<const T> dy, q, k, v;

  bool fits() const {
    return Base::fits() && this->blocks() == 1 && this->row_side.tokens() <= this->chunk();
  }
  void operator()(index_t item) const {
    run(this->who(item), this->who(std::min(item + 1, this->items() - 1)), std::false_type());
  }

  /// As AttendBackTiles::run; w.h is a head of the keys.
  template <class Use>
  void run(const Who& w, const Who& next, const Use& use) const {
    constexpr bool uses = !std::is_same_v<Use, std::false_type>;
    const Columns columns(this->column_side, w.group, w.begin, w.end);
    const Rows rows(this->row_side, w.group, 0, this->row_side.tokens());
    const index_t of_columns = this->column_values(), of_rows = this->row_values(),
                  step = this->column_step(), tile_values = this->chunk() * step,
                  turned_step   = (all.features + lanes - 1) / lanes * lanes,
                  turned_values = std::max(this->block(), this->chunk()) * turned_step;
    T* const queries =
        scratch_values<T>(3 * of_columns + 2 * of_rows + 2 * tile_values + 4 * turned_values);
    T *const outer = queries + of_columns, *const gradient = outer + of_columns,
             *const keys = gradient + of_columns, *const values = keys + of_rows,
             *const weights = values + of_rows, *const slopes = weights + tile_values,
             *const turned = slopes + tile_values, *const turned_outer = turned + turned_values,
             *const to_keys   = turned_outer + turned_values,
             *const to_values = to_keys + turned_values;
    const bool to_q = dq.origin != nullptr, to_k = dk.origin != nullptr,
               to_v = dv.origin != nullptr, sloped = to_q || to_k || uses;
    this->gather(k, w, rows, keys, this->row_step());
    this->gather(v, w, rows, values, this->row_step());
    std::fill_n(to_keys, 2 * turned_values, T(0));
    const index_t shared = all.shape.heads_per_key;
    Later later(q.origin, 2 * this->tiles() * shared);
    this->add_lines(later, next.of_head(next.h * shared),
                    Columns(this->column_side, next.group, next.begin, next.end), q, dy, dq);
    this->add_lines(later, next, Rows(this->row_side, next.group, 0, this->row_side.tokens()), k, v,
                    dk, dv);
    T logs[Base::most_columns + width] = {}, means[Base::most_columns + width] = {};
    for (index_t h = w.h * shared; h < (w.h + 1) * shared; ++h) {
      const Who of_queries = w.of_head(h);
      this->gather_columns(q, of_queries, columns, queries);
      this->gather_columns(dy, of_queries, columns, outer);
      this->for_queries(of_queries, columns, [&](index_t i, index_t slot) {
        logs[i]  = static_cast<T>(sums[slot]);
        means[i] = static_cast<T>(sums[slot + all.numbers]);
      });
      for (index_t c0 = 0; c0 < columns.count; c0 += width) {
        const index_t some = std::min(width, columns.count - c0);
        T *const weight = weights + c0, *const product = slopes + c0;
        this->template begin_scores<false>(rows, columns, c0, some, of_queries, weight, step);
        this->multiply(keys, rows.count, queries + c0, some, weight, step, later);
        with_vectors<T, width / lanes>(some, [&](auto vectors) {
          this->template share<false, vectors()>(weight, step, rows.count, logs + c0);
        });
        if (hides) this->template hide<false>(rows, columns, c0, some, weight, step, T(0));
        if (!sloped) continue;
        this->clear(rows, product, step);
        this->multiply(values, rows.count, outer + c0, some, product, step, later);
        with_vectors<T, width / lanes>(some, [&](auto vectors) {
          this->template slope<false, vectors()>(weight, product, step, rows.count, means + c0);
        });
        if constexpr (uses) use(h, rows, columns, c0, some, product, step);
        if (!to_q) continue;
        for (index_t d = 0; d < all.features; ++d)
          std::fill_n(gradient + d * step + c0, width, T(0));
        this->add(keys, rows.count, product, step, some, gradient + c0, later);
      }
      if (to_q) this->store(dq, of_queries, columns, gradient, step);
      if (to_k) add_turned(rows, columns, slopes, queries, turned, turned_step, to_keys);
      if (to_v) add_turned(rows, columns, weights, outer, turned_outer, turned_step, to_values);
    }
    if (to_k) store_turned(dk, w, rows, to_keys, turned_step, keys);
    if (to_v) store_turned(dv, w, rows, to_values, turned_step, values);
  }

 private:
  /// added(row, feature) += sum over the columns of weights(row, column) * feature of the column.
  void add_turned(const Rows& rows, const Columns& columns, const T* weights, const T* from,
                  T* turned, index_t turned_step, T* added) const {
    constexpr int lines = Interleaved<T>::lines;
    const index_t step  = this->column_step();
    index_t d           = 0;
    for (; d + lines <= all.features; d += lines) {
      const T* of[lines];
      for (int l = 0; l < lines; ++l) of[l] = from + (d + l) * step;
      Interleaved<T>::copy(of, columns.count, turned + d, turned_step);
    }
    for (; d < turned_step; ++d)
      for (index_t i = 0; i < columns.count; ++i)
        turned[i * turned_step + d] = d < all.features ? from[d * step + i] : T(0);
    for (d = 0; d < all.features; d += width)
      multiply_add_rows(rows.count, std::min(width, all.features - d),
                        LeftRows(weights, step, EvenRows{1}), turned + d, EvenRows{turned_step},
                        columns.count, added + d, turned_step, SumRows<T>{added + d, turned_step});
  }
  /// Stores added(row, feature); `room` is for its transpose.
  void store_turned(const Block<T>& to, const Who& w, const Rows& rows, const T* added,
                    index_t turned_step, T* room) const {
    constexpr int lines = Interleaved<T>::lines;
    const index_t step  = this->row_step();
    index_t j           = 0;
    for (; j + lines <= rows.count; j += lines) {
      const T* of[lines];
      for (int l = 0; l < lines; ++l) of[l] = added + (j + l) * turned_step;
      Interleaved<T>::copy(of, all.features, room + j, step);
    }
    for (; j < rows.count; ++j)
      for (index_t d = 0; d < all.features; ++d) room[d * step + j] = added[j * turned_step + d];
    this->store(to, w, rows, room, step);
  }
};

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
