// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_CORRELATION_HPP
#define SHARD_SRC_LAYERS_DEVICE_CORRELATION_HPP

#include <type_traits>

#include "correlation.hpp"
#include "device_depthwise.hpp"
#include "device_taps.hpp"
#include "device_sums.hpp"
#include "device_tile.hpp"
#include "device_vendor.hpp"
#include "launch.hpp"
#include "library_product.hpp"

namespace shard::impl {

/// Correlation and its transpose on a device, one output cell per work item. The fallback for
/// windows that CorrelateTileKernel doesn't support.
template <class T, bool Transposed, class Index>
struct CorrelateCellKernel : Correlation<T, Transposed, LocalWindow> {
  using Operands = Correlation<T, Transposed, LocalWindow>;
  using Operands::bias, Operands::in, Operands::in_per_group, Operands::onto, Operands::out,
      Operands::out_per_group, Operands::weight_in, Operands::window;

  explicit CorrelateCellKernel(const Operands& operands) : Operands(operands) {}

  index_t items() const { return out.batch * out.channels * out.cells(); }

  /// Removes the fastest dimension from a linear index, and returns the index in it.
  KOKKOS_INLINE_FUNCTION static Index next(Index& item, index_t extent) {
    const Index of = static_cast<Index>(extent), i = item % of;
    item /= of;
    return i;
  }
  KOKKOS_INLINE_FUNCTION SweepOf<Index> sweep_of(int d, Index cell) const {
    const Index begin = static_cast<Index>(out.begin[d]) + cell;
    if constexpr (Transposed)
      return sweep_transposed(window, d, begin, Index(1), Index(0));
    else
      return sweep_correlate(window, d, begin, Index(1));
  }

  KOKKOS_FUNCTION void operator()(index_t number) const {
    Index item             = static_cast<Index>(number);
    const SweepOf<Index> x = sweep_of(2, next(item, out.extent(2))),
                         y = sweep_of(1, next(item, out.extent(1))),
                         z = sweep_of(0, next(item, out.extent(0)));
    const Index channel    = next(item, out.channels),
                group      = channel / static_cast<Index>(out_per_group);
    const index_t n        = item;
    T& to                  = out.at(n, channel, z.first, y.first, x.first);
    T sum                  = onto ? to : bias == nullptr ? T(0) : bias[channel];
    const T* const weights = this->weights_of(group, channel);
    const T* const from    = in.origin + n * in.stride[0] + group * in_per_group * in.stride[1];
    Index step[4], begin[3], end[3];
    for (int d = 0; d < 4; ++d) step[d] = static_cast<Index>(in.stride[d + 1]);
    for (int d = 0; d < 3; ++d) {
      begin[d] = static_cast<Index>(in.begin[d]);
      end[d]   = static_cast<Index>(in.end[d]);
    }
    const Index channels = static_cast<Index>(in_per_group), w_step = static_cast<Index>(weight_in);
    for (Index c = 0; c < channels; ++c)
      for (Index tz = 0, jz = z.in; tz < z.taps; ++tz, jz += z.in_tap_step) {
        if (jz < begin[0] || jz >= end[0]) continue;
        for (Index ty = 0, jy = y.in; ty < y.taps; ++ty, jy += y.in_tap_step) {
          if (jy < begin[1] || jy >= end[1]) continue;
          const T* const row = from + (c * step[0] + jz * step[1] + jy * step[2]);
          const T* w         = weights + c * w_step + this->tap(z, y, x, tz, ty, Index(0));
          for (Index tx = 0, jx = x.in; tx < x.taps; ++tx, jx += x.in_tap_step, w += x.tap_step)
            if (jx >= begin[2] && jx < end[2]) sum += *w * row[jx * step[3]];
        }
      }
    to = sum;
  }
};

/// The tile of CorrelateTileKernel: output channels by output cells.
template <class T, int Rows>
struct CorrelateTile;
template <>
struct CorrelateTile<float, 64> : ProductTile<float, 64, 128, 8, 8, 8> {};
template <>
struct CorrelateTile<float, 16> : ProductTile<float, 16, 256, 8, 4, 8> {};
template <>
struct CorrelateTile<double, 64> : ProductTile<double, 64, 64, 8, 8, 4> {};
template <>
struct CorrelateTile<double, 16> : ProductTile<double, 16, 128, 8, 4, 4> {};
template <ProductPrecision Factors>
struct CorrelateTensorTile : TensorTile<64, 128, 8, 64, Factors> {};
/// For so few cells that larger tiles would leave multiprocessors idle.
template <class T>
using SmallCorrelateTile =
    std::conditional_t<sizeof(T) == 4, ProductTile<T, 64, 64, 8, 8, 4>, CorrelateTile<T, 64>>;
template <ProductPrecision Factors>
struct SmallCorrelateTensorTile : TensorTile<64, 64, 8, 32, Factors> {};

/// Correlation and its transpose as an implicit matrix product (implicit GEMM): weights [output
/// channels, terms] times inputs [terms, output cells]. Terms are (input channel, tap), ascending.
/// The transpose has one product for each residue class of output cells, with the taps of that
/// class only.
template <class T, bool Transposed, class TileOf, int Lanes>
struct CorrelateTileKernel : Correlation<T, Transposed, LocalWindow> {
  using Operands = Correlation<T, Transposed, LocalWindow>;
  using Operands::bias, Operands::in, Operands::in_per_group, Operands::onto, Operands::out,
      Operands::out_per_group, Operands::weight_in, Operands::weight_out, Operands::window;
  using Tile                   = TileOf;
  static constexpr int threads = Tile::threads, lanes = Lanes;
  // the most that the registers hold without spills
  static constexpr int resident = Tile::rows < 64 ? 3 : sizeof(T) == 4 ? 4 : Transposed ? 2 : 3;
  /// The columns that a thread loads, and the terms of each.
  static constexpr int own_columns = Tile::columns > threads ? Tile::columns / threads : 1,
                       own_terms   = Tile::b_loads / own_columns;
  static constexpr int no_cell     = -2147483647;

  int classes[3];
  int row_tiles, cell_tiles;

  explicit CorrelateTileKernel(const Operands& operands) : Operands(operands) {
    index_t most = 1;
    for (int d = 0; d < 3; ++d) {
      const index_t extent = out.extent(d);
      classes[d] =
          Transposed ? static_cast<int>(extent < window.stride[d] ? extent : window.stride[d]) : 1;
      most *= (extent + classes[d] - 1) / classes[d];
    }
    row_tiles  = static_cast<int>((out_per_group + Tile::rows - 1) / Tile::rows);
    cell_tiles = static_cast<int>((most + Tile::columns - 1) / Tile::columns);
  }
  index_t teams() const {
    return out.batch * classes[0] * classes[1] * classes[2] * window.groups * cell_tiles *
           row_tiles;
  }
  KOKKOS_FUNCTION static constexpr std::size_t scratch_bytes_of(index_t taps) {
    return 16 + Tile::bytes + sizeof(Terms) + sizeof(Tap) * static_cast<std::size_t>(taps) +
           sizeof(int) * Tile::columns;
  }
  static constexpr std::size_t most_scratch_bytes() { return scratch_bytes_of(TapBits::max_taps); }
  KOKKOS_FUNCTION std::size_t scratch_bytes() const { return scratch_bytes_of(window.taps()); }

  /// Tables of the terms of this tile and the next: offsets of their weights and inputs, and the
  /// mask that a cell must have. One thread computes an entry for the team.
  struct alignas(16) Terms {
    std::uint64_t need[2 * Tile::depth];
    int input[2 * Tile::depth], weight[2 * Tile::depth];
  };

  struct Lane {
    typename Tile::Registers registers;
    std::uint64_t mask[own_columns];
    const T* from[own_columns];  ///< input of the first tap of the first channel
    const T* weights;            ///< of the thread's first row
    int weight_step;             ///< from row to row
    int tap, channel;            ///< of the next term that the thread adds to the tables
    unsigned done;               ///< terms loaded
  };

  /// Loads the operands of the product.
  struct Source {
    const Tap* taps;
    Terms* terms;
    int taps_count, channels, rows, count, weight_in, channel_step;
    int tap_step, channels_step;  ///< Depth terms in taps and channels
    bool held;                    ///< the block contains all cells that are read

    /// Fills the tables for the terms from `first` on.
    KOKKOS_INLINE_FUNCTION void find_terms(Lane& lane, int thread) const {
      if (thread >= Tile::depth || lane.channel >= channels) return;
      const unsigned at = lane.done / Tile::depth % 2 * Tile::depth + static_cast<unsigned>(thread);
      const Tap t       = taps[lane.tap];
      terms->need[at]   = t.need;
      terms->input[at]  = lane.channel * channel_step + t.input;
      terms->weight[at] = lane.channel * weight_in + t.weight;
      lane.tap += tap_step;
      lane.channel += channels_step;
      if (lane.tap >= taps_count) {
        lane.tap -= taps_count;
        ++lane.channel;
      }
    }
    KOKKOS_INLINE_FUNCTION void load(Lane& lane, int thread) const {
      constexpr int row_step = threads / Tile::depth;
      const unsigned now     = lane.done / Tile::depth % 2 * Tile::depth;
      const int left         = count - static_cast<int>(lane.done);
      const int a_term = thread % Tile::depth, a_row = thread / Tile::depth,
                b_term                = thread / Tile::columns * own_terms;
      const int* const input          = terms->input + now + b_term;
      const std::uint64_t* const need = terms->need + now + b_term;
      const T* const row = lane.weights + terms->weight[now + static_cast<unsigned>(a_term)];
      if (held && left >= Tile::depth && rows >= Tile::rows) {
        SHARD_UNROLL
        for (int i = 0; i < Tile::a_loads; ++i) lane.registers.a[i] = row[i * lane.weight_step];
        SHARD_UNROLL
        for (int i = 0; i < own_terms; ++i) {
          SHARD_UNROLL
          for (int j = 0; j < own_columns; ++j)
            lane.registers.b[i * own_columns + j] = lane.from[j][input[i]];
        }
      } else {
        SHARD_UNROLL
        for (int i = 0; i < Tile::a_loads; ++i)
          lane.registers.a[i] =
              a_term < left && a_row + i * row_step < rows ? row[i * lane.weight_step] : T(0);
        SHARD_UNROLL
        for (int i = 0; i < own_terms; ++i) {
          SHARD_UNROLL
          for (int j = 0; j < own_columns; ++j)
            lane.registers.b[i * own_columns + j] =
                b_term + i < left && (lane.mask[j] & need[i]) == need[i] ? lane.from[j][input[i]]
                                                                         : T(0);
        }
      }
      lane.done += Tile::depth;
    }
    KOKKOS_INLINE_FUNCTION void store(Lane& lane, int thread, T* a, T* b) const {
      constexpr int row_step = threads / Tile::depth;
      SHARD_UNROLL
      for (int i = 0; i < Tile::a_loads; ++i)
        a[thread % Tile::depth * Tile::row_pitch + thread / Tile::depth + i * row_step] =
            lane.registers.a[i];
      const int column = thread % Tile::columns, term = thread / Tile::columns * own_terms;
      SHARD_UNROLL
      for (int i = 0; i < own_terms; ++i) {
        SHARD_UNROLL
        for (int j = 0; j < own_columns; ++j)
          b[(term + i) * Tile::column_pitch + column + j * threads] =
              lane.registers.b[i * own_columns + j];
      }
      find_terms(lane, thread);
    }
  };

  using ShortSweep = SweepOf<int>;
  KOKKOS_INLINE_FUNCTION ShortSweep sweep_of(int d, int residue) const {
    const int begin = static_cast<int>(out.begin[d]), extent = static_cast<int>(out.extent(d));
    if constexpr (Transposed)
      return sweep_transposed(window, d, begin, extent, residue);
    else
      return sweep_correlate(window, d, begin, extent);
  }

  /// True if the block contains all cells that a sweep reads along its dimension.
  KOKKOS_INLINE_FUNCTION bool holds(int d, const ShortSweep& s) const {
    const int taps = (s.taps - 1) * s.in_tap_step, cells = (s.count - 1) * s.in_step;
    const int least = s.in + (taps < 0 ? taps : 0) + (cells < 0 ? cells : 0),
              most  = s.in + (taps > 0 ? taps : 0) + (cells > 0 ? cells : 0);
    return least >= in.begin[d] && most < in.end[d];
  }

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    int item           = team.league_rank();
    const int row_tile = item % row_tiles;
    item /= row_tiles;
    const int cell_tile = item % cell_tiles;
    item /= cell_tiles;
    const int groups = static_cast<int>(window.groups), group = item % groups;
    item /= groups;
    const ShortSweep x = sweep_of(2, item % classes[2]);
    item /= classes[2];
    const ShortSweep y = sweep_of(1, item % classes[1]);
    item /= classes[1];
    const ShortSweep z = sweep_of(0, item % classes[0]);
    const int n        = item / classes[0];
    const int cx = x.count, cy = y.count, cells = z.count * cy * cx,
              column0 = cell_tile * Tile::columns;
    if (column0 >= cells) return;  // the class is smaller than the largest one

    T* const scratch =
        static_cast<T*>(team.team_scratch(0).get_shmem_aligned(scratch_bytes() - 16, 16));
    Terms* const terms = reinterpret_cast<Terms*>(scratch + 2 * Tile::buffer);
    Tap* const taps    = reinterpret_cast<Tap*>(terms + 1);
    int* const place   = reinterpret_cast<int*>(taps + window.taps());

    const TapBits bits{x.taps, y.taps, z.taps};
    const int tap_count       = bits.x * bits.y * bits.z;
    const int row0            = row_tile * Tile::rows;
    const index_t row_channel = group * out_per_group + row0;
    Source source;
    source.taps          = taps;
    source.terms         = terms;
    source.taps_count    = tap_count > 0 ? tap_count : 1;
    source.channels      = tap_count > 0 ? static_cast<int>(in_per_group) : 0;
    source.rows          = static_cast<int>(out_per_group) - row0;
    source.count         = tap_count * source.channels;
    source.weight_in     = static_cast<int>(weight_in);
    source.channel_step  = static_cast<int>(in.stride[1]);
    source.tap_step      = Tile::depth % source.taps_count;
    source.channels_step = Tile::depth / source.taps_count;
    source.held          = holds(0, z) && holds(1, y) && holds(2, x);

    const int strides[3] = {static_cast<int>(in.stride[2]), static_cast<int>(in.stride[3]),
                            static_cast<int>(in.stride[4])};
    const T* const from  = in.origin + n * in.stride[0] + group * in_per_group * in.stride[1];
    Lane lane[Lanes];
    const int first = team.team_rank() * Lanes;
    SHARD_UNROLL
    for (int l = 0; l < Lanes; ++l) {
      const int thread = first + l;
      for (int t = thread; t < tap_count; t += threads) {
        const int tx = t % bits.x, ty = t / bits.x % bits.y, tz = t / bits.x / bits.y;
        Tap tap;
        tap.need  = bits.need(tz, ty, tx);
        tap.input = tz * z.in_tap_step * strides[0] + ty * y.in_tap_step * strides[1] +
                    tx * x.in_tap_step * strides[2];
        tap.weight = this->tap(z, y, x, tz, ty, tx);
        taps[t]    = tap;
      }
      SHARD_UNROLL
      for (int j = 0; j < own_columns; ++j) {
        const int column = thread % Tile::columns + j * threads;
        const bool there = column0 + column < cells;
        const int cell   = there ? column0 + column : cells - 1;
        const int qx = cell % cx, row = cell / cx, qy = row % cy, qz = row / cy;
        const int jx = x.in + qx * x.in_step, jy = y.in + qy * y.in_step,
                  jz    = z.in + qz * z.in_step;
        lane[l].mask[j] = there && tap_count > 0 ? bits.mask(in, jz, jy, jx, z.in_tap_step,
                                                             y.in_tap_step, x.in_tap_step)
                                                 : 0;
        lane[l].from[j] = kept(from + (jz * strides[0] + jy * strides[1] + jx * strides[2]));
        const int to    = there ? (z.first + qz * z.step) * static_cast<int>(out.stride[2]) +
                                   (y.first + qy * y.step) * static_cast<int>(out.stride[3]) +
                                   (x.first + qx * x.step) * static_cast<int>(out.stride[4])
                                : no_cell;
        if (thread < Tile::columns) place[column] = to;
      }
      lane[l].tap         = thread % Tile::depth % source.taps_count;
      lane[l].channel     = thread % Tile::depth / source.taps_count;
      lane[l].done        = 0;
      lane[l].weights     = kept(this->weights_of(group, row_channel) +
                                 thread / Tile::depth * static_cast<int>(weight_out));
      lane[l].weight_step = kept(threads / Tile::depth * static_cast<int>(weight_out));
    }
    team.team_barrier();
    SHARD_UNROLL
    for (int l = 0; l < Lanes; ++l) source.find_terms(lane[l], first + l);
    team.team_barrier();

    T* const to        = out.origin + n * out.stride[0] + row_channel * out.stride[1];
    const int row_step = static_cast<int>(out.stride[1]);
    SHARD_UNROLL
    for (int l = 0; l < Lanes; ++l) {
      SHARD_UNROLL
      for (int i = 0; i < Tile::lane_rows; ++i) {
        const int row  = Tile::row(first + l, i);
        const bool has = row < source.rows;
        const T start  = bias != nullptr && has ? bias[row_channel + row] : T(0);
        SHARD_UNROLL
        for (int j = 0; j < Tile::lane_columns; ++j) lane[l].registers.sums[i][j] = start;
        if (onto && has) {
          SHARD_UNROLL
          for (int j = 0; j < Tile::lane_columns; ++j) {
            const int at = place[Tile::column(first + l, j)];
            if (at != no_cell) lane[l].registers.sums[i][j] = to[row * row_step + at];
          }
        }
      }
    }

    multiply_tile<Tile>(team, source, lane, source.count, scratch);

    SHARD_UNROLL
    for (int l = 0; l < Lanes; ++l) {
      SHARD_UNROLL
      for (int j = 0; j < Tile::lane_columns; ++j) {
        const int at = place[Tile::column(first + l, j)];
        if (at == no_cell) continue;
        SHARD_UNROLL
        for (int i = 0; i < Tile::lane_rows; ++i) {
          const int row = Tile::row(first + l, i);
          if (row < source.rows) to[row * row_step + at] = lane[l].registers.sums[i][j];
        }
      }
    }
  }
};

/// A window of one cell on fields without gaps is a product of matrices: weights by inputs. Returns
/// the number of batch entries that a library has computed, the first ones.
template <class Space, class T, bool Transposed>
index_t correlate_by_library(const Space& space, const Correlation<T, Transposed, LocalWindow>& o) {
  const LocalWindow& w = o.window;
  if (!(has_library_products || uses_vendor<Space, T>()) || w.taps() != 1 || w.groups != 1)
    return 0;
  index_t from[3];
  for (int d = 0; d < 3; ++d) {
    from[d] = o.out.begin[d] + (Transposed ? -w.offset[d] : w.offset[d]);
    if (w.stride[d] != 1 || from[d] < o.in.begin[d] || from[d] + o.out.extent(d) > o.in.end[d])
      return 0;
  }
  const BoxStrides<2> cells = plane_box(o.out, o.in).merged();
  if (cells.extent[0] != 1 || cells.extent[1] != 1) return 0;
  Product<T> p;
  p.a         = o.weight;
  p.start     = o.onto ? nullptr : o.bias;
  p.add       = o.onto;
  p.rows      = o.out.channels;
  p.columns   = cells.extent[2];
  p.terms     = o.in.channels;
  p.c_row     = o.out.stride[1];
  p.a_row     = o.weight_out;
  p.start_row = 1;
  p.c_column.append(p.columns, cells.stride[0][2]);
  p.b_column.append(p.columns, cells.stride[1][2]);
  p.a_term.append(p.terms, o.weight_in);
  p.b_term.append(p.terms, o.in.stride[1]);
  for (index_t n = 0; n < o.out.batch; ++n) {
    p.c = plane_of(o.out, n, 0);
    p.b = &o.in.at(n, 0, from[0], from[1], from[2]);
    if (!multiply_by_library(space, p)) return n;
  }
  return o.out.batch;
}

/// Runs the tile kernel if its tiles are filled well, else the kernel of one cell per item.
template <class Space, class T, bool Transposed>
void correlate_on_device(const char* name, const Space& space,
                         const Correlation<T, Transposed, LocalWindow>& operands) {
  if (correlate_depthwise(name, space, operands)) return;
  const Correlation<T, Transposed, LocalWindow>& o = operands;
  if constexpr (has_vendor_v<Space, T>)
    if ((Transposed ? o.out_per_group : o.in_per_group) > 1 && uses_vendor<Space, T>() &&
        correlate_by_vendor(space, o))
      return;
  const index_t computed = correlate_by_library(space, o);
  if (computed == o.out.batch) return;
  if (computed > 0) {  // the library refused a later entry, which lies at another alignment
    Correlation<T, Transposed, LocalWindow> rest = o;
    rest.out.origin += computed * o.out.stride[0];
    rest.in.origin += computed * o.in.stride[0];
    rest.out.batch = rest.in.batch = o.out.batch - computed;
    return correlate_on_device(name, space, rest);
  }
  const bool short_offsets = has_short_offsets(as_const(o.out), o.in, o.window) &&
                             has_short_offsets(o.in, as_const(o.out), o.window) &&
                             o.out.channels * o.in_per_group * o.window.taps() < short_limit &&
                             o.in.channels * o.out_per_group * o.window.taps() < short_limit;
  if (!short_offsets || o.out_per_group < 4 || !TapBits::fit(o.window)) {
    if (short_offsets && o.out.batch * o.out.channels * o.out.cells() < short_limit) {
      const CorrelateCellKernel<T, Transposed, int> functor(operands);
      launch(name, space, functor.items(), functor);
    } else {
      const CorrelateCellKernel<T, Transposed, index_t> functor(operands);
      launch(name, space, functor.items(), functor);
    }
    return;
  }
  const auto run_tiles = [&]<class Tile>(Tile) {
    launch_teams(
        name, space,
        CorrelateTileKernel<T, Transposed, Tile, lanes_of<Space, Tile::threads>>(operands));
  };
  if (o.out_per_group <= 32) return run_tiles(CorrelateTile<T, 16>{});
  constexpr index_t few_cells = index_t{1} << 15;
  const bool small = o.out.batch * o.out.cells() * ((o.out.channels + 63) / 64) <= few_cells;
  const auto run_tensor_tiles = [&]<class Factors>(Factors) {
    small ? run_tiles(SmallCorrelateTensorTile<Factors::value>{})
          : run_tiles(CorrelateTensorTile<Factors::value>{});
  };
  if (with_tensor_cores<Space, T>(run_tensor_tiles)) return;
  small ? run_tiles(SmallCorrelateTile<T>{}) : run_tiles(CorrelateTile<T, 64>{});
}

}  // namespace shard::impl

#endif
