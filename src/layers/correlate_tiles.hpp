// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_CORRELATE_TILES_HPP
#define SHARD_SRC_LAYERS_CORRELATE_TILES_HPP

#include <algorithm>
#include <cstdlib>

#include "correlation.hpp"
#include "input_runs.hpp"
#include "lanes.hpp"

namespace shard::impl {

/// Correlation and its transpose on a host, as a matrix product (im2col by tiles). A work item
/// computes up to max_rows output channels of a group for a tile of cells of one residue class. It
/// gathers the tile's inputs into a panel, and adds the products in ascending order.
template <class T, bool Transposed, class Window>
struct CorrelateTiles : Correlation<T, Transposed, Window> {
  using Operands = Correlation<T, Transposed, Window>;
  using Operands::bias, Operands::in, Operands::in_per_group, Operands::onto, Operands::out,
      Operands::out_per_group, Operands::weight_in, Operands::weight_out, Operands::window;
  static constexpr int columns = Tile<T>::columns, max_rows = 64, panel_rows = 128,
                       max_lines = 4 * panel_rows;

  index_t row_blocks, pieces, tiles;
  index_t classes[3];
  bool by_lines;  ///< a tile lies within one line; otherwise it may cross lines

  explicit CorrelateTiles(const Operands& operands)
      : Operands(operands), row_blocks((out_per_group + max_rows - 1) / max_rows) {
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
  }

  index_t items() const {
    return out.batch * window.groups * row_blocks * classes[0] * classes[1] * classes[2] * tiles;
  }

  Sweep class_of(int d, index_t residue) const {
    return this->sweep(d, out.begin[d], out.extent(d), residue);
  }

  void operator()(index_t item) const {
    const auto take = [&item](index_t count) {
      const index_t i = item % count;
      item /= count;
      return i;
    };
    // The classes along x are consecutive items: they write to the same cache lines.
    const Sweep x      = class_of(2, take(classes[2]));
    const index_t tile = take(tiles);
    const Sweep y = class_of(1, take(classes[1])), z = class_of(0, take(classes[0]));
    const index_t row_block = take(row_blocks), group = take(window.groups), n = item;
    const index_t piece = by_lines ? tile % pieces * columns : 0,
                  line = by_lines ? tile / pieces : 0, lines = z.count * y.count;
    const index_t first = by_lines ? line * x.count + piece : tile * columns,
                  end   = by_lines ? (line + 1) * x.count : lines * x.count;
    if (first >= end || line >= lines) return;
    const index_t count = std::min<index_t>(columns, end - first);
    const index_t row0  = group * out_per_group + row_block * max_rows;
    const index_t rows  = std::min<index_t>(max_rows, out_per_group - row_block * max_rows);

    Run runs[columns];
    const int run_count = cut_into_runs(first, count, y.count, x.count, runs);

    alignas(vector_bytes) T sums[max_rows * columns];
    const index_t x_step = x.step * out.stride[4];
    for (index_t m = 0; m < rows; ++m)
      std::fill_n(sums + m * columns, columns, bias == nullptr ? T(0) : bias[row0 + m]);
    if (onto)
      for (index_t m = 0; m < rows; ++m)
        for (int r = 0; r < run_count; ++r) {
          const Run& run = runs[r];
          copy_strided(&out.at(n, row0 + m, z.first + run.z * z.step, y.first + run.y * y.step,
                               x.first + run.x * x.step),
                       x_step, run.length, sums + m * columns + run.place);
        }
    // The last products write a full tile of contiguous cells directly; other tiles are copied.
    const bool whole = run_count == 1 && count == columns && x_step == 1;
    T* const cells   = &out.at(n, row0, z.first + runs[0].z * z.step, y.first + runs[0].y * y.step,
                               x.first + runs[0].x * x.step);
    const bool there =
        add_products(x, y, z, n, group, row0, rows, runs, run_count, count, sums,
                     whole ? SumRows<T>{cells, out.stride[1]} : SumRows<T>{sums, columns});
    if (whole && there) return;

    for (index_t m = 0; m < rows; ++m)
      for (int r = 0; r < run_count; ++r) {
        const Run& run = runs[r];
        T* to          = &out.at(n, row0 + m, z.first + run.z * z.step, y.first + run.y * y.step,
                                 x.first + run.x * x.step);
        const T* from  = sums + m * columns + run.place;
        if (x_step == 1)
          for (index_t i = 0; i < run.length; ++i) to[i] = from[i];
        else
          for (index_t i = 0; i < run.length; ++i) to[i * x_step] = from[i];
      }
  }

  /// Adds all products to the sums; the last step writes the result to `to`. Returns false if there
  /// were no products.
  bool add_products(const Sweep& x, const Sweep& y, const Sweep& z, index_t n, index_t group,
                    index_t row0, index_t rows, const Run* runs, int run_count, index_t count,
                    T* sums, const SumRows<T>& to) const {
    const index_t taps = z.taps * y.taps * x.taps;
    if (taps == 0 || in_per_group == 0) return false;
    alignas(vector_bytes) T panel[panel_rows * columns];
    index_t offsets[panel_rows], places[panel_rows], lines[max_lines];
    ReadAhead<T> next{nullptr, lines, 0};
    const bool direct = run_count == 1 && count == columns && taps <= panel_rows &&
                        x.in_step * in.stride[4] == 1 && all_held(z, y, x, runs[0]),
               shares = !direct && run_count == 1 && taps_share_lines(x, taps);
    if (count < columns) std::fill_n(panel, panel_rows * columns, T(0));
    const index_t channel_step = std::max<index_t>(1, panel_rows / taps),
                  tap_range    = std::min<index_t>(taps, panel_rows),
                  line_size    = shares ? x.in_step * row_of_line(x) : 0;
    const T* channels          = in.origin + n * in.stride[0] + group * in_per_group * in.stride[1];
    const T* weights           = this->weights_of(group, row0);
    // the input of the first tap, if the tile reads the inputs in place
    const T* first = channels;
    if (direct)
      first += input_of(z, 0, runs[0].z) * in.stride[2] + input_of(y, 0, runs[0].y) * in.stride[3] +
               input_of(x, 0, runs[0].x) * in.stride[4];
    for (index_t c0 = 0; c0 < in_per_group; c0 += channel_step) {
      const index_t c_count = std::min(channel_step, in_per_group - c0);
      for (index_t t0 = 0; t0 < taps; t0 += tap_range) {
        const index_t t_count = std::min(tap_range, taps - t0);
        if (shares) gather_lines(x, y, z, runs[0], channels + c0 * in.stride[1], c_count, panel);
        for (index_t t = 0; t < t_count; ++t) {
          const index_t tx = (t0 + t) % x.taps, ty = (t0 + t) / x.taps % y.taps,
                        tz = (t0 + t) / x.taps / y.taps;
          if (c0 == 0 || tap_range < taps) {
            const index_t tap = this->tap(z, y, x, tz, ty, tx);
            for (index_t c = 0; c < c_count; ++c) offsets[c * t_count + t] = c * weight_in + tap;
            const index_t place = direct ? tz * z.in_tap_step * in.stride[2] +
                                               ty * y.in_tap_step * in.stride[3] +
                                               tx * x.in_tap_step * in.stride[4]
                                         : (tz * y.taps + ty) * line_size + place_in_line(x, tx);
            const index_t step  = direct ? in.stride[1] : z.taps * y.taps * line_size;
            for (index_t c = 0; c < c_count; ++c) places[c * t_count + t] = c * step + place;
          }
          if (direct || shares) continue;
          for (int r = 0; r < run_count; ++r) {
            const Run& run = runs[r];
            copy_inputs(find_inputs(in, input_of(z, tz, run.z), input_of(y, ty, run.y),
                                    input_of(x, tx, run.x), x.in_step, run.length),
                        run.length, channels + c0 * in.stride[1], c_count,
                        panel + t * columns + run.place, t_count * columns);
          }
        }
        if (direct && c0 == 0) next.count = list_lines(z, y, x, c_count, lines);
        const bool last        = c0 + c_count == in_per_group && t0 + t_count == taps;
        next.from              = last ? first + columns : first + (c0 + c_count) * in.stride[1];
        const SumRows<T> there = last ? to : SumRows<T>{sums, columns};
        const T* const w       = weights + c0 * weight_in;
        if (direct || shares)
          multiply_add_rows(rows, count, w, weight_out, offsets,
                            direct ? first + c0 * in.stride[1] : panel, ListedRows{places},
                            c_count * t_count, sums, there, next);
        else
          multiply_add_rows(rows, count, w, weight_out, offsets, panel, EvenRows{columns},
                            c_count * t_count, sums, there);
      }
    }
    return true;
  }

  /// Lists the offsets of the cache lines of these channels that the next tile reads. Returns their
  /// number.
  index_t list_lines(const Sweep& z, const Sweep& y, const Sweep& x, index_t channels,
                     index_t* lines) const {
    constexpr index_t line = ReadAhead<T>::line;
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
  static bool taps_share_lines(const Sweep& x, index_t taps) {
    return x.taps > 1 && taps <= panel_rows && x.in_step >= 1 &&
           (x.in_step == 1 || x.in_tap_step > 0) && x.in_step * row_of_line(x) <= x.taps * columns;
  }
  /// The offset in the copied line of a tap's first cell.
  static index_t place_in_line(const Sweep& x, index_t tap) {
    const index_t cell = (x.in_tap_step < 0 ? tap - (x.taps - 1) : tap) * x.in_tap_step;
    return cell % x.in_step * row_of_line(x) + cell / x.in_step;
  }
  void gather_lines(const Sweep& x, const Sweep& y, const Sweep& z, const Run& run,
                    const T* channels, index_t count, T* panel) const {
    const index_t length =
                      (run.length - 1) * x.in_step + 1 + (x.taps - 1) * std::abs(x.in_tap_step),
                  first = input_of(x, x.in_tap_step < 0 ? x.taps - 1 : 0, run.x),
                  size  = x.in_step * row_of_line(x);
    for (index_t tz = 0; tz < z.taps; ++tz)
      for (index_t ty = 0; ty < y.taps; ++ty) {
        const auto inputs =
            find_inputs(in, input_of(z, tz, run.z), input_of(y, ty, run.y), first, 1, length);
        T* const to = panel + (tz * y.taps + ty) * size;
        if (x.in_step == 1)
          copy_inputs(inputs, length, channels, count, to, z.taps * y.taps * size);
        else
          for (index_t c = 0; c < count; ++c)
            copy_to_rows(inputs, length, channels + c * in.stride[1], x.in_step, row_of_line(x),
                         to + c * z.taps * y.taps * size);
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
    if (from.step == 1 && rows == 2)
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
