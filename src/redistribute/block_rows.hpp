// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_REDISTRIBUTE_BLOCK_ROWS_HPP
#define SHARD_SRC_REDISTRIBUTE_BLOCK_ROWS_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "../exchange/lines.hpp"
#include "shard/base/types.hpp"

namespace shard::impl {

/// Sets lines of `r.to` to zero.
template <class T>
KOKKOS_INLINE_FUNCTION void zero_rows_of(const Lines& r) {
  constexpr auto size = static_cast<index_t>(sizeof(T));
  for (index_t i = 0; i < r.rows; ++i) {
    std::byte* to = r.to + i * r.to_distance;
    if (r.to_stride == size)
      std::memset(to, 0, static_cast<std::size_t>(r.count * size));
    else
      for (index_t n = 0; n < r.count; ++n) *reinterpret_cast<T*>(to + n * r.to_stride) = T{};
  }
}

inline constexpr index_t tile_edge = 16;

/// A tile of n rows of m values, `step` bytes from row to row: `to` holds its columns one after the
/// other.
template <class T>
KOKKOS_INLINE_FUNCTION void transpose_values(T* to, const std::byte* from, index_t step, index_t n,
                                             index_t m) {
  for (index_t i = 0; i < n; ++i) {
    const T* source = reinterpret_cast<const T*>(from + i * step);
    for (index_t j = 0; j < m; ++j) to[j * n + i] = source[j];
  }
}

/// Copies a block of T, of which rows are contiguous in memory on one side and columns on the
/// other: by tiles, so that whole cache lines are read and written.
template <class T>
KOKKOS_INLINE_FUNCTION void transpose_rows_of(const Lines& r, [[maybe_unused]] bool stream) {
  constexpr auto size    = static_cast<index_t>(sizeof(T));
  constexpr index_t edge = tile_edge;
  const bool along       = r.from_stride == size;  // otherwise `to` is contiguous along a row
  const index_t ni = along ? r.rows : r.count, nj = along ? r.count : r.rows;
  const index_t from_step = along ? r.from_distance : r.from_stride;
  const index_t to_step   = along ? r.to_stride : r.to_distance;
  alignas(64) T tile[edge * edge];
  for (index_t i0 = 0; i0 < ni; i0 += edge)
    for (index_t j0 = 0; j0 < nj; j0 += edge) {
      const index_t n = ni - i0 < edge ? ni - i0 : edge, m = nj - j0 < edge ? nj - j0 : edge;
      const std::byte* from = r.from + i0 * from_step + j0 * size;
      std::byte* to         = r.to + j0 * to_step + i0 * size;
      if (n == edge && m == edge)
        transpose_values(tile, from, from_step, edge, edge);  // numbers that the compiler knows
      else
        transpose_values(tile, from, from_step, n, m);
      // columns that follow each other are one run
      const bool joined  = to_step == n * size;
      const index_t runs = joined ? 1 : m, bytes = (joined ? m : 1) * n * size;
      for (index_t j = 0; j < runs; ++j) {
        [[maybe_unused]] const auto* run = reinterpret_cast<const std::byte*>(tile + j * n);
        if (stream) {
          KOKKOS_IF_ON_HOST((stream_bytes(to + j * to_step, run, static_cast<std::size_t>(bytes));))
        } else {
          std::memcpy(to + j * to_step, run, static_cast<std::size_t>(bytes));
        }
      }
    }
}

}  // namespace shard::impl

#endif
