// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <cstdlib>
#include <type_traits>

#include "fixed_window.hpp"
#include "lanes.hpp"
#include "launch.hpp"
#include "shard/layers/convolution_kernels.hpp"
#include "shard/layers/kernels.hpp"

namespace shard::impl {

/// What an output of one residue class reads along one dimension: output cells first + q * step, q
/// < count; of the window the cells tap + t * tap_step, t < taps; and for these two the input cell
/// in + t * in_tap_step + q * in_step.
struct Sweep {
  index_t first, step, count;
  index_t tap, tap_step, taps;
  index_t in, in_tap_step, in_step;
};

KOKKOS_INLINE_FUNCTION index_t greatest_common_divisor(index_t a, index_t b) {
  while (b != 0) {
    const index_t r = a % b;
    a               = b;
    b               = r;
  }
  return a;
}

template <class Window>
KOKKOS_INLINE_FUNCTION Sweep sweep_correlate(const Window& w, int d, index_t begin,
                                             index_t extent) {
  return {begin,         1,          extent, 0, 1, w.kernel[d], begin * w.stride[d] + w.offset[d],
          w.dilation[d], w.stride[d]};
}

/// The outputs begin + residue, begin + residue + s, ... of a transposed correlation.
template <class Window>
KOKKOS_INLINE_FUNCTION Sweep sweep_transposed(const Window& w, int d, index_t begin, index_t extent,
                                              index_t residue) {
  const index_t s = w.stride[d], dilation = w.dilation[d];
  Sweep sweep{};
  sweep.first        = begin + residue;
  sweep.step         = s;
  sweep.count        = residue < extent ? (extent - residue + s - 1) / s : 0;
  sweep.tap_step     = s / greatest_common_divisor(s, dilation);
  sweep.in_step      = 1;
  const index_t from = sweep.first - w.offset[d];
  for (sweep.tap = 0; sweep.tap < sweep.tap_step && (from - sweep.tap * dilation) % s != 0;
       ++sweep.tap) {
  }
  if (sweep.tap == sweep.tap_step || sweep.tap >= w.kernel[d]) return sweep;
  sweep.taps        = (w.kernel[d] - 1 - sweep.tap) / sweep.tap_step + 1;
  sweep.in          = (from - sweep.tap * dilation) / s;
  sweep.in_tap_step = -(sweep.tap_step * dilation) / s;
  return sweep;
}

/// A run of cells in one row: `length` cells from (z, y, x), counted from the sweep's first, and
/// their place in the tile.
struct Run {
  index_t z, y, x, length, place;
};

/// The cells [first, first + count) of a box of rows, cut into runs. Returns how many.
int cut_into_runs(index_t first, index_t count, index_t rows, index_t columns, Run* runs) {
  int n = 0;
  for (index_t place = 0; place < count; ++n) {
    const index_t cell = first + place, row = cell / columns, x = cell % columns;
    const index_t length = std::min(count - place, columns - x);
    runs[n]              = {row / rows, row % rows, x, length, place};
    place += length;
  }
  return n;
}

template <class T>
void copy_strided(const T* from, index_t step, index_t count, T* to) {
  if (step == 1)
    for (index_t i = 0; i < count; ++i) to[i] = from[i];
  else
    for (index_t i = 0; i < count; ++i) to[i] = from[i * step];
}

/// Where a run of inputs begins in memory, channel 0 of the batch's entry, and which part of it the
/// block holds.
struct RunOfInputs {
  index_t address, step, begin, end;
};

template <class T>
RunOfInputs find_inputs(const Block<T>& in, index_t z, index_t y, index_t x, index_t x_step,
                        index_t length) {
  RunOfInputs r{z * in.stride[2] + y * in.stride[3] + x * in.stride[4], x_step * in.stride[4], 0,
                0};
  if (z < in.begin[0] || z >= in.end[0] || y < in.begin[1] || y >= in.end[1]) return r;
  r.begin = x >= in.begin[2] ? 0 : std::min(length, (in.begin[2] - x + x_step - 1) / x_step);
  r.end   = x >= in.end[2]
                ? r.begin
                : std::max(r.begin, std::min(length, (in.end[2] - x + x_step - 1) / x_step));
  return r;
}

/// What a correlation, or its transpose, works on. The window is LocalWindow or a FixedWindow.
template <class T, bool Transposed, class Window>
struct Correlation {
  Block<T> out;
  Block<const T> in;
  const T* weight;
  const T* bias;
  Window window;
  bool onto;  ///< each sum begins with what stands in its cell, not with the bias
  index_t out_per_group, in_per_group, weight_out, weight_in;

  Correlation(const Block<T>& to, const Block<const T>& from, const T* w, const T* b,
              const Window& win, bool adds)
      : out(to),
        in(from),
        weight(w),
        bias(b),
        window(win),
        onto(adds),
        out_per_group(to.channels / win.groups),
        in_per_group(from.channels / win.groups),
        weight_out(Transposed ? win.taps() : in_per_group * win.taps()),
        weight_in(Transposed ? out_per_group * win.taps() : win.taps()) {}

  /// Of the outputs [begin, begin + extent), those of one residue class.
  KOKKOS_FUNCTION Sweep sweep(int d, index_t begin, index_t extent, index_t residue) const {
    if constexpr (Transposed)
      return sweep_transposed(window, d, begin, extent, residue);
    else
      return sweep_correlate(window, d, begin, extent);
  }

  /// The weights of an output channel.
  KOKKOS_FUNCTION const T* weights_of(index_t group, index_t channel) const {
    return weight + (Transposed ? group * in_per_group * weight_in +
                                      (channel - group * out_per_group) * weight_out
                                : channel * weight_out);
  }

  /// Which cell of the window the sweeps' taps are.
  KOKKOS_FUNCTION index_t tap(const Sweep& z, const Sweep& y, const Sweep& x, index_t tz,
                              index_t ty, index_t tx) const {
    return ((z.tap + tz * z.tap_step) * window.kernel[1] + y.tap + ty * y.tap_step) *
               window.kernel[2] +
           x.tap + tx * x.tap_step;
  }
};

/// Correlation and its transpose on a host: a tile of cells of one residue class, all output
/// channels of a group (up to max_rows). The inputs of the tile are gathered into a panel, the
/// products are those of a matrix product that adds in ascending order.
template <class T, bool Transposed, class Window>
struct CorrelateTiles : Correlation<T, Transposed, Window> {
  using Operands = Correlation<T, Transposed, Window>;
  using Operands::bias, Operands::in, Operands::in_per_group, Operands::onto, Operands::out,
      Operands::out_per_group, Operands::weight_in, Operands::weight_out, Operands::window;
  static constexpr int columns = Tile<T>::columns, max_rows = 64, panel_rows = 128,
                       line_pitch = 2 * columns, max_lines = 4 * panel_rows;

  index_t row_blocks, pieces, tiles;
  index_t classes[3];
  bool by_lines;  ///< tiles are pieces of lines, not of all cells of a class in a row

  explicit CorrelateTiles(const Operands& operands)
      : Operands(operands), row_blocks((out_per_group + max_rows - 1) / max_rows) {
    index_t cells[3];
    for (int d = 0; d < 3; ++d) {
      classes[d] = Transposed ? std::min<index_t>(window.stride[d], out.extent(d)) : 1;
      cells[d]   = classes[d] == 0 ? 0 : (out.extent(d) + classes[d] - 1) / classes[d];
    }
    // A tile within one line copies less: worth it where few of its vectors' lanes are idle.
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
    const index_t tile = take(tiles);
    const Sweep x = class_of(2, take(classes[2])), y = class_of(1, take(classes[1])),
                z           = class_of(0, take(classes[0]));
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
    // Whole tiles of contiguous cells are written by the last products; others are copied.
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

  /// Adds all products to the sums; the last ones write them to `to`. Returns whether there were
  /// any.
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
                  tap_range    = std::min<index_t>(taps, panel_rows);
    const T* channels          = in.origin + n * in.stride[0] + group * in_per_group * in.stride[1];
    const T* weights           = this->weights_of(group, row0);
    const T* first             = channels + input_of(z, 0, runs[0].z) * in.stride[2] +
                     input_of(y, 0, runs[0].y) * in.stride[3] +
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
                                         : (tz * y.taps + ty) * line_pitch + place_in_line(x, tx);
            const index_t step  = direct ? in.stride[1] : z.taps * y.taps * line_pitch;
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

  /// The cache lines of some channels that a tile reads, counted from its first cell. Returns how
  /// many.
  index_t list_lines(const Sweep& z, const Sweep& y, const Sweep& x, index_t channels,
                     index_t* lines) const {
    constexpr index_t line = ReadAhead<T>::line;
    const index_t reach = (x.taps - 1) * x.in_tap_step, begin = std::min<index_t>(reach, 0),
                  end = columns + std::max<index_t>(reach, 0);
    // of the rows along y the furthest: the others were read for the tiles before
    const index_t furthest = std::max<index_t>(0, (y.taps - 1) * y.in_tap_step);
    index_t n              = 0;
    for (index_t c = 0; c < channels; ++c)
      for (index_t tz = 0; tz < z.taps; ++tz)
        for (index_t i = begin; i < end + line - 1 && n < max_lines; i += line)
          lines[n++] = c * in.stride[1] + tz * z.in_tap_step * in.stride[2] +
                       furthest * in.stride[3] + std::min(i, end - 1);
    return n;
  }

  /// Whether the block holds every cell that a run reads.
  bool all_held(const Sweep& z, const Sweep& y, const Sweep& x, const Run& run) const {
    const auto held = [this](int d, const Sweep& s, index_t cell, index_t length) {
      const index_t a = input_of(s, 0, cell), b = input_of(s, s.taps - 1, cell);
      return std::min(a, b) >= in.begin[d] && std::max(a, b) + (length - 1) * s.in_step < in.end[d];
    };
    return held(0, z, run.z, 1) && held(1, y, run.y, 1) && held(2, x, run.x, run.length);
  }

  /// The input cell of a tap and an output cell, both counted in their sweep.
  static index_t input_of(const Sweep& sweep, index_t tap, index_t cell) {
    return sweep.in + tap * sweep.in_tap_step + cell * sweep.in_step;
  }

  /// Copies a run of each channel, with zeros where the block holds nothing.
  void copy_inputs(const RunOfInputs& from, index_t length, const T* channels, index_t count, T* to,
                   index_t to_step) const {
    for (index_t c = 0; c < count; ++c, to += to_step) {
      const T* run = channels + c * in.stride[1] + from.address;
      for (index_t i = 0; i < from.begin; ++i) to[i] = T(0);
      copy_strided(run + from.begin * from.step, from.step, from.end - from.begin, to + from.begin);
      for (index_t i = from.end; i < length; ++i) to[i] = T(0);
    }
  }

  /// Whether a tile within one line reads for the taps along x pieces of one line of the input,
  /// which is copied once for all of them.
  static bool taps_share_lines(const Sweep& x, index_t taps) {
    return x.in_step == 1 && x.taps > 1 && taps <= panel_rows &&
           columns + (x.taps - 1) * std::abs(x.in_tap_step) <= line_pitch;
  }
  /// Where in its line the cells of a tap begin.
  static index_t place_in_line(const Sweep& x, index_t tap) {
    return (x.in_tap_step < 0 ? tap - (x.taps - 1) : tap) * x.in_tap_step;
  }
  void gather_lines(const Sweep& x, const Sweep& y, const Sweep& z, const Run& run,
                    const T* channels, index_t count, T* panel) const {
    const index_t length = run.length + (x.taps - 1) * std::abs(x.in_tap_step),
                  first  = input_of(x, x.in_tap_step < 0 ? x.taps - 1 : 0, run.x);
    for (index_t tz = 0; tz < z.taps; ++tz)
      for (index_t ty = 0; ty < y.taps; ++ty)
        copy_inputs(
            find_inputs(in, input_of(z, tz, run.z), input_of(y, ty, run.y), first, 1, length),
            length, channels, count, panel + (tz * y.taps + ty) * line_pitch,
            z.taps * y.taps * line_pitch);
  }
};

/// The same on a device: one output cell per work item.
template <class T, bool Transposed>
struct CorrelateCellKernel : Correlation<T, Transposed, LocalWindow> {
  using Operands = Correlation<T, Transposed, LocalWindow>;
  using Operands::bias, Operands::in, Operands::in_per_group, Operands::onto, Operands::out,
      Operands::out_per_group, Operands::weight_in, Operands::weight_out, Operands::window;

  explicit CorrelateCellKernel(const Operands& operands) : Operands(operands) {}

  index_t items() const { return out.batch * out.channels * out.cells(); }

  KOKKOS_FUNCTION Sweep sweep_of(int d, index_t cell) const {
    return this->sweep(d, out.begin[d] + cell, 1, 0);
  }

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t ix = item % out.extent(2);
    item /= out.extent(2);
    const index_t iy = item % out.extent(1);
    item /= out.extent(1);
    const index_t iz = item % out.extent(0);
    item /= out.extent(0);
    const index_t channel = item % out.channels, n = item / out.channels,
                  group = channel / out_per_group;
    const Sweep x = sweep_of(2, ix), y = sweep_of(1, iy), z = sweep_of(0, iz);
    const T* weights = this->weights_of(group, channel);
    T& to            = out.at(n, channel, z.first, y.first, x.first);
    T sum            = onto ? to : bias == nullptr ? T(0) : bias[channel];
    for (index_t c = 0; c < in_per_group; ++c)
      for (index_t tz = 0; tz < z.taps; ++tz)
        for (index_t ty = 0; ty < y.taps; ++ty)
          for (index_t tx = 0; tx < x.taps; ++tx) {
            const index_t jz = z.in + tz * z.in_tap_step, jy = y.in + ty * y.in_tap_step,
                          jx = x.in + tx * x.in_tap_step;
            if (jz < in.begin[0] || jz >= in.end[0] || jy < in.begin[1] || jy >= in.end[1] ||
                jx < in.begin[2] || jx >= in.end[2])
              continue;
            sum += weights[c * weight_in + this->tap(z, y, x, tz, ty, tx)] *
                   in.at(n, group * in_per_group + c, jz, jy, jx);
          }
    to = sum;
  }
};

/// Gradient of the weights on a host: up to max_rows coarse channels by a tile of lines of the
/// window (fine channel and all but the last dimension of the window) by up to max_taps cells of a
/// line. Cells are added one after the other.
template <class T, class Window>
struct CorrelateWeightsTiles {
  static constexpr int columns = Tile<T>::columns, max_rows = 64, max_taps = 8, max_cells = 128,
                       panel_rows = 256;

  T* gradient;
  Block<const T> coarse, fine;
  Window window;
  index_t coarse_per_group, fine_per_group, lines, taps_at_once, cells_at_once;
  index_t row_blocks, line_blocks, tap_blocks;

  CorrelateWeightsTiles(T* dw, const Block<const T>& small, const Block<const T>& large,
                        const Window& win)
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
    row_blocks    = (coarse_per_group + max_rows - 1) / max_rows;
    line_blocks   = (lines + columns - 1) / columns;
    tap_blocks    = (win.kernel[2] + taps_at_once - 1) / taps_at_once;
  }

  index_t items() const { return window.groups * row_blocks * line_blocks * tap_blocks; }

  /// The weight of the tile's row m, line j and tap 0.
  T* weights(index_t row, index_t line, index_t tap) const {
    return gradient + (row * lines + line) * window.kernel[2] + tap;
  }

  void operator()(index_t item) const {
    const index_t tap0 = item % tap_blocks * taps_at_once;
    item /= tap_blocks;
    const index_t line0 = item % line_blocks * columns, row_block = item / line_blocks % row_blocks,
                  group = item / line_blocks / row_blocks;
    const index_t row0  = group * coarse_per_group + row_block * max_rows;
    const index_t rows  = std::min<index_t>(max_rows, coarse_per_group - row_block * max_rows),
                  used  = std::min<index_t>(columns, lines - line0),
                  taps  = std::min<index_t>(taps_at_once, window.kernel[2] - tap0);

    alignas(vector_bytes) T sums[max_taps][max_rows * columns];
    alignas(vector_bytes) T panel[panel_rows * columns];
    T left[max_rows * max_cells];
    index_t offsets[max_cells];
    for (int j = 0; j < max_cells; ++j) offsets[j] = j;
    if (used < columns) std::fill_n(panel, panel_rows * columns, T(0));
    for (index_t t = 0; t < taps; ++t)
      for (index_t m = 0; m < rows; ++m)
        for (index_t j = 0; j < columns; ++j)
          sums[t][m * columns + j] = j < used ? weights(row0 + m, line0 + j, tap0)[t] : T(0);

    const index_t step = window.stride[2] * columns, tap_step = window.dilation[2] * columns;
    const bool direct = coarse.stride[4] == 1;
    // what the next cells of a line of the coarse block are read by
    index_t next_lines[max_rows * (max_cells / ReadAhead<T>::line + 1)], line_count = 0;
    for (index_t m = 0; m < rows; ++m)
      for (index_t i = 0; i < cells_at_once; i += ReadAhead<T>::line)
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
                  rows, used, direct ? cells : left, direct ? coarse.stride[1] : max_cells, offsets,
                  panel + t * tap_step, EvenRows{step}, count, sums[t],
                  SumRows<T>{sums[t], columns},
                  ReadAhead<T>{cells + count, next_lines + lines_done,
                               direct ? (t + 1) * line_count / taps - lines_done : 0});
            }
          }
    for (index_t t = 0; t < taps; ++t)
      for (index_t m = 0; m < rows; ++m)
        for (index_t j = 0; j < used; ++j)
          weights(row0 + m, line0 + j, tap0)[t] = sums[t][m * columns + j];
  }

  /// The fine cells from `first` on that lines meet in row y of the coarse block, a column of the
  /// panel for each line.
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

/// The same on a device: one weight per work item.
template <class T>
struct CorrelateWeightsCellKernel {
  T* gradient;
  Block<const T> coarse, fine;
  LocalWindow window;
  index_t coarse_per_group, fine_per_group;

  index_t items() const { return coarse.channels * fine_per_group * window.taps(); }

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t kx = item % window.kernel[2], ky = item / window.kernel[2] % window.kernel[1],
                  kz  = item / window.kernel[2] / window.kernel[1] % window.kernel[0],
                  row = item / window.taps();
    const index_t a   = row / fine_per_group,
                  b   = a / coarse_per_group * fine_per_group + row % fine_per_group;
    T sum             = gradient[item];
    for (index_t n = 0; n < coarse.batch; ++n)
      for (index_t z = coarse.begin[0]; z < coarse.end[0]; ++z)
        for (index_t y = coarse.begin[1]; y < coarse.end[1]; ++y)
          for (index_t x = coarse.begin[2]; x < coarse.end[2]; ++x) {
            const index_t jz = z * window.stride[0] + kz * window.dilation[0] + window.offset[0],
                          jy = y * window.stride[1] + ky * window.dilation[1] + window.offset[1],
                          jx = x * window.stride[2] + kx * window.dilation[2] + window.offset[2];
            if (jz < fine.begin[0] || jz >= fine.end[0] || jy < fine.begin[1] ||
                jy >= fine.end[1] || jx < fine.begin[2] || jx >= fine.end[2])
              continue;
            sum += coarse.at(n, a, z, y, x) * fine.at(n, b, jz, jy, jx);
          }
    gradient[item] = sum;
  }
};

/// Sum of a channel's cells over the batch, one channel per work item.
template <class T>
struct SumChannelKernel {
  T* sums;
  Block<const T> from;

  KOKKOS_FUNCTION void operator()(index_t channel) const {
    T lane[sum_lanes] = {};
    for (index_t n = 0; n < from.batch; ++n)
      for (index_t z = from.begin[0]; z < from.end[0]; ++z)
        for (index_t y = from.begin[1]; y < from.end[1]; ++y) {
          const T* row       = &from.at(n, channel, z, y, from.begin[2]);
          const index_t step = from.stride[4], count = from.extent(2),
                        whole = count - count % sum_lanes;
          for (index_t x = 0; x < whole; x += sum_lanes)
            for (int l = 0; l < sum_lanes; ++l) lane[l] += row[(x + l) * step];
          for (index_t x = whole; x < count; ++x) lane[x - whole] += row[x * step];
        }
    T sum = T(0);
    for (int l = 0; l < sum_lanes; ++l) sum += lane[l];
    sums[channel] += sum;
  }
};

namespace {
bool use_fixed = true;
}  // namespace

bool fixed_windows_used() { return use_fixed; }
void use_fixed_windows(bool use) { use_fixed = use; }
bool is_fixed_window(const LocalWindow& window) {
  return call_fixed(
      window, [](const auto&) {}, FixedWindows());
}

template <bool Transposed, class Space, class T>
void launch_correlate(const Space& space, const Block<T>& out, const Block<const T>& in,
                      const T* weight, const T* bias, const LocalWindow& window,
                      bool onto = false) {
  if (out.batch * out.channels * out.cells() == 0) return;
  const auto run = [&](const auto& functor) {
    launch(Transposed ? "shard::correlate_transposed" : "shard::correlate", space, functor.items(),
           functor);
  };
  if constexpr (is_host_v<Space>)
    with_window(window, [&]<class Window>(const Window& w) {
      run(CorrelateTiles<T, Transposed, Window>({out, in, weight, bias, w, onto}));
    });
  else
    run(CorrelateCellKernel<T, Transposed>({out, in, weight, bias, window, onto}));
}

template <class Space, class T>
void ConvolutionKernels<Space, T>::correlate(const Space& space, const Block<T>& coarse,
                                             const Block<const T>& fine, const T* weight,
                                             const T* bias, const LocalWindow& window) {
  launch_correlate<false>(space, coarse, fine, weight, bias, window);
}

template <class Space, class T>
void ConvolutionKernels<Space, T>::correlate_transposed(const Space& space, const Block<T>& fine,
                                                        const Block<const T>& coarse,
                                                        const T* weight, const T* bias,
                                                        const LocalWindow& window) {
  launch_correlate<true>(space, fine, coarse, weight, bias, window);
}

template <class Space, class T>
void ConvolutionKernels<Space, T>::correlate_weights(const Space& space, T* weight_gradient,
                                                     const Block<const T>& coarse,
                                                     const Block<const T>& fine,
                                                     const LocalWindow& window) {
  if constexpr (is_host_v<Space>) {
    with_window(window, [&]<class Window>(const Window& w) {
      const CorrelateWeightsTiles<T, Window> functor(weight_gradient, coarse, fine, w);
      launch("shard::correlate_weights", space, functor.items(), functor);
    });
  } else {
    const CorrelateWeightsCellKernel<T> functor{weight_gradient,
                                                coarse,
                                                fine,
                                                window,
                                                coarse.channels / window.groups,
                                                fine.channels / window.groups};
    launch("shard::correlate_weights", space, functor.items(), functor);
  }
}

template <class Space, class T>
void ConvolutionKernels<Space, T>::sum_channels(const Space& space, T* bias_gradient,
                                                const Block<const T>& dy) {
  launch("shard::sum_channels", space, dy.channels, SumChannelKernel<T>{bias_gradient, dy});
}

template <class Space, class T>
void ConvolutionSumKernels<Space, T>::add_correlation(const Space& space, const Block<T>& coarse,
                                                      const Block<const T>& fine, const T* weight,
                                                      const LocalWindow& window) {
  launch_correlate<false, Space, T>(space, coarse, fine, weight, nullptr, window, true);
}

template <class Space, class T>
void ConvolutionSumKernels<Space, T>::add_correlation_transposed(const Space& space,
                                                                 const Block<T>& fine,
                                                                 const Block<const T>& coarse,
                                                                 const T* weight,
                                                                 const LocalWindow& window) {
  launch_correlate<true, Space, T>(space, fine, coarse, weight, nullptr, window, true);
}

template struct ConvolutionKernels<Kokkos::DefaultExecutionSpace, float>;
template struct ConvolutionKernels<Kokkos::DefaultExecutionSpace, double>;
template struct ConvolutionSumKernels<Kokkos::DefaultExecutionSpace, float>;
template struct ConvolutionSumKernels<Kokkos::DefaultExecutionSpace, double>;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct ConvolutionKernels<Kokkos::DefaultHostExecutionSpace, float>;
template struct ConvolutionKernels<Kokkos::DefaultHostExecutionSpace, double>;
template struct ConvolutionSumKernels<Kokkos::DefaultHostExecutionSpace, float>;
template struct ConvolutionSumKernels<Kokkos::DefaultHostExecutionSpace, double>;
#endif

}  // namespace shard::impl
