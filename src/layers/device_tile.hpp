// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_TILE_HPP
#define SHARD_SRC_LAYERS_DEVICE_TILE_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <string>

#include "shard/base/impl/launch.hpp"
#include "unroll.hpp"

namespace shard::impl {

/// The threads of a team that one thread plays: one on a device; all of them on a host, where a
/// team has one thread. Kernels keep a thread's state in an array of this length.
template <class Space, int Threads>
inline constexpr int lanes_of = is_host_space_v<Space> ? Threads : 1;

/// Runs a team kernel that has `threads`, `resident`, `lanes`, `teams()` and `scratch_bytes()`.
template <class Space, class Functor>
void launch_teams(const std::string& label, const Space& space, const Functor& functor) {
  if (functor.teams() == 0) return;
  Kokkos::parallel_for(
      label,
      team_policy<Functor, Kokkos::LaunchBounds<Functor::threads, Functor::resident>>(
          space, functor.teams(), Functor::threads / Functor::lanes, functor.scratch_bytes()),
      functor);
}

/// What a device loads by one instruction.
template <class T>
struct alignas(16) LoadVector {
  static constexpr int width = 16 / sizeof(T);
  T at[width];
};

/// A tile of a matrix product: a team computes Rows x Columns sums, each thread LaneRows x
/// LaneColumns of them in registers. Depth terms at a time are in the team's scratch memory, while
/// the next ones are loaded. Terms are added in ascending order.
template <class T, int Rows, int Columns, int Depth, int LaneRows, int LaneColumns>
struct ProductTile {
  static constexpr int rows = Rows, columns = Columns, depth = Depth;
  static constexpr int lane_rows = LaneRows, lane_columns = LaneColumns;
  static constexpr int width     = LoadVector<T>::width;
  static constexpr int row_lanes = Rows / LaneRows, column_lanes = Columns / LaneColumns;
  static constexpr int threads = row_lanes * column_lanes;
  // padded, so that threads which store neighbouring terms hit different banks
  static constexpr int row_pitch = Rows + width, column_pitch = Columns + width;
  static constexpr int buffer  = Depth * (row_pitch + column_pitch);
  static constexpr int bytes   = 2 * buffer * static_cast<int>(sizeof(T));
  static constexpr int a_loads = Rows * Depth / threads, b_loads = Columns * Depth / threads;
  static_assert(LaneRows % width == 0 && LaneColumns % width == 0);
  static_assert(a_loads * threads == Rows * Depth && b_loads * threads == Columns * Depth);

  /// A thread's sums and the operands that it has loaded and not yet stored into scratch memory.
  struct Registers {
    T sums[LaneRows][LaneColumns];
    T a[a_loads], b[b_loads];
  };

  /// Row i of a thread's sums, in the tile.
  KOKKOS_INLINE_FUNCTION static int row(int thread, int i) {
    return (i / width * row_lanes + thread / column_lanes) * width + i % width;
  }
  KOKKOS_INLINE_FUNCTION static int column(int thread, int j) {
    return (j / width * column_lanes + thread % column_lanes) * width + j % width;
  }

  KOKKOS_INLINE_FUNCTION static void multiply(Registers& r, int thread, const T* buffer_of) {
    using Vector     = LoadVector<T>;
    const T* const a = buffer_of + thread / column_lanes * width;
    const T* const b = buffer_of + Depth * row_pitch + thread % column_lanes * width;
    SHARD_UNROLL
    for (int k = 0; k < Depth; ++k) {
      Vector u[LaneRows / width], v[LaneColumns / width];
      SHARD_UNROLL
      for (int i = 0; i < LaneRows / width; ++i)
        u[i] = *reinterpret_cast<const Vector*>(a + k * row_pitch + i * row_lanes * width);
      SHARD_UNROLL
      for (int j = 0; j < LaneColumns / width; ++j)
        v[j] = *reinterpret_cast<const Vector*>(b + k * column_pitch + j * column_lanes * width);
      SHARD_UNROLL
      for (int i = 0; i < LaneRows; ++i) {
        SHARD_UNROLL
        for (int j = 0; j < LaneColumns; ++j)
          r.sums[i][j] += u[i / width].at[i % width] * v[j / width].at[j % width];
      }
    }
  }
};

/// Adds the products of `terms` terms to the threads' sums. `source.load(lane, thread)` puts the
/// next Depth terms of both operands into the lane's registers, zeros beyond the last one;
/// `source.store(lane, thread, a, b)` puts them into the scratch memory of a and b.
template <class Tile, int Lanes, class Team, class Source, class Lane, class T>
KOKKOS_INLINE_FUNCTION void multiply_tile(const Team& team, const Source& source,
                                          Lane (&lanes)[Lanes], int terms, T* scratch) {
  if (terms <= 0) return;
  const int first = team.team_rank() * Lanes;
  SHARD_UNROLL
  for (int l = 0; l < Lanes; ++l) {
    source.load(lanes[l], first + l);
    source.store(lanes[l], first + l, scratch, scratch + Tile::depth * Tile::row_pitch);
  }
  team.team_barrier();
  int now = 0;
  for (int k = Tile::depth;; k += Tile::depth) {
    const bool more = k < terms;
    T* const next   = scratch + (Tile::buffer - now);
    SHARD_UNROLL
    for (int l = 0; l < Lanes; ++l) {
      if (more) source.load(lanes[l], first + l);
      Tile::multiply(lanes[l].registers, first + l, scratch + now);
      if (more) source.store(lanes[l], first + l, next, next + Tile::depth * Tile::row_pitch);
    }
    if (!more) return;
    team.team_barrier();
    now = Tile::buffer - now;
  }
}

}  // namespace shard::impl

#endif
