// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_ATTEND_BACK_GROUPS_HPP
#define SHARD_SRC_LAYERS_ATTEND_BACK_GROUPS_HPP

#include <algorithm>
#include <type_traits>

#include "attention_tile.hpp"
#include "scratch.hpp"

namespace shard::impl {

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

}  // namespace shard::impl

#endif
