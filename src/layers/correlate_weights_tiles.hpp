// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_CORRELATE_WEIGHTS_TILES_HPP
#define SHARD_SRC_LAYERS_CORRELATE_WEIGHTS_TILES_HPP

#include <algorithm>

#include "input_runs.hpp"
#include "lanes.hpp"
#include "scratch.hpp"
#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// Weight gradient on a host, as a matrix product over cells. The rows are coarse channels: as many
/// as share the gathered columns with little memory for sums. The columns are lines of the window: a fine channel and a position in all dimensions
/// of the window but the last. A work item computes up to max_taps taps of each line. Cells are
/// added in ascending order.
template <class T, class Window>
struct CorrelateWeightsTiles {
  static constexpr int columns = Tile<T>::columns, max_sums = 512, max_taps = 8, max_cells = 128,
                       panel_rows = 256;

  T* gradient;
  Block<const T> coarse, fine;
  Window window;
  index_t coarse_per_group, fine_per_group, lines, taps_at_once, cells_at_once;
  index_t rows_at_once, row_blocks, line_blocks, tap_blocks;

  /// Chooses the number of rows of a work item for `threads`. The sums don't depend on it.
  CorrelateWeightsTiles(T* dw, const Block<const T>& small, const Block<const T>& large,
                        const Window& win, index_t threads)
      : gradient(dw),
        coarse(small),
        fine(large),
        window(win),
        coarse_per_group(small.channels / win.groups),
        fine_per_group(large.channels / win.groups),
        lines(fine_per_group * win.kernel[0] * win.kernel[1]) {
    const index_t room = panel_rows - 1;
    taps_at_once =
        std::min<index_t>({max_taps, win.kernel[2], std::max<index_t>(1, room / win.dilation[2])});
    const index_t reach = (taps_at_once - 1) * win.dilation[2];
    const index_t most  = std::min<index_t>(max_cells, (room - reach) / win.stride[2] + 1),
                  cells = std::max<index_t>(1, small.extent(2)), runs = (cells + most - 1) / most;
    cells_at_once = (cells + runs - 1) / runs;
    line_blocks   = (lines + columns - 1) / columns;
    tap_blocks    = (win.kernel[2] + taps_at_once - 1) / taps_at_once;
    const auto cut = [this](index_t rows) {
      row_blocks   = std::max<index_t>(1, (coarse_per_group + rows - 1) / rows);
      rows_at_once = (coarse_per_group + row_blocks - 1) / row_blocks;
    };
    cut(max_sums / taps_at_once);
    while (threads > 1 && items() < 4 * threads && rows_at_once > Tile<T>::rows)
      cut((rows_at_once + 1) / 2);
  }

  index_t items() const { return window.groups * row_blocks * line_blocks * tap_blocks; }

  /// Pointer to the gradient of a row, a line and a tap.
  T* weights(index_t row, index_t line, index_t tap) const {
    return gradient + (row * lines + line) * window.kernel[2] + tap;
  }

  void operator()(index_t item) const {
    const index_t tap0 = item % tap_blocks * taps_at_once;
    item /= tap_blocks;
    const index_t line0 = item % line_blocks * columns, row_block = item / line_blocks % row_blocks,
                  group = item / line_blocks / row_blocks;
    const index_t row0  = group * coarse_per_group + row_block * rows_at_once;
    const index_t rows  = std::min(rows_at_once, coarse_per_group - row_block * rows_at_once),
                  used  = std::min<index_t>(columns, lines - line0),
                  taps  = std::min<index_t>(taps_at_once, window.kernel[2] - tap0);

    const bool direct = coarse.stride[4] == 1;
    alignas(vector_bytes) T panel[panel_rows * columns];
    T* const sums = scratch_values<T>(taps * rows * columns + (direct ? 0 : rows * max_cells));
    T* const left = sums + taps * rows * columns;
    index_t offsets[max_cells];
    for (int j = 0; j < max_cells; ++j) offsets[j] = j;
    if (used < columns) std::fill_n(panel, panel_rows * columns, T(0));
    for (index_t t = 0; t < taps; ++t)
      for (index_t m = 0; m < rows; ++m)
        for (index_t j = 0; j < columns; ++j)
          sums[(t * rows + m) * columns + j] = j < used ? weights(row0 + m, line0 + j, tap0)[t] : T(0);

    const index_t step = window.stride[2] * columns, tap_step = window.dilation[2] * columns;
    // cache lines of the next cells of the coarse block, which are prefetched
    index_t next_lines[max_sums * (max_cells / line_values<T> + 1)], line_count = 0;
    for (index_t m = 0; m < rows; ++m)
      for (index_t i = 0; i < cells_at_once; i += line_values<T>)
        next_lines[line_count++] = m * coarse.stride[1] + i;
    for (index_t n = 0; n < coarse.batch; ++n)
      for (index_t z = coarse.begin[0]; z < coarse.end[0]; ++z)
        for (index_t y = coarse.begin[1]; y < coarse.end[1]; ++y)
          for (index_t x = coarse.begin[2]; x < coarse.end[2]; x += cells_at_once) {
            const index_t count = std::min<index_t>(cells_at_once, coarse.end[2] - x);
            if (!direct)
              for (index_t m = 0; m < rows; ++m)
                copy_strided(&coarse.at(n, row0 + m, z, y, x), coarse.stride[4], count,
                             left + m * max_cells);
            gather_lines(n, group, line0, used, z, y,
                         x * window.stride[2] + tap0 * window.dilation[2] + window.offset[2],
                         (count - 1) * window.stride[2] + (taps - 1) * window.dilation[2] + 1,
                         panel);
            const T* const cells = &coarse.at(n, row0, z, y, x);
            for (index_t t = 0; t < taps; ++t) {
              const index_t lines_done = t * line_count / taps;
              multiply_add_rows(
                  rows, used,
                  direct ? LeftRows<T>(cells, coarse.stride[1], offsets)
                         : LeftRows<T>(left, max_cells, offsets),
                  panel + t * tap_step, EvenRows{step}, count, sums + t * rows * columns, columns,
                  SumRows<T>{sums + t * rows * columns, columns},
                  ReadAhead<T>{cells + count, next_lines + lines_done,
                               direct ? (t + 1) * line_count / taps - lines_done : 0});
            }
          }
    for (index_t t = 0; t < taps; ++t)
      for (index_t m = 0; m < rows; ++m)
        for (index_t j = 0; j < used; ++j)
          weights(row0 + m, line0 + j, tap0)[t] = sums[(t * rows + m) * columns + j];
  }

  /// Copies the fine cells that row y of the coarse block reads, from `first` on, to the panel: a
  /// column for each line of the window.
  void gather_lines(index_t n, index_t group, index_t line0, index_t used, index_t z, index_t y,
                    index_t first, index_t length, T* panel) const {
    constexpr int few = Interleaved<T>::lines;
    for (index_t j = 0; j < used; j += few) {
      const index_t now = std::min<index_t>(few, used - j);
      RunOfInputs run[few];
      const T* from[few];
      bool whole = now == few;
      for (index_t l = 0; l < now; ++l) {
        const index_t line = line0 + j + l, ky = line % window.kernel[1],
                      kz      = line / window.kernel[1] % window.kernel[0],
                      channel = group * fine_per_group + line / window.kernel[1] / window.kernel[0];
        run[l]                = find_inputs(
                           fine, z * window.stride[0] + kz * window.dilation[0] + window.offset[0],
                           y * window.stride[1] + ky * window.dilation[1] + window.offset[1], first, 1, length);
        from[l] = fine.origin + n * fine.stride[0] + channel * fine.stride[1] + run[l].address;
        whole   = whole && run[l].step == 1 && run[l].begin == 0 && run[l].end == length;
      }
      if (whole) {
        Interleaved<T>::copy(from, length, panel + j, columns);
        continue;
      }
      for (index_t l = 0; l < now; ++l) {
        T* to = panel + j + l;
        for (index_t i = 0; i < run[l].begin; ++i) to[i * columns] = T(0);
        for (index_t i = run[l].begin; i < run[l].end; ++i)
          to[i * columns] = from[l][i * run[l].step];
        for (index_t i = run[l].end; i < length; ++i) to[i * columns] = T(0);
      }
    }
  }
};

}  // namespace shard::impl

#endif
