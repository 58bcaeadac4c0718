// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_CORRELATION_WEIGHTS_HPP
#define SHARD_SRC_LAYERS_DEVICE_CORRELATION_WEIGHTS_HPP

#include "device_pieces.hpp"
#include "device_taps.hpp"
#include "device_tile.hpp"
#include "device_vendor.hpp"
#include "launch.hpp"

namespace shard::impl {

/// A team sums one weight's products over a piece of the cells, or one channel's values. For weight
/// gradients that are too small for a tile (depthwise), and for bias gradients.
template <class T, bool OfWeights, int Lanes>
struct SumCellsKernel {
  static constexpr int threads = 256, lanes = Lanes, resident = 4;
  T* sums;
  Block<const T> coarse, fine;  ///< `fine` and `window`: only if OfWeights
  LocalWindow window;
  index_t coarse_per_group, fine_per_group;
  index_t columns, pieces, length;

  index_t teams() const { return columns * pieces; }
  KOKKOS_FUNCTION static constexpr std::size_t scratch_bytes() { return sizeof(T) * threads + 16; }

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const int sum   = team.league_rank() % static_cast<int>(columns),
              piece = team.league_rank() / static_cast<int>(columns);
    const int taps = OfWeights ? static_cast<int>(window.taps()) : 1, tap = sum % taps,
              row       = sum / taps;
    const int a         = OfWeights ? row / static_cast<int>(fine_per_group) : sum;
    const index_t begin = piece * length, total = coarse.batch * coarse.cells(),
                  end = begin + length < total ? begin + length : total;
    T* const shared =
        static_cast<T*>(team.team_scratch(0).get_shmem_aligned(sizeof(T) * threads, 16));
    const T* const from = coarse.origin + a * coarse.stride[1];
    for (int l = 0; l < Lanes; ++l) {
      const int thread = team.team_rank() * Lanes + l;
      T own            = T(0);
      if (begin + thread < end) {
        CellWalk walk = CellWalk::at(coarse, begin + thread);
        if constexpr (OfWeights) {
          const index_t b = a / coarse_per_group * fine_per_group + row % fine_per_group;
          const int k2 = window.kernel[2], k1 = window.kernel[1];
          const index_t kx = tap % k2 * window.dilation[2] + window.offset[2],
                        ky = tap / k2 % k1 * window.dilation[1] + window.offset[1],
                        kz = tap / k2 / k1 * window.dilation[0] + window.offset[0];
          for (index_t i = begin + thread; i < end; i += threads) {
            const index_t jz = (coarse.begin[0] + walk.z) * window.stride[0] + kz,
                          jy = (coarse.begin[1] + walk.y) * window.stride[1] + ky,
                          jx = (coarse.begin[2] + walk.x) * window.stride[2] + kx;
            if (jz >= fine.begin[0] && jz < fine.end[0] && jy >= fine.begin[1] &&
                jy < fine.end[1] && jx >= fine.begin[2] && jx < fine.end[2])
              own += from[walk.row + walk.x * coarse.stride[4]] * fine.at(walk.n, b, jz, jy, jx);
            walk.advance(coarse, threads);
          }
        } else {
          constexpr int loads = 4;  // in flight
          for (index_t i = begin + thread; i < end; i += loads * threads) {
            T value[loads];
            SHARD_UNROLL
            for (int u = 0; u < loads; ++u) {
              value[u] = T(0);
              if (i + u * threads >= end) continue;
              value[u] = from[walk.row + walk.x * coarse.stride[4]];
              walk.advance(coarse, threads);
            }
            SHARD_UNROLL
            for (int u = 0; u < loads; ++u) own += value[u];
          }
        }
      }
      shared[thread] = own;
    }
    sum_team<threads, Lanes>(team, shared);
    if (team.team_rank() == 0) sums[piece * columns + sum] = shared[0];
  }
};

/// The tile of CorrelateWeightsTileKernel: coarse channels by (fine channel, tap).
template <class T, int Rows>
struct CorrelateWeightsTile;
template <>
struct CorrelateWeightsTile<float, 64> : ProductTile<float, 64, 64, 16, 8, 4> {};
template <>
struct CorrelateWeightsTile<float, 16> : ProductTile<float, 16, 128, 16, 4, 4> {};
template <>
struct CorrelateWeightsTile<double, 64> : ProductTile<double, 64, 64, 8, 8, 4> {};
template <>
struct CorrelateWeightsTile<double, 16> : ProductTile<double, 16, 128, 8, 4, 4> {};
template <ProductPrecision Factors>
struct CorrelateWeightsTensorTile : TensorTile<64, 64, 16, 32, Factors> {};

/// Weight gradient as an implicit matrix product: coarse [channels, cells] times inputs [cells,
/// (fine channel, tap)]. A team has a piece of the cells.
template <class T, class TileOf, int Lanes>
struct CorrelateWeightsTileKernel {
  using Tile                   = TileOf;
  static constexpr int threads = Tile::threads, lanes = Lanes,
                       resident = sizeof(T) == 8 && Tile::rows == 64 ? 3 : 4;
  T* sums;
  Block<const T> coarse, fine;
  LocalWindow window;
  int coarse_per_group, columns;  ///< columns: (fine channel of a group, tap)
  int row_tiles, column_tiles;
  index_t pieces, length;

  index_t teams() const { return pieces * window.groups * row_tiles * column_tiles; }
  KOKKOS_FUNCTION static constexpr std::size_t scratch_bytes() {
    return 16 + Tile::bytes + sizeof(Cells) + (sizeof(std::uint64_t) + sizeof(int)) * Tile::columns;
  }

  /// Tables of the cells of this tile and the next: offsets in both blocks, and the mask of taps
  /// whose cells are in the fine block. One thread computes an entry for the team.
  struct alignas(16) Cells {
    std::uint64_t mask[2 * Tile::depth];
    index_t coarse[2 * Tile::depth], fine[2 * Tile::depth];
  };

  struct Lane {
    typename Tile::Registers registers;
    CellWalk walk;
    const T *from, *with;  ///< the thread's first row; the fine block
    int row_step;          ///< from row to row that the thread loads
    unsigned done;         ///< cells loaded
  };

  struct Source {
    const CorrelateWeightsTileKernel& kernel;
    Cells* cells;
    const std::uint64_t* need;  ///< of each column
    const int* input;           ///< offset of each column
    TapBits bits;
    int rows, count;
    bool held;  ///< the fine block contains all cells that are read

    /// Fills the tables for the cells from `first` on.
    KOKKOS_INLINE_FUNCTION void find_cells(Lane& lane, int thread) const {
      if (thread >= Tile::depth) return;
      const unsigned at = lane.done / Tile::depth % 2 * Tile::depth + static_cast<unsigned>(thread);
      if (static_cast<int>(lane.done) + thread >= count) {
        cells->coarse[at] = cells->fine[at] = 0;  // `load` computes addresses of these too
        return;
      }
      const Block<const T>& coarse = kernel.coarse;
      const Block<const T>& fine   = kernel.fine;
      const LocalWindow& w         = kernel.window;
      const auto at_tap_0          = [&](int d, int i) {
        return static_cast<int>((coarse.begin[d] + i) * w.stride[d] + w.offset[d]);
      };
      const int jz = at_tap_0(0, lane.walk.z), jy = at_tap_0(1, lane.walk.y),
                jx      = at_tap_0(2, lane.walk.x);
      cells->mask[at]   = bits.mask(fine, jz, jy, jx, w.dilation[0], w.dilation[1], w.dilation[2]);
      cells->coarse[at] = lane.walk.row + lane.walk.x * coarse.stride[4];
      cells->fine[at]   = lane.walk.n * fine.stride[0] + jz * fine.stride[2] + jy * fine.stride[3] +
                        jx * fine.stride[4];
      lane.walk.advance(coarse, Tile::depth);
    }
    KOKKOS_INLINE_FUNCTION void load(Lane& lane, int thread) const {
      constexpr int step = threads / Tile::depth;
      const int cell = thread % Tile::depth, first = thread / Tile::depth;
      const unsigned at = lane.done / Tile::depth % 2 * Tile::depth + static_cast<unsigned>(cell);
      const int left    = count - static_cast<int>(lane.done);
      const T* const a  = lane.from + cells->coarse[at];
      const T* const b  = lane.with + cells->fine[at];
      if (held && left >= Tile::depth && rows >= Tile::rows) {
        SHARD_UNROLL
        for (int i = 0; i < Tile::a_loads; ++i) lane.registers.a[i] = a[i * lane.row_step];
        SHARD_UNROLL
        for (int i = 0; i < Tile::b_loads; ++i) lane.registers.b[i] = b[input[first + i * step]];
      } else {
        const bool some          = cell < left;
        const std::uint64_t mask = some ? cells->mask[at] : 0;
        SHARD_UNROLL
        for (int i = 0; i < Tile::a_loads; ++i)
          lane.registers.a[i] = some && first + i * step < rows ? a[i * lane.row_step] : T(0);
        SHARD_UNROLL
        for (int i = 0; i < Tile::b_loads; ++i) {
          const std::uint64_t needs = need[first + i * step];
          lane.registers.b[i]       = (mask & needs) == needs ? b[input[first + i * step]] : T(0);
        }
      }
      lane.done += Tile::depth;
    }
    KOKKOS_INLINE_FUNCTION void store(Lane& lane, int thread, T* a, T* b) const {
      constexpr int step = threads / Tile::depth;
      const int term = thread % Tile::depth, at = thread / Tile::depth;
      SHARD_UNROLL
      for (int i = 0; i < Tile::a_loads; ++i)
        a[term * Tile::row_pitch + at + i * step] = lane.registers.a[i];
      SHARD_UNROLL
      for (int i = 0; i < Tile::b_loads; ++i)
        b[term * Tile::column_pitch + at + i * step] = lane.registers.b[i];
      find_cells(lane, thread);
    }
  };

  /// True if the fine block contains all cells that the coarse cells read along a dimension.
  KOKKOS_INLINE_FUNCTION bool holds(int d) const {
    const index_t least = coarse.begin[d] * window.stride[d] + window.offset[d],
                  most  = (coarse.end[d] - 1) * window.stride[d] + window.offset[d] +
                         (window.kernel[d] - 1) * window.dilation[d];
    return least >= fine.begin[d] && most < fine.end[d];
  }

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    int item              = team.league_rank();
    const int column_tile = item % column_tiles;
    item /= column_tiles;
    const int row_tile = item % row_tiles;
    item /= row_tiles;
    const int groups = static_cast<int>(window.groups), group = item % groups,
              piece     = item / groups;
    const index_t begin = piece * length, total = coarse.batch * coarse.cells();
    const int terms = static_cast<int>(begin + length < total ? length : total - begin);
    T* const scratch =
        static_cast<T*>(team.team_scratch(0).get_shmem_aligned(scratch_bytes() - 16, 16));
    Cells* const table        = reinterpret_cast<Cells*>(scratch + 2 * Tile::buffer);
    std::uint64_t* const need = reinterpret_cast<std::uint64_t*>(table + 1);
    int* const input          = reinterpret_cast<int*>(need + Tile::columns);
    const int row0 = row_tile * Tile::rows, column0 = column_tile * Tile::columns;
    const index_t channel0 = index_t(group) * coarse_per_group + row0;
    const TapBits bits{window.kernel[2], window.kernel[1], window.kernel[0]};
    const int tap_count = bits.x * bits.y * bits.z;
    const Source source{
        *this,

        table, need, input, bits, coarse_per_group - row0, terms, holds(0) && holds(1) && holds(2)};
    Lane lane[Lanes];
    const int first = team.team_rank() * Lanes;
    SHARD_UNROLL
    for (int l = 0; l < Lanes; ++l) {
      const int thread = first + l;
      for (int c = thread; c < Tile::columns; c += threads) {
        need[c]  = ~std::uint64_t(0);  // no such column: its sums aren't stored
        input[c] = 0;
        if (const int column = column0 + c; column < columns) {
          const int t = column % tap_count, tx = t % bits.x, ty = t / bits.x % bits.y,
                    tz = t / bits.x / bits.y;
          need[c]      = bits.need(tz, ty, tx);
          input[c]     = static_cast<int>(
              column / tap_count * fine.stride[1] + tz * window.dilation[0] * fine.stride[2] +
              ty * window.dilation[1] * fine.stride[3] + tx * window.dilation[2] * fine.stride[4]);
        }
      }
      lane[l].done     = 0;
      lane[l].from     = kept(coarse.origin + (channel0 + thread / Tile::depth) * coarse.stride[1]);
      lane[l].with     = kept(fine.origin + group * index_t(columns / tap_count) * fine.stride[1]);
      lane[l].row_step = kept(static_cast<int>(threads / Tile::depth * coarse.stride[1]));
      if (thread < Tile::depth && thread < terms)
        lane[l].walk = CellWalk::at(coarse, begin + thread);
      source.find_cells(lane[l], thread);
      SHARD_UNROLL
      for (int i = 0; i < Tile::lane_rows; ++i) {
        SHARD_UNROLL
        for (int j = 0; j < Tile::lane_columns; ++j) lane[l].registers.sums[i][j] = T(0);
      }
    }
    team.team_barrier();
    multiply_tile<Tile>(team, source, lane, terms, scratch);
    T* const to = sums + piece * (coarse.channels * columns) + channel0 * columns + column0;
    SHARD_UNROLL
    for (int l = 0; l < Lanes; ++l) {
      SHARD_UNROLL
      for (int i = 0; i < Tile::lane_rows; ++i) {
        const int row = Tile::row(first + l, i);
        SHARD_UNROLL
        for (int j = 0; j < Tile::lane_columns; ++j) {
          const int column = Tile::column(first + l, j);
          if (row < source.rows && column0 + column < columns)
            to[row * columns + column] = lane[l].registers.sums[i][j];
        }
      }
    }
  }
};

template <class Space, class T>
void add_pieces(const char* name, const Space& space, T* to, const T* sums, index_t columns,
                const FixedPieces& pieces) {
  launch(name, space, columns, AddPiecesKernel<T>{to, columns, 1, sums, 1, columns, pieces.count});
}

/// The weight gradient on a device: sums over pieces of the cells, then over the pieces.
template <class Space, class T>
void correlate_weights_on_device(const char* name, const Space& space, T* gradient,
                                 const Block<const T>& coarse, const Block<const T>& fine,
                                 const LocalWindow& window) {
  const index_t coarse_per_group = coarse.channels / window.groups,
                fine_per_group   = fine.channels / window.groups,
                columns = fine_per_group * window.taps(), weights = coarse.channels * columns,
                cells = coarse.batch * coarse.cells();
  if (weights == 0 || cells == 0) return;
  // depthwise ones stay here, as do their convolutions
  if constexpr (has_vendor_v<Space, T>)
    if (uses_vendor<Space, T>() && fine_per_group > 1 &&
        correlate_weights_by_vendor(space, gradient, coarse, fine, window))
      return;
  const auto run = [&](const FixedPieces& pieces, auto kernel) {
    kernel.sums   = partial_sums<Space, T>(space, pieces.count * weights);
    kernel.pieces = pieces.count;
    kernel.length = pieces.length;
    launch_teams(name, space, kernel);
    add_pieces(name, space, gradient, kernel.sums, weights, pieces);
  };
  const auto run_tiles = [&]<class Tile>(Tile) {
    CorrelateWeightsTileKernel<T, Tile, lanes_of<Space, Tile::threads>> kernel{};
    kernel.coarse           = coarse;
    kernel.fine             = fine;
    kernel.window           = window;
    kernel.coarse_per_group = static_cast<int>(coarse_per_group);
    kernel.columns          = static_cast<int>(columns);
    kernel.row_tiles        = (kernel.coarse_per_group + Tile::rows - 1) / Tile::rows;
    kernel.column_tiles     = (kernel.columns + Tile::columns - 1) / Tile::columns;
    run(FixedPieces::of(cells, window.groups * kernel.row_tiles * kernel.column_tiles, 1024, 256,
                        Tile::depth),
        kernel);
  };
  if (coarse_per_group < 4 || !TapBits::fit(window) || !has_short_offsets(fine, coarse, window) ||
      !has_short_offsets(coarse, fine, window) || cells >= short_limit || weights >= short_limit) {
    using Kernel = SumCellsKernel<T, true, lanes_of<Space, 256>>;
    run(FixedPieces::of(cells, weights, 4096, 4096, 1),
        Kernel{nullptr, coarse, fine, window, coarse_per_group, fine_per_group, weights, 0, 0});
    return;
  }
  if (coarse_per_group <= 16) return run_tiles(CorrelateWeightsTile<T, 16>{});
  const auto run_tensor_tiles = [&]<class Factors>(Factors) {
    run_tiles(CorrelateWeightsTensorTile<Factors::value>{});
  };
  if (with_tensor_cores<Space, T>(run_tensor_tiles)) return;
  run_tiles(CorrelateWeightsTile<T, 64>{});
}

/// The bias gradient on a device.
template <class Space, class T>
void sum_channels_on_device(const char* name, const Space& space, T* gradient,
                            const Block<const T>& dy) {
  const index_t cells = dy.batch * dy.cells();
  if (cells == 0 || dy.channels == 0) return;
  const FixedPieces pieces = FixedPieces::of(cells, dy.channels, 4096, 4096, 1);
  T* const sums            = partial_sums<Space, T>(space, pieces.count * dy.channels);
  launch_teams(name, space,
               SumCellsKernel<T, false, lanes_of<Space, 256>>{
                   sums, dy, {}, {}, 1, 1, dy.channels, pieces.count, pieces.length});
  add_pieces(name, space, gradient, sums, dy.channels, pieces);
}

}  // namespace shard::impl

#endif
