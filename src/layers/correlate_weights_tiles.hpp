// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_CORRELATE_WEIGHTS_TILES_HPP
#define SHARD_SRC_LAYERS_CORRELATE_WEIGHTS_TILES_HPP

#include <algorithm>

#include "bfloat16_tiles.hpp"
#include "input_runs.hpp"
#include "lanes.hpp"
#include "product_tile.hpp"
#include "scratch.hpp"
#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// Weight gradient on a host, as a matrix product over cells. The rows are coarse channels: as many
/// as share the gathered columns with little memory for sums. The columns are lines of the window:
/// a fine channel and a position in all dimensions of the window but the last. A work item computes
/// up to max_taps taps of each line. Cells are added in ascending order.
template <class T, class Window>
struct CorrelateWeightsTiles {
  static constexpr int columns = Tile<T>::columns, max_taps = 8, max_cells = 128, panel_rows = 256;
  /// The most rows of all taps, and of all taps and tiles of columns: the sums are in the
  /// second-level cache.
  static constexpr index_t max_rows = 512, max_sums = 196608 / columns / sizeof(T);

  T* gradient;
  Block<const T> coarse, fine;
  Window window;
  index_t coarse_per_group, fine_per_group, lines, taps_at_once, cells_at_once;
  index_t rows_at_once, row_blocks, tap_blocks;
  index_t together, line_blocks;  ///< tiles of columns of a work item

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
    cells_at_once  = (cells + runs - 1) / runs;
    tap_blocks     = (win.kernel[2] + taps_at_once - 1) / taps_at_once;
    const auto cut = [this](index_t rows) {
      row_blocks   = std::max<index_t>(1, (coarse_per_group + rows - 1) / rows);
      rows_at_once = (coarse_per_group + row_blocks - 1) / row_blocks;
    };
    cut(max_rows / taps_at_once);
    const auto join = [this](index_t tiles) {
      together    = std::max<index_t>(1, tiles);
      line_blocks = (lines + together * columns - 1) / (together * columns);
    };
    join(max_sums / (taps_at_once * std::max<index_t>(1, rows_at_once)));
    const auto few = [&] { return threads > 1 && items() < 4 * threads; };
    while (few() && together > 1) join(together / 2);
    while (few() && rows_at_once > Tile<T>::rows) cut((rows_at_once + 1) / 2);
  }

  index_t items() const { return window.groups * row_blocks * line_blocks * tap_blocks; }

  /// Pointer to the gradient of a row, a line and a tap.
  T* weights(index_t row, index_t line, index_t tap) const {
    return gradient + (row * lines + line) * window.kernel[2] + tap;
  }

  void operator()(index_t item) const {
    const index_t tap0 = item % tap_blocks * taps_at_once;
    item /= tap_blocks;
    const index_t first     = item % line_blocks * together * columns,
                  row_block = item / line_blocks % row_blocks,
                  group     = item / line_blocks / row_blocks;
    const index_t row0      = group * coarse_per_group + row_block * rows_at_once;
    const index_t rows      = std::min(rows_at_once, coarse_per_group - row_block * rows_at_once),
                  used      = std::min<index_t>(together * columns, lines - first),
                  taps      = std::min<index_t>(taps_at_once, window.kernel[2] - tap0),
                  tiles = (used + columns - 1) / columns, of_tap = rows * columns;

    const bool direct = coarse.stride[4] == 1;
    alignas(vector_bytes) T panel[panel_rows * columns];
    const index_t sum_values = tiles * taps * of_tap;
    T* const sums            = scratch_values<T>(sum_values + (direct ? 0 : rows * max_cells));
    T* const left            = sums + sum_values;
    if (used % columns != 0) std::fill_n(panel, panel_rows * columns, T(0));
    Bfloat16Products<T> rounded(rounds_to_bfloat16<T>(coarse_per_group, fine_per_group), rows,
                                columns, max_cells);
    const auto for_weights = [&](const auto& use) {
      for (index_t s = 0; s < tiles; ++s)
        for (index_t t = 0; t < taps; ++t)
          for (index_t m = 0; m < rows; ++m)
            for (index_t j = 0, here = std::min<index_t>(columns, used - s * columns); j < here;
                 ++j)
              use(weights(row0 + m, first + s * columns + j, tap0)[t],
                  sums[(s * taps + t) * of_tap + m * columns + j]);
    };
    std::fill_n(sums, sum_values, T(0));
    for_weights([](const T& weight, T& sum) { sum = weight; });

    const index_t step = window.stride[2] * columns, tap_step = window.dilation[2] * columns;
    // cache lines of the next cells of the coarse block, which are prefetched
    index_t next_lines[max_rows * (max_cells / line_values<T> + 1)], line_count = 0;
    for (index_t m = 0; m < rows && direct; ++m)
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
            const T* const cells = &coarse.at(n, row0, z, y, x);
            const LeftRows<T, EvenRows> of_rows(direct ? cells : left,
                                                direct ? coarse.stride[1] : max_cells, EvenRows{1});
            if (rounded) rounded.set_rows(of_rows.begin, of_rows.row, EvenRows{1}, count);
            for (index_t s = 0; s < tiles; ++s) {
              const index_t here = std::min<index_t>(columns, used - s * columns);
              gather_lines(n, group, first + s * columns, here, z, y,
                           x * window.stride[2] + tap0 * window.dilation[2] + window.offset[2],
                           (count - 1) * window.stride[2] + (taps - 1) * window.dilation[2] + 1,
                           panel);
              for (index_t t = 0; t < taps; ++t) {
                const index_t done  = (s * taps + t) * line_count / (tiles * taps),
                              after = (s * taps + t + 1) * line_count / (tiles * taps);
                T* const of_sums    = sums + (s * taps + t) * of_tap;
                const SumRows<T> to{of_sums, columns};
                if (rounded) {
                  rounded.set_columns(panel + t * tap_step, EvenRows{step}, here);
                  rounded.add(of_sums, columns, to);
                } else {
                  multiply_add_rows(rows, here, of_rows, panel + t * tap_step, EvenRows{step},
                                    count, of_sums, columns, to,
                                    ReadAhead<T>{cells + count, next_lines + done, after - done});
                }
              }
            }
          }
    for_weights([](T& weight, const T& sum) { weight = sum; });
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
