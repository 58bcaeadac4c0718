// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_CORRELATE_TILES_HPP
#define SHARD_SRC_LAYERS_CORRELATE_TILES_HPP

#include <algorithm>
#include <cstdlib>

#include "bfloat16_tiles.hpp"
#include "correlation.hpp"
#include "input_runs.hpp"
#include "lanes.hpp"
#include "product_tile.hpp"
#include "scratch.hpp"

namespace shard::impl {

/// Correlation and its transpose on a host, as a matrix product (im2col by tiles). A work item
/// computes up to max_rows output channels of a group for a strip, a few tiles of cells of one
/// residue class. For each block of terms it gathers a tile's inputs into a panel, which all rows
/// use, and adds the products in ascending order.
template <class T, bool Transposed, class Window>
struct CorrelateTiles : Correlation<T, Transposed, Window> {
  using Operands = Correlation<T, Transposed, Window>;
  using Operands::bias, Operands::in, Operands::in_per_group, Operands::onto, Operands::out,
      Operands::out_per_group, Operands::weight_in, Operands::weight_out, Operands::window;
  static constexpr int columns = Tile<T>::columns, panel_rows = 128, max_lines = 4 * panel_rows;
  /// Rows that read the inputs in place, if they are in the block: more rows share a packed copy,
  /// whose terms aren't on as many pages.
  static constexpr index_t few_rows = 64, few_rows_of_a_tap = 16;
  /// A strip has at most strip_cells cells, and a work item at most max_rows output channels, so
  /// that the sums and the weights of a block of terms fit into the second-level cache.
  static constexpr index_t max_rows = 1024 / static_cast<index_t>(sizeof(T)), strip_cells = 384,
                           max_together = strip_cells / columns;

  index_t rows_at_once, row_blocks, together, pieces, tiles;
  index_t classes[3];
  bool by_lines;  ///< a tile lies within one line; otherwise it may cross lines
  bool rounds;    ///< factors are rounded to bfloat16

  /// Chooses the sizes of work items for `threads`. The sums don't depend on them.
  CorrelateTiles(const Operands& operands, index_t threads)
      : Operands(operands), rounds(rounds_to_bfloat16<T>(in_per_group, out_per_group)) {
    index_t cells[3];
    for (int d = 0; d < 3; ++d) {
      classes[d] = Transposed ? std::min<index_t>(window.stride[d], out.extent(d)) : 1;
      cells[d]   = classes[d] == 0 ? 0 : (out.extent(d) + classes[d] - 1) / classes[d];
    }
    // Tiles within one line copy less, but may leave vector lanes idle.
    constexpr index_t lanes  = Tile<T>::lanes;
    const index_t whole_line = (cells[2] + lanes - 1) / lanes * lanes;
    by_lines = window.kernel[2] > classes[2] && 8 * (whole_line - cells[2]) <= cells[2];
    pieces   = (cells[2] + columns - 1) / columns;
    tiles    = by_lines ? cells[0] * cells[1] * pieces
                        : (cells[0] * cells[1] * cells[2] + columns - 1) / columns;
    together =
        rounds || out_per_group > few_rows ? max_together : std::max<index_t>(1, max_together / 8);
    const auto cut = [this](index_t rows) {
      row_blocks   = std::max<index_t>(1, (out_per_group + rows - 1) / rows);
      rows_at_once = (out_per_group + row_blocks - 1) / row_blocks;
    };
    const auto few = [&] { return threads > 1 && items() < 4 * threads; };
    cut(max_rows);
    while (together > 1 && few()) together = (together + 1) / 2;
    while (rows_at_once > few_rows && few()) cut((rows_at_once + 1) / 2);
  }

  index_t strips() const { return (tiles + together - 1) / together; }
  index_t items() const {
    return out.batch * window.groups * row_blocks * classes[0] * classes[1] * classes[2] * strips();
  }

  Sweep class_of(int d, index_t residue) const {
    return this->sweep(d, out.begin[d], out.extent(d), residue);
  }

  /// The cells of a tile, and how its inputs are read: in place, from copied lines that taps share,
  /// or from a row of the panel for each term.
  struct Part {
    Run runs[columns];
    int run_count;
    index_t count;
    bool in_block;  ///< all inputs are contiguous cells of the block
    bool direct, shares;
    bool whole;  ///< a full tile of contiguous outputs: the last products write it directly
    T* cells;    ///< the first output
  };
  struct Place {
    Sweep x, y, z;
    index_t n, group, row0, rows;

    index_t taps() const { return z.taps * y.taps * x.taps; }
  };

  void operator()(index_t item) const {
    const auto take = [&item](index_t count) {
      const index_t i = item % count;
      item /= count;
      return i;
    };
    Place at;
    // The classes along x are consecutive items: they write to the same cache lines.
    at.x                = class_of(2, take(classes[2]));
    const index_t strip = take(strips());
    at.y = class_of(1, take(classes[1])), at.z = class_of(0, take(classes[0]));
    const index_t row_block = take(row_blocks);
    at.group                = take(window.groups);
    at.n                    = item;
    at.row0                 = at.group * out_per_group + row_block * rows_at_once;
    at.rows = std::min<index_t>(rows_at_once, out_per_group - row_block * rows_at_once);

    Part parts[max_together];
    index_t some      = 0;
    const index_t end = std::min(tiles, (strip + 1) * together);
    for (index_t tile = strip * together; tile < end; ++tile)
      if (place(at, tile, parts[some])) ++some;
    if (some == 0 || at.rows <= 0) return;
    const index_t tile_values = at.rows * columns,
                  packed      = packs_weights() ? packed_values<T>(at.rows, panel_rows) : 0;
    T* const weights          = scratch_values<T>(packed + some * tile_values);
    T* const sums             = weights + packed;
    for (index_t s = 0; s < some; ++s) begin_sums(at, parts[s], sums + s * tile_values);
    const bool there = add_products(at, parts, some, weights, sums);
    for (index_t s = 0; s < some; ++s)
      if (!there || !parts[s].whole) store(at, parts[s], sums + s * tile_values);
  }

 private:
  /// Finds the cells of a tile. Returns false if the class has none there.
  bool place(const Place& at, index_t tile, Part& part) const {
    const Sweep &x = at.x, &y = at.y, &z = at.z;
    const index_t piece = by_lines ? tile % pieces * columns : 0,
                  line = by_lines ? tile / pieces : 0, lines = z.count * y.count;
    const index_t first = by_lines ? line * x.count + piece : tile * columns,
                  end   = by_lines ? (line + 1) * x.count : lines * x.count;
    if (first >= end || line >= lines) return false;
    part.count           = std::min<index_t>(columns, end - first);
    part.run_count       = cut_into_runs(first, part.count, y.count, x.count, part.runs);
    const bool one       = part.run_count == 1;
    const index_t x_step = x.step * out.stride[4];
    part.whole           = one && part.count == columns && x_step == 1;
    part.cells           = output(at, 0, part.runs[0]);
    const index_t taps   = at.taps();
    part.in_block        = one && part.count == columns && taps > 0 && taps <= panel_rows &&
                    x.in_step * in.stride[4] == 1 && all_held(z, y, x, part.runs[0]);
    part.direct = part.in_block && at.rows <= (taps == 1 ? few_rows_of_a_tap : few_rows);
    part.shares = one && !part.direct && taps_share_lines(x);
    return true;
  }
  /// Pointer to the first output of a run.
  T* output(const Place& at, index_t row, const Run& run) const {
    return &out.at(at.n, at.row0 + row, at.z.first + run.z * at.z.step,
                   at.y.first + run.y * at.y.step, at.x.first + run.x * at.x.step);
  }

  void begin_sums(const Place& at, const Part& part, T* sums) const {
    for (index_t m = 0; m < at.rows; ++m) {
      T* const row = sums + m * columns;
      std::fill_n(row, columns, bias == nullptr ? T(0) : bias[at.row0 + m]);
      if (!onto) continue;
      for (int r = 0; r < part.run_count; ++r)
        copy_strided(output(at, m, part.runs[r]), at.x.step * out.stride[4], part.runs[r].length,
                     row + part.runs[r].place);
    }
  }
  void store(const Place& at, const Part& part, const T* sums) const {
    const index_t x_step = at.x.step * out.stride[4];
    for (index_t m = 0; m < at.rows; ++m)
      for (int r = 0; r < part.run_count; ++r) {
        const Run& run      = part.runs[r];
        T* const to         = output(at, m, run);
        const T* const from = sums + m * columns + run.place;
        if (x_step == 1)
          copy_run(from, run.length, to);
        else
          for (index_t i = 0; i < run.length; ++i) to[i * x_step] = from[i];
      }
  }

  /// True if the rows of the weights are contiguous, and their terms far apart.
  bool packs_weights() const { return Transposed && weight_out == 1 && !rounds; }

  /// A block of terms: taps [t0, t0 + t_count) of channels [c0, c0 + c_count). Several channels
  /// have all taps; a part of the taps is lines of the window, if a line has no more than
  /// panel_rows.
  struct Terms {
    index_t c0, c_count, t0, t_count;

    index_t count() const { return c_count * t_count; }
  };

  /// Adds all products to the sums; the last step writes the result of whole tiles to the output.
  /// Returns false if there were no products.
  bool add_products(const Place& at, const Part* parts, index_t some, T* packed, T* sums) const {
    const Sweep &x = at.x, &y = at.y, &z = at.z;
    const index_t taps = at.taps();
    if (taps == 0 || in_per_group == 0) return false;
    alignas(vector_bytes) T panel[panel_rows * columns];
    index_t offsets[panel_rows], in_place[panel_rows], in_lines[panel_rows], lines[max_lines];
    index_t line_count = 0;
    bool any_direct = false, any_shares = false, any_in_block = false, any_partial = false;
    for (index_t s = 0; s < some; ++s) {
      any_direct   = any_direct || parts[s].direct;
      any_shares   = any_shares || parts[s].shares;
      any_in_block = any_in_block || parts[s].in_block;
      any_partial  = any_partial || parts[s].count < columns;
    }
    if (any_partial) std::fill_n(panel, panel_rows * columns, T(0));
    const index_t channel_step = std::max<index_t>(1, panel_rows / taps),
                  tap_range    = taps <= panel_rows     ? taps
                                 : x.taps <= panel_rows ? panel_rows / x.taps * x.taps
                                                        : panel_rows,
                  line_size    = any_shares ? x.in_step * row_of_line(x) : 0;
    Bfloat16Products<T> rounded(rounds, at.rows, columns, panel_rows);
    const T* channels = in.origin + at.n * in.stride[0] + at.group * in_per_group * in.stride[1];
    const T* const weights = this->weights_of(at.group, at.row0);
    const auto first_input = [&](const Part& part) {
      const Run& run = part.runs[0];
      return channels + input_of(z, 0, run.z) * in.stride[2] +
             input_of(y, 0, run.y) * in.stride[3] + input_of(x, 0, run.x) * in.stride[4];
    };
    for (index_t c0 = 0; c0 < in_per_group; c0 += channel_step)
      for (index_t t0 = 0; t0 < taps; t0 += tap_range) {
        const Terms terms{c0, std::min(channel_step, in_per_group - c0), t0,
                          std::min(tap_range, taps - t0)};
        if (c0 == 0 || tap_range < taps)  // else the same for all channels
          for (index_t t = 0; t < terms.t_count; ++t) {
            const index_t tx = (t0 + t) % x.taps, ty = (t0 + t) / x.taps % y.taps,
                          tz  = (t0 + t) / x.taps / y.taps;
            const index_t tap = this->tap(z, y, x, tz, ty, tx);
            for (index_t c = 0; Transposed && c < terms.c_count; ++c)
              offsets[c * terms.t_count + t] = c * weight_in + tap;
            if (any_direct)
              for (index_t c = 0; c < terms.c_count; ++c)
                in_place[c * terms.t_count + t] =
                    c * in.stride[1] + tz * z.in_tap_step * in.stride[2] +
                    ty * y.in_tap_step * in.stride[3] + tx * x.in_tap_step * in.stride[4];
            if (any_shares)
              for (index_t c = 0; c < terms.c_count; ++c)
                in_lines[c * terms.t_count + t] =
                    (c * (terms.t_count / x.taps) + t / x.taps) * line_size + place_in_line(x, tx);
          }
        if (c0 == 0 && t0 == 0 && any_in_block)
          line_count = list_lines(z, y, x, terms.c_count, lines);
        const bool last     = c0 + terms.c_count == in_per_group && t0 + terms.t_count == taps;
        const T* const from = weights + c0 * weight_in;
        if (packs_weights()) packed_rows(from, at.rows, 1, offsets, terms.count(), packed);
        if constexpr (Transposed) {
          if (rounded) rounded.set_rows(from, weight_out, ListedRows{offsets}, terms.count());
        } else if (rounded) {
          rounded.set_rows(from + t0, weight_out, EvenRows{1}, terms.count());
        }
        const auto multiply = [&](index_t used, const T* b, const auto& rows_of_b, const T* earlier,
                                  const SumRows<T>& to, const ReadAhead<T>& next) {
          const auto add = [&](const auto& a) {
            multiply_add_rows(at.rows, used, a, b, rows_of_b, terms.count(), earlier, columns, to,
                              next);
          };
          if (rounded) {
            rounded.set_columns(b, rows_of_b, used);
            rounded.add(earlier, columns, to);
          } else if constexpr (!Transposed)  // the terms are contiguous
            add(LeftRows(from + t0, weight_out, EvenRows{1}));
          else if (packs_weights())
            add(packed_left(packed, terms.count()));
          else
            add(LeftRows(from, weight_out, ListedRows{offsets}));
        };
        for (index_t s = 0; s < some; ++s) {
          const Part& part = parts[s];
          T* const of_tile = sums + s * at.rows * columns;
          ReadAhead<T> next{nullptr, lines, 0};
          if (part.in_block) {
            const T* const ahead =
                s + 1 < some ? first_input(parts[s + 1]) + c0 * in.stride[1]
                : last       ? first_input(part) + columns
                             : first_input(parts[0]) + (c0 + terms.c_count) * in.stride[1];
            next = {ahead, lines, line_count};
          }
          const SumRows<T> to = last && part.whole ? SumRows<T>{part.cells, out.stride[1]}
                                                   : SumRows<T>{of_tile, columns};
          if (part.direct) {
            multiply(part.count, first_input(part) + c0 * in.stride[1], ListedRows{in_place},
                     of_tile, to, next);
          } else if (part.shares) {
            gather_lines(at, part.runs[0], channels, terms, panel);
            multiply(part.count, panel, ListedRows{in_lines}, of_tile, to, next);
          } else {
            gather_terms(at, part, channels, terms, panel);
            multiply(part.count, panel, EvenRows{columns}, of_tile, to, next);
          }
        }
      }
    return true;
  }

  /// Copies a row for each term.
  void gather_terms(const Place& at, const Part& part, const T* channels, const Terms& terms,
                    T* panel) const {
    const Sweep &x = at.x, &y = at.y, &z = at.z;
    for (index_t t = 0; t < terms.t_count; ++t) {
      const index_t tap = terms.t0 + t, tx = tap % x.taps, ty = tap / x.taps % y.taps,
                    tz = tap / x.taps / y.taps;
      for (int r = 0; r < part.run_count; ++r) {
        const Run& run = part.runs[r];
        copy_inputs(find_inputs(in, input_of(z, tz, run.z), input_of(y, ty, run.y),
                                input_of(x, tx, run.x), x.in_step, run.length),
                    run.length, channels + terms.c0 * in.stride[1], terms.c_count,
                    panel + t * columns + run.place, terms.t_count * columns);
      }
    }
  }

  /// Lists the offsets of the cache lines of these channels that the next tile reads. Returns their
  /// number.
  index_t list_lines(const Sweep& z, const Sweep& y, const Sweep& x, index_t channels,
                     index_t* lines) const {
    constexpr index_t line = line_values<T>;
    const index_t reach = (x.taps - 1) * x.in_tap_step, begin = std::min<index_t>(reach, 0),
                  end = columns + std::max<index_t>(reach, 0);
    // only the last row along y: earlier tiles have read the others
    const index_t furthest = std::max<index_t>(0, (y.taps - 1) * y.in_tap_step);
    index_t n              = 0;
    for (index_t c = 0; c < channels; ++c)
      for (index_t tz = 0; tz < z.taps; ++tz)
        for (index_t i = begin; i < end + line - 1 && n < max_lines; i += line)
          lines[n++] = c * in.stride[1] + tz * z.in_tap_step * in.stride[2] +
                       furthest * in.stride[3] + std::min(i, end - 1);
    return n;
  }

  /// True if the block contains every cell that a run reads.
  bool all_held(const Sweep& z, const Sweep& y, const Sweep& x, const Run& run) const {
    const auto held = [this](int d, const Sweep& s, index_t cell, index_t length) {
      const index_t a = input_of(s, 0, cell), b = input_of(s, s.taps - 1, cell);
      return std::min(a, b) >= in.begin[d] && std::max(a, b) + (length - 1) * s.in_step < in.end[d];
    };
    return held(0, z, run.z, 1) && held(1, y, run.y, 1) && held(2, x, run.x, run.length);
  }

  /// The input cell that an output cell reads with a tap; both are indices in the sweep.
  static index_t input_of(const Sweep& sweep, index_t tap, index_t cell) {
    return sweep.in + tap * sweep.in_tap_step + cell * sweep.in_step;
  }

  /// Copies a run of inputs of each channel, with zeros for cells outside the block.
  void copy_inputs(const RunOfInputs& from, index_t length, const T* channels, index_t count, T* to,
                   index_t to_step) const {
    for (index_t c = 0; c < count; ++c, to += to_step) {
      const T* run = channels + c * in.stride[1] + from.address;
      for (index_t i = 0; i < from.begin; ++i) to[i] = T(0);
      copy_strided(run + from.begin * from.step, from.step, from.end - from.begin, to + from.begin);
      for (index_t i = from.end; i < length; ++i) to[i] = T(0);
    }
  }

  /// The size of one of the in_step rows that a line of the input is copied to. Row r has the cells
  /// r, r + in_step, r + 2 in_step, ... of the line, which the taps at these places read.
  static index_t row_of_line(const Sweep& x) {
    constexpr index_t lanes = Tile<T>::lanes;
    const index_t more      = (x.taps - 1) * std::abs(x.in_tap_step) / x.in_step;
    return (columns + more + lanes - 1) / lanes * lanes;
  }
  /// True if the panel has space for each line of the input once, in place of once for each tap
  /// along x.
  static bool taps_share_lines(const Sweep& x) {
    return x.taps > 1 && x.taps <= panel_rows && x.in_step >= 1 &&
           (x.in_step == 1 || x.in_tap_step > 0) && x.in_step * row_of_line(x) <= x.taps * columns;
  }
  /// The offset in the copied line of a tap's first cell.
  static index_t place_in_line(const Sweep& x, index_t tap) {
    const index_t cell = (x.in_tap_step < 0 ? tap - (x.taps - 1) : tap) * x.in_tap_step;
    return cell % x.in_step * row_of_line(x) + cell / x.in_step;
  }
  /// Copies each line of inputs once.
  void gather_lines(const Place& at, const Run& run, const T* channels, const Terms& terms,
                    T* panel) const {
    const Sweep &x = at.x, &y = at.y, &z = at.z;
    const index_t length =
                      (run.length - 1) * x.in_step + 1 + (x.taps - 1) * std::abs(x.in_tap_step),
                  first = input_of(x, x.in_tap_step < 0 ? x.taps - 1 : 0, run.x),
                  size = x.in_step * row_of_line(x), lines = terms.t_count / x.taps;
    const T* const inputs = channels + terms.c0 * in.stride[1];
    for (index_t l = 0; l < lines; ++l) {
      const index_t line = terms.t0 / x.taps + l;
      const auto from    = find_inputs(in, input_of(z, line / y.taps, run.z),
                                       input_of(y, line % y.taps, run.y), first, 1, length);
      T* const to        = panel + l * size;
      if (x.in_step == 1)
        copy_inputs(from, length, inputs, terms.c_count, to, lines * size);
      else
        for (index_t c = 0; c < terms.c_count; ++c)
          copy_to_rows(from, length, inputs + c * in.stride[1], x.in_step, row_of_line(x),
                       to + c * lines * size);
    }
  }
  /// Copies a line of inputs, with zeros for cells outside the block, to `rows` rows: cell i to row
  /// i % rows.
  static void copy_to_rows(const RunOfInputs& from, index_t length, const T* channel, index_t rows,
                           index_t pitch, T* to) {
    const auto cell       = [&](index_t i) -> T& { return to[i % rows * pitch + i / rows]; };
    const index_t first   = std::min(from.end, (from.begin + rows - 1) / rows * rows),
                  groups  = (from.end - first) / rows;
    const T* const inputs = channel + from.address;
    for (index_t i = 0; i < from.begin; ++i) cell(i) = T(0);
    for (index_t i = from.begin; i < first; ++i) cell(i) = inputs[i * from.step];
    const T* const whole = inputs + first * from.step;
    T* const row         = to + first / rows;
    if (from.step == 1 && rows == Interleaved<T>::lines)
      Interleaved<T>::divide(whole, groups, row, pitch);
    else if (from.step == 1 && rows == 2)
      copy_groups<2>(whole, groups, row, pitch);
    else if (from.step == 1 && rows == 4)
      copy_groups<4>(whole, groups, row, pitch);
    else
      for (index_t r = 0; r < rows; ++r)
        copy_strided(whole + r * from.step, rows * from.step, groups, row + r * pitch);
    for (index_t i = first + groups * rows; i < from.end; ++i) cell(i) = inputs[i * from.step];
    for (index_t i = from.end; i < length; ++i) cell(i) = T(0);
  }
  template <int Rows>
  static void copy_groups(const T* from, index_t groups, T* to, index_t pitch) {
    for (index_t i = 0; i < groups; ++i)
      for (int r = 0; r < Rows; ++r) to[r * pitch + i] = from[i * Rows + r];
  }
};

}  // namespace shard::impl

#endif
