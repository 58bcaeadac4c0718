// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_LINEAR_HPP
#define SHARD_SRC_LAYERS_DEVICE_LINEAR_HPP

#include <cmath>
#include <cstdint>

#include "device_pieces.hpp"
#include "device_tile.hpp"
#include "launch.hpp"
#include "library_product.hpp"
#include "product.hpp"

namespace shard::impl {

/// Offsets::at in 32 bits, whose divisions are several times as fast on a device.
KOKKOS_INLINE_FUNCTION index_t offset_at(const Offsets& o, index_t i) {
  if (o.dims <= 1) return o.dims == 1 ? i * o.stride[0] : 0;
  if (i >= index_t(1) << 31) return o.at(i);
  index_t offset = 0;
  auto rest      = static_cast<std::uint32_t>(i);
  for (int d = o.dims - 1; d > 0 && rest > 0; --d) {
    const bool within = o.extent[d] > rest;
    const auto extent = static_cast<std::uint32_t>(within ? 1 : o.extent[d]);
    const auto here   = within ? rest : rest % extent;
    offset += here * o.stride[d];
    rest = within ? 0 : rest / extent;
  }
  return offset + rest * o.stride[0];
}

/// The tile of ProductTileKernel: columns of a Product by its rows.
template <class T>
struct LinearTile;
template <>
struct LinearTile<float> : ProductTile<float, 128, 64, 8, 8, 8> {};
template <>
struct LinearTile<double> : ProductTile<double, 64, 64, 8, 8, 4> {};
template <ProductPrecision Factors>
struct LinearTensorTile : TensorTile<128, 64, 16, 64, Factors> {};

/// A Product on a device. A team has one tile and one piece of the terms. The tile's rows are the
/// product's columns, which are the tensor's rows. \tparam Index type of offsets: int if the
/// operands are small enough.
template <class T, class TileOf, int Lanes, class Index>
struct ProductTileKernel {
  using Tile                   = TileOf;
  static constexpr int threads = Tile::threads, lanes = Lanes, resident = sizeof(T) == 4 ? 4 : 3;
  Product<T> p;
  T* to;  ///< p.c, or the partial sums of the pieces
  Offsets to_rows;
  index_t to_column;
  index_t piece_step;  ///< from the sums of one piece to those of the next
  index_t pieces, length;

  index_t row_tiles() const { return (p.columns + Tile::rows - 1) / Tile::rows; }
  index_t column_tiles() const { return (p.rows + Tile::columns - 1) / Tile::columns; }
  index_t teams() const { return row_tiles() * column_tiles() * pieces; }
  KOKKOS_FUNCTION static constexpr std::size_t scratch_bytes() {
    return 16 + Tile::bytes + sizeof(index_t) * Tile::rows +
           sizeof(Index) * (Tile::rows + 4 * Tile::depth);
  }

  struct Lane {
    typename Tile::Registers registers;
    int done;  ///< terms loaded
    Index a_row[Tile::a_loads], b_row[Tile::b_loads];
    unsigned a_held, b_held;  ///< a bit for each row that exists
  };

  /// The elements of the tile that a thread loads: (row + i * row_step, term + i * term_step).
  /// Neighbouring threads load neighbouring elements (coalesced).
  template <int Extent>
  struct Loads {
    int row, term, row_step, term_step;

    KOKKOS_INLINE_FUNCTION Loads(int thread, bool terms_fast)
        : row(terms_fast ? thread / Tile::depth : thread % Extent),
          term(terms_fast ? thread % Tile::depth : thread / Extent),
          row_step(terms_fast ? Tile::threads / Tile::depth : 0),
          term_step(terms_fast ? 0 : Tile::threads / Extent) {}

    template <int Count>
    KOKKOS_INLINE_FUNCTION void load(T (&to)[Count], const T* from, const Index (&rows)[Count],
                                     unsigned held, const Index* terms, int left) const {
      constexpr unsigned all = (1U << (Count - 1) << 1U) - 1;
      if (held == all && left >= Tile::depth) {
        SHARD_UNROLL
        for (int i = 0; i < Count; ++i) to[i] = from[rows[i] + terms[term + i * term_step]];
        return;
      }
      SHARD_UNROLL
      for (int i = 0; i < Count; ++i) {
        const int at = term + i * term_step;
        to[i]        = (held >> i & 1U) != 0 && at < left ? from[rows[i] + terms[at]] : T(0);
      }
    }
    template <int Count>
    KOKKOS_INLINE_FUNCTION void store(const T (&from)[Count], T* to, int pitch) const {
      const int first = term * pitch + row, step = term_step * pitch + row_step;
      SHARD_UNROLL
      for (int i = 0; i < Count; ++i) to[first + i * step] = from[i];
    }
  };

  /// Loads the operands. The address of element (row, term) is the sum of the row's and the term's
  /// offset.
  struct Source {
    const ProductTileKernel& kernel;
    const T *a, *b;
    Index* terms;  ///< offsets of terms of a, then of b, for this tile and the next
    index_t first_term;
    int row_count, column_count, count;
    bool a_terms_fast, b_terms_fast;

    /// \param offsets of the tile's rows
    KOKKOS_INLINE_FUNCTION void find_rows(Lane& lane, int thread, const Index* offsets) const {
      const Loads<Tile::rows> of_a(thread, a_terms_fast);
      lane.a_held = lane.b_held = 0;
      SHARD_UNROLL
      for (int i = 0; i < Tile::a_loads; ++i) {
        const int row = of_a.row + i * of_a.row_step;
        lane.a_row[i] = row < row_count ? offsets[row] : Index(0);
        lane.a_held |= row < row_count ? 1U << i : 0U;
      }
      const Loads<Tile::columns> of_b(thread, b_terms_fast);
      SHARD_UNROLL
      for (int i = 0; i < Tile::b_loads; ++i) {
        const int row = of_b.row + i * of_b.row_step;
        lane.b_row[i] = static_cast<Index>(row * kernel.p.a_row);
        lane.b_held |= row < column_count ? 1U << i : 0U;
      }
    }
    KOKKOS_INLINE_FUNCTION void find_terms(int thread, int from) const {
      if (thread >= 2 * Tile::depth) return;
      const Offsets& offsets = thread < Tile::depth ? kernel.p.b_term : kernel.p.a_term;
      const int term         = from + thread % Tile::depth;
      terms[from / Tile::depth % 2 * 2 * Tile::depth + thread] =
          term < count ? static_cast<Index>(offset_at(offsets, first_term + term)) : Index(0);
    }
    KOKKOS_INLINE_FUNCTION void load(Lane& lane, int thread) const {
      const Index* const now = terms + lane.done / Tile::depth % 2 * 2 * Tile::depth;
      const int left         = count - lane.done;
      Loads<Tile::rows>(thread, a_terms_fast)
          .load(lane.registers.a, a, lane.a_row, lane.a_held, now, left);
      Loads<Tile::columns>(thread, b_terms_fast)
          .load(lane.registers.b, b, lane.b_row, lane.b_held, now + Tile::depth, left);
      lane.done += Tile::depth;
    }
    KOKKOS_INLINE_FUNCTION void store(const Lane& lane, int thread, T* to_a, T* to_b) const {
      Loads<Tile::rows>(thread, a_terms_fast).store(lane.registers.a, to_a, Tile::row_pitch);
      Loads<Tile::columns>(thread, b_terms_fast).store(lane.registers.b, to_b, Tile::column_pitch);
      find_terms(thread, lane.done);
    }
  };

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const int across = static_cast<int>(column_tiles_), down = static_cast<int>(row_tiles_);
    int item          = team.league_rank();
    const int column0 = item % across * Tile::columns;
    item /= across;
    const index_t row0  = index_t(item % down) * Tile::rows;
    const int piece     = item / down;
    const index_t begin = piece * length;
    T* const scratch =
        static_cast<T*>(team.team_scratch(0).get_shmem_aligned(scratch_bytes() - 16, 16));
    index_t* const to_row   = reinterpret_cast<index_t*>(scratch + 2 * Tile::buffer);
    Index* const from_row   = reinterpret_cast<Index*>(to_row + Tile::rows);
    const index_t rows_left = p.columns - row0, columns_left = p.rows - column0,
                  terms_left = p.terms - begin;
    const Source source{
        *this,
        kept(p.b),
        kept(p.a + column0 * p.a_row),
        from_row + Tile::rows,
        begin,
        static_cast<int>(rows_left < Tile::rows ? rows_left : Tile::rows),
        static_cast<int>(columns_left < Tile::columns ? columns_left : Tile::columns),
        static_cast<int>(terms_left < length ? terms_left : length),
        p.b_term.dims > 0 && p.b_term.stride[p.b_term.dims - 1] == 1,
        p.a_term.dims > 0 && p.a_term.stride[p.a_term.dims - 1] == 1};
    Lane lane[Lanes];
    const int first = team.team_rank() * Lanes;
    SHARD_UNROLL
    for (int l = 0; l < Lanes; ++l) {
      for (int r = first + l; r < source.row_count; r += Tile::threads) {
        to_row[r]   = offset_at(to_rows, row0 + r);
        from_row[r] = static_cast<Index>(offset_at(p.b_column, row0 + r));
      }
      lane[l].done = 0;
      source.find_terms(first + l, 0);
      SHARD_UNROLL
      for (int j = 0; j < Tile::lane_columns; ++j) {
        const int column = Tile::column(first + l, j);
        const T start    = p.start != nullptr && column < source.column_count
                               ? p.start[(column0 + column) * p.start_row]
                               : T(0);
        SHARD_UNROLL
        for (int i = 0; i < Tile::lane_rows; ++i) lane[l].registers.sums[i][j] = start;
      }
    }
    team.team_barrier();
    SHARD_UNROLL
    for (int l = 0; l < Lanes; ++l) source.find_rows(lane[l], first + l, from_row);
    multiply_tile<Tile>(team, source, lane, source.count, scratch);
    SHARD_UNROLL
    for (int l = 0; l < Lanes; ++l) {
      SHARD_UNROLL
      for (int i = 0; i < Tile::lane_rows; ++i) {
        const int row = Tile::row(first + l, i);
        if (row >= source.row_count) continue;
        T* const at = to + piece * piece_step + to_row[row] + column0 * to_column;
        SHARD_UNROLL
        for (int j = 0; j < Tile::lane_columns; ++j) {
          const int column = Tile::column(first + l, j);
          if (column >= source.column_count) continue;
          T& value = at[column * to_column];
          value    = p.add ? value + lane[l].registers.sums[i][j] : lane[l].registers.sums[i][j];
        }
      }
    }
  }

  ProductTileKernel(const Product<T>& product, const FixedPieces& cut, T* partial)
      : p(product),
        to(partial != nullptr ? partial : product.c),
        to_rows(product.c_column),
        to_column(product.c_row),
        piece_step(product.rows * product.columns),
        pieces(cut.count),
        length(cut.length),
        row_tiles_(row_tiles()),
        column_tiles_(column_tiles()) {
    if (partial == nullptr) return;
    to_rows = {};
    to_rows.append(product.columns, 1);
    to_column = product.columns;
    p.add     = false;
  }

 private:
  index_t row_tiles_, column_tiles_;
};

/// Sums of a few neighbouring elements over a piece of the rows.
template <class T, int Lanes>
struct SumRowPiecesKernel {
  static constexpr int threads = 256, lanes = Lanes, resident = 4, width = 32,
                       height = threads / width;
  T* sums;
  TensorRows<const T> in;
  index_t rows, chunks, pieces, length;

  index_t teams() const { return chunks * pieces; }
  KOKKOS_FUNCTION static constexpr std::size_t scratch_bytes() { return 16 + sizeof(T) * threads; }

  template <class Team>
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const int chunk = team.league_rank() % static_cast<int>(chunks),
              piece = team.league_rank() / static_cast<int>(chunks);
    T* const shared =
        static_cast<T*>(team.team_scratch(0).get_shmem_aligned(sizeof(T) * threads, 16));
    const index_t begin = piece * length, end = begin + length < rows ? begin + length : rows;
    for (int l = 0; l < Lanes; ++l) {
      const int thread    = team.team_rank() * Lanes + l;
      const index_t place = index_t(chunk) * width + thread % width;
      T sum               = T(0);
      if (place < in.length)
        for (index_t r = begin + thread / width; r < end; r += height)
          sum += in.origin[offset_at(in.rows, r) + place * in.step];
      shared[thread] = sum;
    }
    team.team_barrier();
    for (int l = 0; l < Lanes; ++l) {
      const int thread    = team.team_rank() * Lanes + l;
      const index_t place = index_t(chunk) * width + thread;
      if (thread >= width || place >= in.length) continue;
      T sum = T(0);
      for (int r = 0; r < height; ++r) sum += shared[r * width + thread];
      sums[piece * in.length + place] = sum;
    }
  }
};

/// True if each operand of a product spans less than 2^30 elements.
template <class T>
bool is_short(const Product<T>& p) {
  const auto reach = [](const Offsets& o) {
    double sum = 0.0;
    for (int d = 0; d < o.dims; ++d)
      sum += std::fabs(static_cast<double>(o.stride[d])) * static_cast<double>(o.extent[d]);
    return sum;
  };
  constexpr double most = 1 << 30;
  return reach(p.b_column) + reach(p.b_term) < most &&
         std::fabs(static_cast<double>(p.a_row)) * static_cast<double>(p.rows) + reach(p.a_term) <
             most;
}

template <class Tile, class Index, class Space, class T>
void multiply_tiles(const char* name, const Space& space, const Product<T>& p, bool pieces) {
  using Kernel = ProductTileKernel<T, Tile, lanes_of<Space, Tile::threads>, Index>;
  const FixedPieces whole{p.terms, 1};
  const Kernel kernel(p, whole, nullptr);
  if (!pieces) return launch_teams(name, space, kernel);
  const index_t count = p.rows * p.columns;
  if (count == 0 || p.terms == 0) return;
  const FixedPieces cut = FixedPieces::of(p.terms, kernel.teams(), 1024, 256, Tile::depth);
  T* const sums         = partial_sums<Space, T>(space, cut.count * count);
  launch_teams(name, space, Kernel(p, cut, sums));
  launch(
      name, space, count,
      AddPiecesKernel<T>{p.c, p.c_row, p.c_column.stride[0], sums, p.rows, p.columns, cut.count});
}

/// A product on a device. `pieces`: divides the terms, for products with many terms and few
/// results.
template <class Space, class T>
void multiply_on_device(const char* name, const Space& space, const Product<T>& p, bool pieces) {
  if (multiply_by_library(space, p)) return;  // faster than our tiles in TF32 too
  if (!is_short(p)) return multiply_tiles<LinearTile<T>, index_t>(name, space, p, pieces);
  const auto run_tensor_tiles = [&]<class Factors>(Factors) {
    multiply_tiles<LinearTensorTile<Factors::value>, int>(name, space, p, pieces);
  };
  if (with_tensor_cores<Space, T>(run_tensor_tiles)) return;
  multiply_tiles<LinearTile<T>, int>(name, space, p, pieces);
}

template <class Space, class T>
void sum_rows_on_device(const char* name, const Space& space, T* sums, index_t step,
                        const TensorRows<const T>& rows) {
  using Kernel         = SumRowPiecesKernel<T, lanes_of<Space, 256>>;
  const index_t count  = rows.rows.count(),
                chunks = (rows.length + Kernel::width - 1) / Kernel::width;
  if (count == 0 || rows.length == 0) return;
  const FixedPieces cut = FixedPieces::of(count, chunks, 1024, 256, 1);
  T* const partial      = partial_sums<Space, T>(space, cut.count * rows.length);
  launch_teams(name, space, Kernel{partial, rows, count, chunks, cut.count, cut.length});
  launch(name, space, rows.length,
         AddPiecesKernel<T>{sums, 0, step, partial, 1, rows.length, cut.count});
}

}  // namespace shard::impl

#endif
