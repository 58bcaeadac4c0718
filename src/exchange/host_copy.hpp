// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_HOST_COPY_HPP
#define SHARD_SRC_EXCHANGE_HOST_COPY_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "shard/base/types.hpp"

// Optimisations of the host's copy loops. Without each of them a group of benchmark rows was more
// than 5 % slower.
namespace shard::impl {

/// Software prefetching of one side of a strided line: each of its elements is in a cache line of
/// its own, often in a page of its own, where the processor's prefetcher doesn't follow.
class Prefetcher {
 public:
  KOKKOS_INLINE_FUNCTION explicit Prefetcher(index_t stride)
      : ahead_(stride >= 64 || stride <= -64 ? distance * stride : 0) {}

  KOKKOS_INLINE_FUNCTION void operator()([[maybe_unused]] const std::byte* element) const {
    if (ahead_ == 0) return;
    KOKKOS_IF_ON_HOST((__builtin_prefetch(element + ahead_, 1);))
  }

 private:
  static constexpr index_t distance = 16;  // elements
  index_t ahead_;
};

/// Software prefetching of a whole row, while the one before it is added: the processor's
/// prefetcher doesn't know where it begins.
KOKKOS_INLINE_FUNCTION void fetch_row([[maybe_unused]] const std::byte* row, index_t bytes) {
  constexpr index_t line = 64, most = 2048;
  for (index_t b = 0; b < (bytes < most ? bytes : most); b += line)
    KOKKOS_IF_ON_HOST((__builtin_prefetch(row + b, 1);))
}

/// Interleaving: the number of scattered values that a job copies before the next job over the same
/// field goes on. The right halo of a row lies beside the left halo of the next row, so both jobs
/// use the same cache lines and pages.
inline constexpr index_t interleaved_values = 512;

/// `rows` lines of `count` values at equal distances. Strides, along a line, and distances, from
/// line to line, in bytes.
struct Lines {
  std::byte *from, *to;
  index_t from_stride, to_stride;
  index_t from_distance, to_distance;
  index_t count, rows;

  /// Lines of one value are one line.
  KOKKOS_INLINE_FUNCTION Lines joined() const {
    if (count > 1) return *this;
    return {from, to, from_distance, to_distance, 0, 0, rows, 1};
  }
};

/// Elements of a strided line that are added at once: all are loaded before the first is stored, so
/// that their cache misses overlap.
inline constexpr index_t added_at_once = 8;

/// Unrolled loops for rows of few values, which occur if the fastest dimension is sharded: calls
/// use.run<N>() for N = count. Returns whether it did.
inline constexpr index_t short_count = 6;
template <class Use>
KOKKOS_INLINE_FUNCTION bool with_short_count(index_t count, const Use& use) {
  switch (count) {
    case 1: use.template run<1>(); return true;
    case 2: use.template run<2>(); return true;
    case 3: use.template run<3>(); return true;
    case 4: use.template run<4>(); return true;
    case 5: use.template run<5>(); return true;
    case 6: use.template run<6>(); return true;
    default: return false;
  }
}

/// Staging of copies that set their source to zero: calls use(block) for blocks of lines, which are
/// gathered in a local buffer and stored from there in whole cache lines. Else the zeros would wait
/// behind stores to cache lines that a neighbour's core has.
inline constexpr index_t block_values = 512;
template <class Use>
KOKKOS_INLINE_FUNCTION void for_blocks(const Lines& l, const Use& use) {
  constexpr index_t most = block_values;
  const index_t rows = l.count < most ? most / l.count : 1, count = l.count < most ? l.count : most;
  for (index_t i = 0; i < l.rows; i += rows)
    for (index_t n = 0; n < l.count; n += count) {
      Lines block = l;
      block.from += i * l.from_distance + n * l.from_stride;
      block.to += i * l.to_distance + n * l.to_stride;
      block.rows  = l.rows - i < rows ? l.rows - i : rows;
      block.count = l.count - n < count ? l.count - n : count;
      use(block);
    }
}

/// Non-temporal stores: for copies larger than the caches, where an ordinary store reads its cache
/// line first. `end_stream` orders them before what is written afterwards.
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
inline void end_stream() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}
/// Copies lines of `bytes` contiguous bytes.
inline void stream_lines(const Lines& l, index_t bytes) {
  for (index_t i = 0; i < l.rows; ++i)
    stream_bytes(l.to + i * l.to_distance, l.from + i * l.from_distance,
                 static_cast<std::size_t>(bytes));
  end_stream();
}

}  // namespace shard::impl

#endif
