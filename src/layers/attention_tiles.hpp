// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_ATTENTION_TILES_HPP
#define SHARD_SRC_LAYERS_ATTENTION_TILES_HPP

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "attention_items.hpp"
#include "lanes.hpp"
#include "vector_functions.hpp"

/// \file
/// Attention on a host by online softmax. A work item computes a block of one group's tokens (the
/// rows) against all tokens of the other side (the columns), a few panels of columns at a time. It
/// gathers the features, computes the scores by the tile product, and keeps no score matrix.

namespace shard::impl {

/// Offsets of terms that are contiguous.
inline constexpr index_t most_terms     = 128;
inline constexpr auto terms_in_sequence = [] {
  std::array<index_t, most_terms> offsets{};
  for (std::size_t i = 0; i < offsets.size(); ++i) offsets[i] = static_cast<index_t>(i);
  return offsets;
}();

/// The tokens of one group that exist: the last window of a dimension may be partial.
template <index_t Most>
struct TokenList {
  index_t count = 0;
  TokenPlace places[Most];

  TokenList(const Tokens& all, index_t group, index_t begin, index_t end) {
    for (index_t t = begin; t < end; ++t) {
      places[count] = place_of(all, group, t);
      if (places[count].there) ++count;
    }
  }
};

/// The steps that the forward and the backward pass share.
template <class T>
struct AttentionTile {
  static constexpr index_t most_rows = 128, panels = 4, width = Tile<T>::columns;
  static constexpr index_t most_columns = panels * width;
  /// The most values of one operand's rows in a work item.
  static constexpr index_t most_values = 8192;
  using Rows                           = TokenList<most_rows>;
  using Columns                        = TokenList<most_columns>;
  /// Element (row, column) of panel p is at (p * most_rows + row) * width + column.
  using Panels = T[most_rows * most_columns];

  AttentionItem<T> all;
  Tokens row_side, column_side;
  index_t row_heads;
  bool hides;  ///< the attention is masked: some rows don't see some columns

  AttentionTile(const AttentionItem<T>& item, const Tokens& rows, const Tokens& columns,
                index_t heads)
      : all(item),
        row_side(rows),
        column_side(columns),
        row_heads(heads),
        hides(item.shape.causal) {
    for (const TokenDim& d : item.shape.queries.dims)
      hides = hides || d.first_apart < d.cells || d.second_apart < d.cells;
  }

  /// False for heads of more features than fit in the buffers; these use another algorithm.
  bool fits() const { return all.features <= most_values; }

  index_t block() const {
    const index_t rows = std::min(most_rows, most_values / std::max<index_t>(all.features, 1));
    return std::max<index_t>(std::min(rows, row_side.tokens()), 1);
  }
  index_t blocks() const { return (row_side.tokens() + block() - 1) / block(); }
  index_t items() const { return all.batch * row_heads * row_side.groups() * blocks(); }

  /// `h` is a head of the rows, or of the columns.
  struct Who {
    index_t n, h, group, begin, end;

    Who of_head(index_t other) const { return {n, other, group, begin, end}; }
  };
  Who who(index_t item) const {
    Who w{};
    w.begin = item % blocks() * block();
    w.end   = std::min(w.begin + block(), row_side.tokens());
    item /= blocks();
    w.group = item % row_side.groups();
    item /= row_side.groups();
    w.h = item % row_heads;
    w.n = item / row_heads;
    return w;
  }

  template <class U>
  static index_t offset_of(const Block<U>& b, const TokenPlace& p) {
    return p.cell[0] * b.stride[2] + p.cell[1] * b.stride[3] + p.cell[2] * b.stride[4];
  }
  template <class U>
  U* head_of(const Block<U>& b, const Who& w) const {
    return b.origin + w.n * b.stride[0] + w.h * all.features * b.stride[1];
  }

  /// Copies features [first, first + count) of the tokens to to[token * token_step + feature *
  /// feature_step].
  void gather(const Block<const T>& b, const Who& w, const TokenPlace* tokens, index_t token_count,
              index_t first, index_t count, T* to, index_t token_step, index_t feature_step) const {
    index_t offset[std::max(most_rows, most_columns)];  // of rows or of columns
    for (index_t t = 0; t < token_count; ++t) offset[t] = offset_of(b, tokens[t]);
    const T* const head = head_of(b, w);
    for (index_t d = 0; d < count; ++d) {
      const T* const from = head + (first + d) * b.stride[1];
      T* const line       = to + d * feature_step;
      for (index_t t = 0; t < token_count; ++t) line[t * token_step] = from[offset[t]];
    }
  }
  void gather_rows(const Block<const T>& b, const Who& w, const Rows& rows, T* to) const {
    gather(b, w, rows.places, rows.count, 0, all.features, to, all.features, 1);
  }

  /// Adds bias / scale to unscaled scores, if there is a bias; `w` has the head of the queries.
  /// `Keys`: rows are keys.
  template <bool Keys>
  void add_bias(const Rows& rows, const Columns& columns, const Who& w, Panels& scores) const {
    add_table<Keys>(all.bias.learned, rows, columns, w, scores);
    add_table<Keys>(all.bias.mask, rows, columns, w, scores);
  }
  template <bool Keys>
  void add_table(const PairTable<const T>& table, const Rows& rows, const Columns& columns,
                 const Who& w, Panels& scores) const {
    if (table.values == nullptr) return;
    const T inverse    = static_cast<T>(1.0 / all.shape.scale);
    const index_t step = table.per_tokens;  // from a query to the next
    const T* const of  = table.row(w.h, w.group, 0);
    for (index_t i = 0; i < rows.count; ++i) {
      const index_t row = rows.places[i].token;
      for (index_t c0 = 0; c0 < columns.count; c0 += width) {
        T* const line      = line_of(scores, c0, i);
        const index_t some = std::min(width, columns.count - c0);
        for (index_t c = 0; c < some; ++c) {
          const index_t column = columns.places[c0 + c].token;
          line[c] += inverse * of[Keys ? column * step + row : row * step + column];
        }
      }
    }
  }

  /// products(row, column) = the dot product of the row's and the column's features.
  void multiply(const Rows& rows, const T* row_features, const Block<const T>& b, const Who& w,
                const Columns& columns, Panels& products) const {
    alignas(vector_bytes) T panel[most_terms * width];
    for (index_t c0 = 0; c0 < columns.count; c0 += width) {
      const index_t some = std::min(width, columns.count - c0);
      T* const sums      = products + c0 * most_rows;
      std::fill_n(sums, rows.count * width, T(0));
      if (some < width) std::fill_n(panel, std::min(most_terms, all.features) * width, T(0));
      for (index_t d0 = 0; d0 < all.features; d0 += most_terms) {
        const index_t terms = std::min(most_terms, all.features - d0);
        gather(b, w, columns.places + c0, some, d0, terms, panel, 1, width);
        multiply_add_rows(rows.count, some, row_features + d0, all.features,
                          terms_in_sequence.data(), panel, EvenRows{width}, terms, sums);
      }
    }
  }

  /// A sum for each row and feature, stored in blocks of `width` features.
  struct Sums {
    alignas(vector_bytes) T values[most_values + most_rows * width];

    T* row(index_t i) { return values + i * width; }
  };
  /// sums(row, feature) += sum over columns of weights(row, column) * feature of the column.
  void add(const Rows& rows, const Panels& weights, const Block<const T>& b, const Who& w,
           const Columns& columns, Sums& sums) const {
    alignas(vector_bytes) T panel[width * width];
    for (index_t c0 = 0; c0 < columns.count; c0 += width) {
      const index_t some = std::min(width, columns.count - c0);
      for (index_t d0 = 0; d0 < all.features; d0 += width) {
        const index_t count = std::min(width, all.features - d0);
        if (count < width) std::fill_n(panel, width * width, T(0));
        gather(b, w, columns.places + c0, some, d0, count, panel, width, 1);
        multiply_add_rows(rows.count, count, weights + c0 * most_rows, width,
                          terms_in_sequence.data(), panel, EvenRows{width}, some,
                          sums.values + d0 * block());
      }
    }
  }
  /// Calls use(row, sum, element of the block) for each row and feature.
  template <class U, class Use>
  void for_sums(const Rows& rows, const Block<U>& b, const Who& w, Sums& sums,
                const Use& use) const {
    for (index_t d = 0; d < all.features; ++d)
      for (index_t i = 0; i < rows.count; ++i)
        use(i, sums.values[d / width * width * block() + i * width + d % width],
            head_of(b, w)[d * b.stride[1] + offset_of(b, rows.places[i])]);
  }
  /// Sets the sums to zero, or to the block's values.
  void begin_sums(const Rows& rows, const Block<T>& b, const Who& w, Sums& sums, bool zero) const {
    if (zero)
      std::fill_n(sums.values, (all.features + width - 1) / width * width * block(), T(0));
    else
      for_sums(rows, b, w, sums, [](index_t, T& sum, const T& value) { sum = value; });
  }
  void store_sums(const Rows& rows, const Block<T>& b, const Who& w, Sums& sums) const {
    for_sums(rows, b, w, sums, [](index_t, const T& sum, T& value) { value = sum; });
  }

  static T* line_of(Panels& panels_of, index_t c0, index_t row) {
    return panels_of + c0 * most_rows + row * width;
  }
};

template <class T>
struct AttendTiles : AttentionTile<T> {
  using Base = AttentionTile<T>;
  using Base::all, Base::width, Base::hides;
  using typename Base::Columns, typename Base::Panels, typename Base::Rows, typename Base::Sums,
      typename Base::Who;
  static constexpr T none = -Kokkos::Experimental::infinity_v<T>;

  Block<T> out;
  double* sums;
  Block<const T> q, k, v;
  bool first, last;

  void operator()(index_t item) const {
    const Who w       = this->who(item);
    const Who of_keys = w.of_head(all.key_head(w.h));
    const Rows rows(this->row_side, w.group, w.begin, w.end);
    T queries[Base::most_values];
    this->gather_rows(q, w, rows, queries);
    T largest[Base::most_rows], sum[Base::most_rows];
    index_t slot[Base::most_rows];
    for (index_t i = 0; i < rows.count; ++i) {
      slot[i]    = all.number(w.n, w.h, rows.places[i]);
      largest[i] = first ? none : static_cast<T>(sums[slot[i]]);
      sum[i]     = first ? T(0) : static_cast<T>(sums[slot[i] + all.numbers]);
    }
    Sums values;
    this->begin_sums(rows, out, w, values, first);
    alignas(vector_bytes) Panels scores;
    const index_t tokens = this->column_side.tokens();
    for (index_t begin = 0; begin < tokens; begin += Base::most_columns) {
      const Columns columns(this->column_side, w.group, begin,
                            std::min(begin + Base::most_columns, tokens));
      if (hides && sees_none(rows, columns)) continue;
      this->multiply(rows, queries, k, of_keys, columns, scores);
      this->template add_bias<false>(rows, columns, w, scores);
      for (index_t i = 0; i < rows.count; ++i)
        weigh(rows.places[i], columns, scores, i, largest[i], sum[i], values);
      this->add(rows, scores, v, of_keys, columns, values);
    }
    if (last) {
      this->for_sums(rows, out, w, values, [&](index_t i, const T& value, T& to) {
        to = sum[i] == T(0) ? T(0) : value / sum[i];
      });
      for (index_t i = 0; i < rows.count; ++i)
        sums[slot[i]] = all.logarithm(static_cast<double>(largest[i]), static_cast<double>(sum[i]));
    } else {
      this->store_sums(rows, out, w, values);
      for (index_t i = 0; i < rows.count; ++i) {
        sums[slot[i]]               = static_cast<double>(largest[i]);
        sums[slot[i] + all.numbers] = static_cast<double>(sum[i]);
      }
    }
  }

 private:
  /// True if causal attention hides all columns from all rows.
  bool sees_none(const Rows& rows, const Columns& columns) const {
    return all.shape.causal && rows.count > 0 && columns.count > 0 &&
           all.shape.first_key + columns.places[0].cell[2] >
               all.shape.first_query + rows.places[rows.count - 1].cell[2];
  }

  /// A number of columns, rounded up to whole vectors.
  static index_t whole_vectors(index_t columns) {
    constexpr int lanes = Tile<T>::lanes;
    return (columns + lanes - 1) / lanes * lanes;
  }

  /// Replaces a row's scores by exp(score - largest), and rescales the earlier sums when `largest`
  /// grows.
  void weigh(const TokenPlace& query, const Columns& columns, Panels& scores, index_t row,
             T& largest, T& sum, Sums& values) const {
    constexpr int lanes = Tile<T>::lanes;
    const T scale       = static_cast<T>(all.shape.scale);
    T most[lanes];
    std::fill_n(most, lanes, none);
    for (index_t c0 = 0; c0 < columns.count; c0 += width) {
      T* const line      = this->line_of(scores, c0, row);
      const index_t some = std::min(width, columns.count - c0), end = whole_vectors(some);
      for (index_t c = 0; c < end; ++c) line[c] *= scale;
      if (hides)
        for (index_t c = 0; c < some; ++c)
          if (!all.sees(query, columns.places[c0 + c])) line[c] = none;
      for (index_t c = some; c < end; ++c) line[c] = none;
      for (index_t c = 0; c < end; c += lanes)
        for (int l = 0; l < lanes; ++l) most[l] = line[c + l] > most[l] ? line[c + l] : most[l];
    }
    T now = largest;
    for (const T m : most) now = m > now ? m : now;
    if (now > largest) {
      const T less = exponential_of_part(largest - now);
      sum *= less;
      if (less != T(0) || largest != none)
        for (index_t d = 0; d < all.features; d += width) {
          T* const to = values.values + d * this->block() + row * width;
          for (index_t c = 0; c < width; ++c) to[c] *= less;
        }
      largest = now;
    }
    T added[lanes] = {};
    for (index_t c0 = 0; c0 < columns.count; c0 += width) {
      T* const line      = this->line_of(scores, c0, row);
      const index_t some = std::min(width, columns.count - c0);
      if (now == none) {  // no column was visible so far
        for (index_t c = 0; c < some; ++c) line[c] = line[c] == none ? T(0) : line[c];
        continue;
      }
      for (index_t c = 0; c < some; c += lanes)
        for (int l = 0; l < lanes; ++l) {
          line[c + l] = exponential_of_part(line[c + l] - now);
          added[l] += line[c + l];
        }
    }
    for (const T a : added) sum += a;
  }
};

/// The gradient of the queries, or (`Keys`) of the keys and values, which then are the rows.
template <class T, bool Keys>
struct AttendBackTiles : AttentionTile<T> {
  using Base = AttentionTile<T>;
  using Base::all, Base::width, Base::hides;
  using typename Base::Columns, typename Base::Panels, typename Base::Rows, typename Base::Sums,
      typename Base::Who;

  Block<T> to, to_values;  ///< dq; or dk and dv. A null origin: not wanted
  const double* sums;
  Block<const T> dy, q, k, v;
  bool first;

  void operator()(index_t item) const { run(this->who(item), std::false_type()); }

  /// With `use` it calls use(rows, columns, scale * gradients of the scores).
  template <class Use>
  void run(const Who& w, const Use& use) const {
    constexpr bool uses = !std::is_same_v<Use, std::false_type>;
    const Rows rows(this->row_side, w.group, w.begin, w.end);
    T mine[Base::most_values], outer[Base::most_values];
    this->gather_rows(Keys ? k : q, w, rows, mine);
    this->gather_rows(Keys ? v : dy, w, rows, outer);
    const bool slopes = to.origin != nullptr, shares = to_values.origin != nullptr;
    Sums gradient, values;
    if (slopes) this->begin_sums(rows, to, w, gradient, first);
    if (shares) this->begin_sums(rows, to_values, w, values, first);
    alignas(vector_bytes) Panels weights, products;
    const index_t tokens = this->column_side.tokens(), shared = all.shape.heads_per_key;
    const index_t first_head = Keys ? w.h * shared : all.key_head(w.h);  // of the columns
    for (index_t h = first_head; h < first_head + (Keys ? shared : 1); ++h)
      for (index_t begin = 0; begin < tokens; begin += Base::most_columns) {
        const Who other = w.of_head(h), &of_queries = Keys ? other : w;
        const Columns columns(this->column_side, w.group, begin,
                              std::min(begin + Base::most_columns, tokens));
        if (hides && sees_none(rows, columns)) continue;
        this->multiply(rows, mine, Keys ? q : k, other, columns, weights);
        this->template add_bias<Keys>(rows, columns, of_queries, weights);
        share(rows, columns, of_queries, weights);
        if (shares) this->add(rows, weights, dy, other, columns, values);
        if (!slopes && !uses) continue;
        this->multiply(rows, outer, Keys ? dy : v, other, columns, products);
        slope(rows, columns, of_queries, weights, products);
        if constexpr (uses) use(rows, columns, weights);
        if (slopes) this->add(rows, weights, Keys ? q : k, other, columns, gradient);
      }
    if (slopes) this->store_sums(rows, to, w, gradient);
    if (shares) this->store_sums(rows, to_values, w, values);
  }

 private:
  bool sees_none(const Rows& rows, const Columns& columns) const {
    if (!all.shape.causal || rows.count == 0 || columns.count == 0) return false;
    const index_t first_row    = rows.places[0].cell[2],
                  last_row     = rows.places[rows.count - 1].cell[2],
                  first_column = columns.places[0].cell[2],
                  last_column  = columns.places[columns.count - 1].cell[2];
    return Keys ? all.shape.first_key + first_row > all.shape.first_query + last_column
                : all.shape.first_key + first_column > all.shape.first_query + last_row;
  }
  /// A query's entry of `sums`; kind 0: log of the sum of exp(score), 1: dy . out.
  double of_query(const Who& w, const TokenPlace& query, index_t kind) const {
    return sums[all.number(w.n, w.h, query) + kind * all.numbers];
  }
  /// Replaces the scores by the weights exp(score - log of the sum of exp(score)).
  void share(const Rows& rows, const Columns& columns, const Who& w, Panels& scores) const {
    const T scale = static_cast<T>(all.shape.scale);
    T logs[Base::most_columns];
    if (Keys)
      for (index_t c = 0; c < columns.count; ++c)
        logs[c] = static_cast<T>(of_query(w, columns.places[c], 0));
    for (index_t i = 0; i < rows.count; ++i) {
      if (!Keys) std::fill_n(logs, columns.count, static_cast<T>(of_query(w, rows.places[i], 0)));
      for (index_t c0 = 0; c0 < columns.count; c0 += width) {
        T* const line      = this->line_of(scores, c0, i);
        const index_t some = std::min(width, columns.count - c0);
        for (index_t c = 0; c < some; ++c)
          line[c] = exponential_of_part(scale * line[c] - logs[c0 + c]);
        if (!hides) continue;
        for (index_t c = 0; c < some; ++c) {
          const TokenPlace &row = rows.places[i], &column = columns.places[c0 + c];
          if (!(Keys ? all.sees(column, row) : all.sees(row, column))) line[c] = T(0);
        }
      }
    }
  }
  /// Replaces the weights by the scores' gradients, scale * weight * (product - dy . out).
  void slope(const Rows& rows, const Columns& columns, const Who& w, Panels& weights,
             Panels& products) const {
    const T scale = static_cast<T>(all.shape.scale);
    T means[Base::most_columns];
    if (Keys)
      for (index_t c = 0; c < columns.count; ++c)
        means[c] = static_cast<T>(of_query(w, columns.places[c], 1));
    for (index_t i = 0; i < rows.count; ++i) {
      if (!Keys) std::fill_n(means, columns.count, static_cast<T>(of_query(w, rows.places[i], 1)));
      for (index_t c0 = 0; c0 < columns.count; c0 += width) {
        T *const weight = this->line_of(weights, c0, i), *const product =
                                                             this->line_of(products, c0, i);
        const index_t some = std::min(width, columns.count - c0);
        for (index_t c = 0; c < some; ++c)
          weight[c] = scale * weight[c] * (product[c] - means[c0 + c]);
      }
    }
  }
};

/// The gradient of the queries, if it is wanted, and the sums of the scores' gradients. A work item
/// is a block of rows in all groups of a chunk.
template <class T>
struct AttendBiasTiles {
  using Back = AttendBackTiles<T, false>;
  Back back;
  BiasSums<T> to;

  index_t groups() const { return back.row_side.groups(); }
  index_t types() const { return (groups() + to.of_a_type - 1) / to.of_a_type; }
  index_t items() const { return to.chunks * types() * back.all.shape.heads * back.blocks(); }

  void operator()(index_t item) const {
    typename Back::Who w{};
    w.begin = item % back.blocks() * back.block();
    w.end   = std::min(w.begin + back.block(), to.per_tokens);
    T* const pairs =
        to.values + item / back.blocks() * to.per_tokens * to.per_tokens;  // of this chunk and head
    item /= back.blocks();
    w.h = item % back.all.shape.heads;
    item /= back.all.shape.heads;
    const index_t type = item % types(), chunk = item / types(),
                  all = back.all.batch * to.of_a_type;
    std::fill(pairs + w.begin * to.per_tokens, pairs + w.end * to.per_tokens, T(0));
    const T inverse = static_cast<T>(1.0 / back.all.shape.scale);
    for (index_t m = chunk * all / to.chunks; m < (chunk + 1) * all / to.chunks; ++m) {
      w.n     = m / to.of_a_type;
      w.group = type * to.of_a_type + m % to.of_a_type;
      if (w.group >= groups()) continue;
      back.run(w, [&](const auto& rows, const auto& columns, auto& slopes) {
        for (index_t i = 0; i < rows.count; ++i)
          for (index_t c = 0; c < columns.count; ++c)
            pairs[rows.places[i].token * to.per_tokens + columns.places[c].token] +=
                inverse * Back::line_of(slopes, c / Back::width * Back::width, i)[c % Back::width];
      });
    }
  }
};

}  // namespace shard::impl

#endif
