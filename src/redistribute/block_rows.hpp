// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_REDISTRIBUTE_BLOCK_ROWS_HPP
#define SHARD_SRC_REDISTRIBUTE_BLOCK_ROWS_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__SSE2__)
#include <emmintrin.h>
#include <xmmintrin.h>
#endif

#include "../exchange/rows.hpp"
#include "shard/base/types.hpp"

namespace shard::impl {

/// Sets lines of `r.to` to zero.
template <class T>
KOKKOS_INLINE_FUNCTION void zero_rows_of(const Rows& r) {
  constexpr auto size = static_cast<index_t>(sizeof(T));
  for (index_t i = 0; i < r.rows; ++i) {
    std::byte* to = r.to + i * r.to_distance;
    if (r.to_stride == size)
      std::memset(to, 0, static_cast<std::size_t>(r.count * size));
    else
      for (index_t n = 0; n < r.count; ++n) *reinterpret_cast<T*>(to + n * r.to_stride) = T{};
  }
}

/// Copies bytes past the caches, whole cache lines of them: for more than caches hold, where a
/// store that reads its line first costs half as much again.
inline void stream_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__SSE2__)
  constexpr std::size_t line = 64, vector = 16;
  const std::size_t head = (line - reinterpret_cast<std::uintptr_t>(to) % line) % line;
  if (bytes >= head + line) {
    if (head > 0) std::memcpy(to, from, head);
    std::size_t i = head;
    for (; i + line <= bytes; i += line)
      for (std::size_t v = i; v < i + line; v += vector)
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + v),
                         _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + v)));
    to += i;
    from += i;
    bytes -= i;
  }
  if (bytes == 0) return;
#endif
  std::memcpy(to, from, bytes);
}

inline constexpr index_t tile_edge = 16;

/// Asks for what lies some cache lines after the tile that is read: rows of a transpose lie too far
/// from each other for a processor to see by itself that each goes on.
KOKKOS_INLINE_FUNCTION void read_ahead([[maybe_unused]] const std::byte* row) {
#if defined(__SSE2__)
  [[maybe_unused]] constexpr std::ptrdiff_t ahead = 256;  // bytes
  KOKKOS_IF_ON_HOST((_mm_prefetch(reinterpret_cast<const char*>(row) + ahead, _MM_HINT_T0);))
#endif
}

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
#if defined(__SSE2__) && !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__)
inline void transpose_by_vectors(std::uint32_t* to, const std::byte* from, index_t step, index_t n,
                                 index_t m) {
  constexpr index_t size = sizeof(std::uint32_t), lanes = 4;
  for (index_t i = 0; i < n; i += lanes)
    for (index_t j = 0; j < m; j += lanes) {
      const auto row = [&](index_t k) {
        return _mm_loadu_ps(reinterpret_cast<const float*>(from + (i + k) * step + j * size));
      };
      __m128 a = row(0), b = row(1), c = row(2), d = row(3);
      _MM_TRANSPOSE4_PS(a, b, c, d);
      float* column = reinterpret_cast<float*>(to + j * n + i);
      _mm_store_ps(column, a);
      _mm_store_ps(column + n, b);
      _mm_store_ps(column + 2 * n, c);
      _mm_store_ps(column + 3 * n, d);
    }
}
inline void transpose_by_vectors(std::uint64_t* to, const std::byte* from, index_t step, index_t n,
                                 index_t m) {
  constexpr index_t size = sizeof(std::uint64_t), lanes = 2;
  for (index_t i = 0; i < n; i += lanes)
    for (index_t j = 0; j < m; j += lanes) {
      const auto row = [&](index_t k) {
        return _mm_loadu_pd(reinterpret_cast<const double*>(from + (i + k) * step + j * size));
      };
      const __m128d a = row(0), b = row(1);
      double* column = reinterpret_cast<double*>(to + j * n + i);
      _mm_store_pd(column, _mm_unpacklo_pd(a, b));
      _mm_store_pd(column + n, _mm_unpackhi_pd(a, b));
    }
}
#endif

template <class T>
KOKKOS_INLINE_FUNCTION void transpose_tile(T* to, const std::byte* from, index_t step, index_t n,
                                           index_t m) {
#if defined(__SSE2__) && !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__)
  if constexpr (std::is_same_v<T, std::uint32_t> || std::is_same_v<T, std::uint64_t>) {
    constexpr auto lanes = static_cast<index_t>(16 / sizeof(T));
    if (n % lanes == 0 && m % lanes == 0) return transpose_by_vectors(to, from, step, n, m);
  }
#endif
  transpose_values(to, from, step, n, m);
}

/// Copies a block of T, of which rows are contiguous in memory on one side and columns on the
/// other: by tiles, so that whole cache lines are read and written.
template <class T>
KOKKOS_INLINE_FUNCTION void transpose_rows_of(const Rows& r, bool stream) {
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
      for (index_t i = 0; i < n; ++i) read_ahead(from + i * from_step);
      if (n == edge && m == edge)
        transpose_tile(tile, from, from_step, edge, edge);  // numbers that the compiler knows
      else
        transpose_tile(tile, from, from_step, n, m);
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

/// What was streamed is seen by whoever sees what is written from here on.
inline void end_stream() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

}  // namespace shard::impl

#endif
