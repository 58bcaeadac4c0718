// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <optional>
#include <utility>

#include "bfloat16_tiles.hpp"
#include "device_linear.hpp"
#include "input_runs.hpp"
#include "lanes.hpp"
#include "product_tile.hpp"
#include "launch.hpp"
#include "product.hpp"
#include "scratch.hpp"
#include "shard/base/error.hpp"
#include "shard/layers/impl/linear_kernels.hpp"

namespace shard::impl {

/// A product on a host. A work item computes a block of rows and a few tiles of columns. It packs
/// each tile's b into a panel, whatever the strides, and uses the panel for all rows.
template <class T>
struct ProductTiles {
  static constexpr int columns = Tile<T>::columns, max_rows = 512, least_rows = 64,
                       max_tiles = 576 / columns, packed_tiles = 384 / columns, panel_rows = 128,
                       group = 8, max_lines = 8 * columns;
  Product<T> p;
  index_t block, row_blocks, tiles, together;

  /// Chooses the sizes of work items for `threads`. The sums don't depend on them.
  ProductTiles(const Product<T>& product, index_t threads)
      : p(product),
        block(max_rows),
        tiles((product.columns + columns - 1) / columns),
        together(are_contiguous(p.b_column, 0, tiles) ? packed_tiles : max_tiles) {
    const auto blocks = [this] { return (p.rows + block - 1) / block; };
    const auto few    = [&] { return (tiles + together - 1) / together * blocks() < 4 * threads; };
    while (together > 1 && few()) together /= 2;
    while (block > least_rows && few()) block /= 2;
    row_blocks = blocks();
  }

  index_t items() const { return row_blocks * ((tiles + together - 1) / together); }

  void operator()(index_t item) const {
    const index_t tile0 = item / row_blocks * together, row0 = item % row_blocks * block;
    const index_t some = std::min(together, tiles - tile0), rows = std::min(block, p.rows - row0);
    const index_t of_rows          = packed_values<T>(rows, panel_rows);
    constexpr index_t panel_values = panel_rows * columns;
    // a row of contiguous columns is packed for all tiles at once
    const bool contiguous = are_contiguous(p.b_column, tile0, some);
    const index_t panels  = contiguous ? some : 1;
    T* const packed = scratch_values<T>(of_rows + panels * panel_values + some * rows * columns);
    T* const panel  = packed + of_rows;
    T* const sums   = panel + panels * panel_values;
    Bfloat16Products<T> rounded(rounds_to_bfloat16<T>(), rows, columns, panel_rows);
    if (p.columns % columns != 0) std::fill_n(panel, panels * panel_values, T(0));
    index_t a_offset[panel_rows], b_term[panel_rows], column[columns], lines[max_lines];
    for (index_t t = 0; t < some; ++t)
      for (index_t i = 0; i < rows; ++i)
        set_start(row0 + i, tile0 + t, sums + (t * rows + i) * columns);
    for (index_t r0 = 0; r0 < p.terms; r0 += panel_rows) {
      const index_t terms = std::min<index_t>(panel_rows, p.terms - r0);
      for (index_t r = 0; r < terms; ++r) {
        a_offset[r] = p.a_term.at(r0 + r);
        b_term[r]   = p.b_term.at(r0 + r);
      }
      const T* const first = p.a + row0 * p.a_row;
      const bool in_place  = are_even(a_offset, terms, 1);
      if (rounded && in_place)
        rounded.set_rows(first + a_offset[0], p.a_row, EvenRows{1}, terms);
      else if (rounded)
        rounded.set_rows(first, p.a_row, ListedRows{a_offset}, terms);
      const LeftRows<T, EvenRows> a =
          in_place || rounded ? LeftRows<T, EvenRows>(first + a_offset[0], p.a_row, EvenRows{1})
                              : packed_rows(first, rows, p.a_row, a_offset, terms, packed);
      const auto multiply = [&](index_t t, const T* b, const ReadAhead<T>& next) {
        const BlockSumRows<T> to{sums + t * rows * columns, columns};
        const index_t count = columns_of(tile0 + t);
        if (rounded) {
          if (b != nullptr) rounded.set_columns(b, EvenRows{columns}, count);
          rounded.add(to.begin, columns, to);
        } else {
          multiply_add_rows(rows, count, a, b, EvenRows{columns}, terms, to.begin, columns, to,
                            next);
        }
      };
      if (contiguous) {
        pack_rows(b_term, terms, tile0, some, panel);
        for (index_t t = 0; t < some; ++t) multiply(t, panel + t * panel_values, {});
        continue;
      }
      for (index_t t = 0; t < some; ++t) {
        const index_t count = list(p.b_column, tile0 + t, column);
        if (rounded && are_even(b_term, terms, 1)) {
          rounded.set_lines(p.b + b_term[0], column, count);
          multiply(t, nullptr, {});
          continue;
        }
        pack(b_term, terms, column, count, panel);
        // the next tile's lines, or those of the next terms of the first tile
        const bool last             = t + 1 == some;
        const index_t columns_ahead = list(p.b_column, tile0 + (last ? 0 : t + 1), column),
                      terms_ahead =
                          last ? std::min<index_t>(panel_rows, p.terms - r0 - terms) : terms;
        if (last)
          for (index_t r = 0; r < terms_ahead; ++r) b_term[r] = p.b_term.at(r0 + terms + r);
        const ReadAhead<T> next{p.b, lines,
                                list_lines(b_term, terms_ahead, column, columns_ahead, lines)};
        multiply(t, panel, next);
      }
    }
    if (p.c_row != 1 && are_contiguous(p.c_column, tile0, some)) {
      T* const to = p.c + row0 * p.c_row + p.c_column.at(tile0 * columns);
      for (index_t i = 0; i < rows; ++i)
        for (index_t t = 0; t < some; ++t)
          put_row(to + i * p.c_row + t * columns, sums + (t * rows + i) * columns,
                  columns_of(tile0 + t));
      return;
    }
    for (index_t t = 0; t < some; ++t) {
      const index_t count = list(p.c_column, tile0 + t, column);
      store(sums + t * rows * columns, rows, p.c + row0 * p.c_row, column, count);
    }
  }

 private:
  static bool are_even(const index_t* offsets, index_t count, index_t step) {
    for (index_t i = 1; i < count; ++i)
      if (offsets[i] - offsets[i - 1] != step) return false;
    return true;
  }

  void set_start(index_t row, index_t tile, T* to) const {
    std::fill_n(to, columns, T(0));
    if (p.start == nullptr) return;
    const T* const start = p.start + row * p.start_row + tile * columns * p.start_column;
    if (p.start_column == 0)
      std::fill_n(to, columns, *start);
    else
      copy_strided(start, p.start_column, columns_of(tile), to);
  }
  index_t columns_of(index_t tile) const {
    return std::min<index_t>(columns, p.columns - tile * columns);
  }
  /// Whether the columns of some tiles are contiguous. Rows of all tiles are then read and
  /// written at once: each row may be on a page of its own.
  bool are_contiguous(const Offsets& offsets, index_t tile0, index_t some) const {
    const index_t first = tile0 * columns, last = std::min(first + some * columns, p.columns) - 1;
    if (offsets.dims == 1) return offsets.stride[0] == 1;
    for (index_t j = first; j < last; ++j)
      if (offsets.at(j + 1) - offsets.at(j) != 1) return false;
    return true;
  }
  /// panels[t][r * columns + j] = b(r, t * columns + j) for contiguous columns.
  void pack_rows(const index_t* term, index_t terms, index_t tile0, index_t some, T* panels) const {
    const T* const first = p.b + p.b_column.at(tile0 * columns);
    for (index_t r = 0; r < terms; ++r)
      for (index_t t = 0; t < some; ++t)
        std::copy_n(first + term[r] + t * columns, columns_of(tile0 + t),
                    panels + (t * panel_rows + r) * columns);
  }

  /// Lists the offsets of a tile's columns. Returns their number.
  index_t list(const Offsets& offsets, index_t tile, index_t* column) const {
    const index_t first = tile * columns, count = std::min<index_t>(columns, p.columns - first);
    for (index_t j = 0; j < count; ++j) column[j] = offsets.at(first + j);
    return count;
  }

  /// Lists the cache lines of a part of b that pack reads. Returns their number.
  static index_t list_lines(const index_t* term, index_t terms, const index_t* column,
                            index_t count, index_t* lines) {
    index_t n            = 0;
    const bool rows      = are_even(column, count, 1);  // contiguous ones, else columns
    const index_t number = rows ? terms : count, length = rows ? count : terms;
    for (index_t i = 0; i < number && terms > 0; ++i)
      for (index_t at = 0; at < length && n < max_lines; at += line_values<T>)
        lines[n++] = rows ? term[i] + column[at] : term[at] + column[i];
    return n;
  }

  /// panel[r * columns + j] = b(r, j)
  void pack(const index_t* term, index_t terms, const index_t* column, index_t count,
            T* panel) const {
    constexpr int lines = Interleaved<T>::lines;
    if (are_even(column, count, 1)) {
      for (index_t r = 0; r < terms; ++r)
        copy_run(p.b + term[r] + column[0], count, panel + r * columns);
      return;
    }
    index_t j = 0;
    if (are_even(term, terms, 1))
      for (; j + lines <= count; j += lines) {
        const T* from[lines];
        for (int l = 0; l < lines; ++l) from[l] = p.b + term[0] + column[j + l];
        Interleaved<T>::copy(from, terms, panel + j, columns);
      }
    for (; j < count; ++j)
      for (index_t r = 0; r < terms; ++r) panel[r * columns + j] = p.b[term[r] + column[j]];
  }

  /// Stores the sums, in groups of rows or columns so that cache lines are written completely.
  void store(const T* sums, index_t rows, T* to, const index_t* column, index_t count) const {
    constexpr int lines = Interleaved<T>::lines;
    if (p.c_row != 1) {
      const bool line = are_even(column, count, 1);
      for (index_t i = 0; i < rows; ++i)
        if (line)
          put_row(to + i * p.c_row + column[0], sums + i * columns, count);
        else
          for (index_t j = 0; j < count; ++j)
            put(to[i * p.c_row + column[j]], sums[i * columns + j]);
      return;
    }
    const index_t step = count > 1 ? column[1] - column[0] : 0;
    index_t done       = 0;
    if (are_even(column, count, step)) {
      done = rows - rows % lines;
      T part[group * lines];
      for (index_t j = 0; j < count; j += group)
        for (index_t i = 0; i < done; i += lines) {
          const index_t some = std::min<index_t>(group, count - j);
          const T* from[lines];
          for (int l = 0; l < lines; ++l) from[l] = sums + (i + l) * columns + j;
          T* const first = to + i + column[j];
          Interleaved<T>::copy(from, some, p.add ? part : first, p.add ? lines : step);
          for (index_t k = 0; p.add && k < some; ++k)
            for (int l = 0; l < lines; ++l) first[k * step + l] += part[k * lines + l];
        }
    }
    for (; done < rows; done += 2 * group)
      for (index_t j = 0; j < count; ++j)
        for (index_t i = done; i < std::min<index_t>(rows, done + 2 * group); ++i)
          put(to[i + column[j]], sums[i * columns + j]);
  }
  void put(T& to, T sum) const { to = p.add ? to + sum : sum; }
  void put_row(T* to, const T* sums, index_t count) const {
    if (p.add)
      for (index_t j = 0; j < count; ++j) to[j] += sums[j];
    else
      std::copy_n(sums, count, to);
  }
};

/// Sums over rows on a host. A work item sums `width` neighbouring elements, which share cache
/// lines, over all rows. Sums are double, because there may be many rows.
template <class T>
struct RowSums {
  static constexpr int width = 64;
  T* sums;
  index_t step;
  TensorRows<const T> in;
  index_t rows;

  void operator()(index_t item) const {
    const index_t first = item * width,
                  count = in.length - first < width ? in.length - first : width;
    double sum[width]   = {};
    for (index_t r = 0; r < rows; ++r) {
      const T* row = in.origin + in.rows.at(r) + first * in.step;
      for (index_t i = 0; i < count; ++i) sum[i] += static_cast<double>(row[i * in.step]);
    }
    for (index_t i = 0; i < count; ++i) sums[(first + i) * step] += static_cast<T>(sum[i]);
  }
};

/// The same product with rows and columns exchanged, if the columns of b and c have one step each.
template <class T>
std::optional<Product<T>> transposed(const Product<T>& p) {
  if (p.b_column.dims > 1 || p.c_column.dims > 1) return std::nullopt;
  Product<T> q = p;
  std::swap(q.a, q.b);
  std::swap(q.rows, q.columns);
  std::swap(q.a_term, q.b_term);
  std::swap(q.start_row, q.start_column);
  q.a_row    = p.b_column.stride[0];
  q.c_row    = p.c_column.stride[0];
  q.b_column = q.c_column = {};
  q.b_column.append(p.rows, p.a_row);
  q.c_column.append(p.rows, p.c_row);
  return q;
}

/// \param pieces see multiply_on_device
template <class Space, class T>
void multiply(const char* name, const Space& space, const Product<T>& product, bool pieces) {
  if constexpr (is_host_v<Space>) {
    // The operand with contiguous terms is the first one then: sums are stored in order.
    const bool turns =
        rounds_to_bfloat16<T>() && product.b_term.dims == 1 && product.b_term.stride[0] == 1;
    const ProductTiles<T> functor(turns ? transposed(product).value_or(product) : product,
                                  static_cast<index_t>(space.concurrency()));
    launch(name, space, functor.items(), functor);
  } else {
    multiply_on_device(name, space, product, pieces);
  }
}

template <class Space, class T>
void LinearKernels<Space, T>::contract(const Space& space, const TensorRows<T>& to,
                                       const TensorRows<const T>& from, const Matrix<const T>& w,
                                       const T* start, index_t start_step, bool add) {
  Product<T> p;
  p.c         = to.origin;
  p.a         = w.origin;
  p.b         = from.origin;
  p.start     = start;
  p.rows      = to.length;
  p.columns   = to.rows.count();
  p.terms     = from.length;
  p.c_row     = to.step;
  p.a_row     = w.row;
  p.start_row = start_step;
  p.c_column  = to.rows;
  p.b_column  = from.rows;
  p.a_term.append(from.length, w.column);
  p.b_term.append(from.length, from.step);
  p.add = add;
  multiply("shard::linear", space, p, false);
}

template <class Space, class T>
void LinearKernels<Space, T>::add_products(const Space& space, const Matrix<T>& dw,
                                           const TensorRows<const T>& dy,
                                           const TensorRows<const T>& x) {
  Product<T> p;
  p.c       = dw.origin;
  p.a       = dy.origin;
  p.b       = x.origin;
  p.rows    = dy.length;
  p.columns = x.length;
  p.terms   = x.rows.count();
  p.c_row   = dw.row;
  p.a_row   = dy.step;
  p.a_term  = dy.rows;
  p.b_term  = x.rows;
  p.c_column.append(x.length, dw.column);
  p.b_column.append(x.length, x.step);
  p.add = true;
  multiply("shard::linear_weight", space, p, true);
}

template <class Space, class T>
void LinearKernels<Space, T>::sum_rows(const Space& space, T* sums, index_t step,
                                       const TensorRows<const T>& rows) {
  if constexpr (is_host_v<Space>) {
    constexpr int width = RowSums<T>::width;
    launch("shard::linear_bias", space, (rows.length + width - 1) / width,
           RowSums<T>{sums, step, rows, rows.rows.count()});
  } else {
    sum_rows_on_device("shard::linear_bias", space, sums, step, rows);
  }
}

void require_linear_dim(const LinearTensor& a, int da, const LinearTensor& b, int db) {
  const auto name = [](const LinearTensor& t, int d) {
    return "dimension " + text(d) + " of \"" + t.label + "\"";
  };
  if (a.geometry != nullptr && b.geometry != nullptr) {
    if (a.geometry->mesh != b.geometry->mesh)
      throw_argument("linear", {"fields \"", a.label, "\" and \"", b.label,
                                "\" live on different meshes; a Linear's fields share a mesh"});
    const Partition &x = a.geometry->dims[Geometry::at(da)].partition,
                    &y = b.geometry->dims[Geometry::at(db)].partition;
    if (!(x == y))
      throw_argument("linear", {name(a, da), " has the partition ", x.describe(), " and ",
                                name(b, db), " ", y.describe(), "; they are one dimension"});
  } else if (a.extent[da] != b.extent[db]) {
    throw_argument("linear", {name(a, da), " has extent ", text(a.extent[da]), " and ", name(b, db),
                              " ", text(b.extent[db]), "; they are one dimension"});
  }
}

void require_linear_rows(const LinearTensor& a, const LinearTensor& b) {
  for (int d = 0; d < a.rank - 1; ++d) require_linear_dim(a, d, b, d);
}

SHARD_KERNELS(LinearKernels)

}  // namespace shard::impl
