// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_ROWS_HPP
#define SHARD_SRC_EXCHANGE_ROWS_HPP

#include <Kokkos_Core.hpp>

#include <cstring>

#include "shard/exchange/jobs.hpp"

namespace shard::impl {

/// The job that cell `item` belongs to: the last whose first cell isn't beyond it.
template <class Job>
KOKKOS_INLINE_FUNCTION int job_of(const JobTable<Job>& table, index_t item) {
  int low = 0, high = table.job_count - 1;
  while (low < high) {
    const int middle = low + (high - low + 1) / 2;
    if (table.jobs[middle].first_cell <= item)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/// Fetches the line of memory at `address` to be written here.
KOKKOS_INLINE_FUNCTION void prefetch_to_write([[maybe_unused]] const void* address) {
#if defined(__x86_64__) && !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#endif
}

/// Lines of a job that follow each other at equal distances: dimensions 0 and 1 of a box. Strides
/// and distances in bytes.
struct Rows {
  std::byte *from, *to;
  index_t from_stride, to_stride;      // along a line
  index_t from_distance, to_distance;  // from line to line
  index_t count, rows;
};

struct Bytes16 {
  std::uint64_t low, high;
};

/// Calls use.run<N>() for N = count if lines are that short: a cut of the fastest dimension makes
/// such. Says whether it did.
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

/// Copies short lines, contiguous on both sides; `Clear`: and sets the source to zero.
template <class T, bool Clear>
struct CopyShort {
  Rows r;

  template <int N>
  KOKKOS_INLINE_FUNCTION void run() const {
    std::byte *from = r.from, *to = r.to;
    for (index_t i = 0; i < r.rows; ++i, from += r.from_distance, to += r.to_distance) {
      T* source = reinterpret_cast<T*>(from);
      T* target = reinterpret_cast<T*>(to);
      T line[N];  // whole, for the two might overlap as far as a compiler knows
      for (int n = 0; n < N; ++n) line[n] = source[n];
      for (int n = 0; n < N; ++n) target[n] = line[n];
      if constexpr (Clear)
        for (int n = 0; n < N; ++n) source[n] = T{};
    }
  }
};

/// Copies lines; `Clear`: and sets each to zero at once, while it is at hand.
template <class T, bool Clear = false>
KOKKOS_INLINE_FUNCTION void copy_rows_of(const Rows& r) {
  constexpr auto size = static_cast<index_t>(sizeof(T));
  if (r.from_stride == size && r.to_stride == size) {
    if (with_short_count(r.count, CopyShort<T, Clear>{r})) return;
    const auto bytes = static_cast<std::size_t>(r.count * size);
    for (index_t i = 0; i < r.rows; ++i) {
      std::memcpy(r.to + i * r.to_distance, r.from + i * r.from_distance, bytes);
      if constexpr (Clear) std::memset(r.from + i * r.from_distance, 0, bytes);
    }
    return;
  }
  const index_t fs = r.from_stride / size, ts = r.to_stride / size;
  for (index_t i = 0; i < r.rows; ++i) {
    T* source = reinterpret_cast<T*>(r.from + i * r.from_distance);
    T* target = reinterpret_cast<T*>(r.to + i * r.to_distance);
    for (index_t n = 0; n < r.count; ++n) {
      target[n * ts] = source[n * fs];
      if constexpr (Clear) source[n * fs] = T{};
    }
  }
}

/// Copies lines of values with their sign changed: typed from end to end, for a value that is
/// written as one type and read as another may be read before it is written.
struct NegateRows {
  Rows r;

  template <class T>
  KOKKOS_INLINE_FUNCTION void operator()() const {
    for (index_t i = 0; i < r.rows; ++i) {
      const std::byte* from = r.from + i * r.from_distance;
      std::byte* to         = r.to + i * r.to_distance;
      for (index_t n = 0; n < r.count; ++n) {
        const T value = *reinterpret_cast<const T*>(from + n * r.from_stride);
        *reinterpret_cast<T*>(to + n * r.to_stride) = static_cast<T>(T(0) - value);
      }
    }
  }
};

/// Calls use(first line's index along dimensions 1 and up, lines) for each run of lines of a chunk
/// that differ in dimension 1 alone.
template <class Use>
KOKKOS_INLINE_FUNCTION void for_rows(int dims, const index_t* extent, const Chunk& chunk,
                                     const Use& use) {
  const index_t rows = dims > 1 ? extent[1] : 1, end = chunk.first_line + chunk.lines;
  for (index_t line = chunk.first_line; line < end;) {
    index_t index[max_rank] = {};
    index_t rest            = line;
    for (int d = 1; d < dims; ++d) {
      index[d] = rest % extent[d];
      rest /= extent[d];
    }
    const index_t n = end - line < rows - index[1] ? end - line : rows - index[1];
    use(index, n);
    line += n;
  }
}

KOKKOS_INLINE_FUNCTION void index_of_cell(int dims, const index_t* extent, index_t cell,
                                          index_t* index) {
  for (int d = 0; d < dims; ++d) {
    index[d] = cell % extent[d];
    cell /= extent[d];
  }
}

KOKKOS_INLINE_FUNCTION index_t offset_of(int dims, const index_t* index, const index_t* stride) {
  index_t offset = 0;
  for (int d = 0; d < dims; ++d) offset += index[d] * stride[d];
  return offset;
}

/// Whether values that stand one after the other in a buffer in shared memory are scattered, or
/// gathered there, one by one or in short lines: `size` bytes each, with this stride in the buffer,
/// this one in the field, this distance from line to line in the buffer. They go by way of a piece
/// of this core's cache then: far loads and stores taken in turns with others wait for each other,
/// and whole lines of memory are fewer.
KOKKOS_INLINE_FUNCTION bool is_best_staged(const Rows& r, index_t size, index_t in_buffer,
                                           index_t in_field, index_t distance) {
  constexpr index_t long_enough = 128;  // bytes
  return in_buffer == size && (r.rows == 1 || distance == r.count * size) &&
         (r.count * size < long_enough || in_field != size);
}

/// Calls use(rows, bytes) for pieces of such lines that a buffer of `most` bytes holds.
template <class Use>
KOKKOS_INLINE_FUNCTION void for_pieces(const Rows& r, index_t size, index_t most, const Use& use) {
  const index_t line = r.count * size;
  Rows part          = r;
  if (line <= most) {
    for (index_t first = 0; first < r.rows; first += part.rows) {
      part.rows = most / line < r.rows - first ? most / line : r.rows - first;
      part.from = r.from + first * r.from_distance;
      part.to   = r.to + first * r.to_distance;
      use(part, static_cast<std::size_t>(part.rows * line));
    }
    return;
  }
  part.rows = 1;
  for (index_t i = 0; i < r.rows; ++i)
    for (index_t first = 0; first < r.count; first += part.count) {
      part.count = most / size < r.count - first ? most / size : r.count - first;
      part.from  = r.from + i * r.from_distance + first * r.from_stride;
      part.to    = r.to + i * r.to_distance + first * r.to_stride;
      use(part, static_cast<std::size_t>(part.count * size));
    }
}

inline constexpr index_t piece_bytes = 4096;

/// Fetches what lies in a peer's buffer piece by piece and calls use.each(rows) with it.
template <class Use>
KOKKOS_INLINE_FUNCTION void fetch_rows(const Rows& r, index_t size, const Use& use) {
  alignas(64) std::byte buffer[piece_bytes];
  for_pieces(r, size, piece_bytes, [&](Rows part, std::size_t bytes) {
    std::memcpy(buffer, part.from, bytes);
    part.from = buffer;
    use.each(part);
  });
}

/// Calls use.each(rows) for pieces of what is packed into a buffer for a peer, whose memory is
/// asked for a piece ahead. `staged`: by way of a buffer of this core.
template <class Use>
KOKKOS_INLINE_FUNCTION void pack_rows(const Rows& r, index_t size, bool staged, const Use& use) {
  alignas(64) std::byte buffer[piece_bytes];
  std::byte* const end = r.to + r.rows * r.count * size;
  std::byte* asked     = r.to;
  for_pieces(r, size, piece_bytes, [&](Rows part, std::size_t bytes) {
    std::byte* const to = part.to;
    for (const std::byte* until = to + 2 * bytes; asked < until && asked < end; asked += 64)
      prefetch_to_write(asked);
    if (staged) part.to = buffer;
    use.each(part);
    if (staged) std::memcpy(to, buffer, bytes);
  });
}

}  // namespace shard::impl

#endif
