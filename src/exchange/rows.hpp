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

/// Copies short lines, contiguous on both sides.
template <class T>
struct CopyShort {
  Rows r;

  template <int N>
  KOKKOS_INLINE_FUNCTION void run() const {
    const std::byte* from = r.from;
    std::byte* to         = r.to;
    for (index_t i = 0; i < r.rows; ++i, from += r.from_distance, to += r.to_distance) {
      const T* source = reinterpret_cast<const T*>(from);
      T* target       = reinterpret_cast<T*>(to);
      for (int n = 0; n < N; ++n) target[n] = source[n];
    }
  }
};

template <class T>
KOKKOS_INLINE_FUNCTION void copy_rows_of(const Rows& r) {
  constexpr auto size = static_cast<index_t>(sizeof(T));
  if (r.from_stride == size && r.to_stride == size) {
    if (with_short_count(r.count, CopyShort<T>{r})) return;
    for (index_t i = 0; i < r.rows; ++i)
      std::memcpy(r.to + i * r.to_distance, r.from + i * r.from_distance,
                  static_cast<std::size_t>(r.count * size));
    return;
  }
  const index_t fs = r.from_stride / size, ts = r.to_stride / size;
  for (index_t i = 0; i < r.rows; ++i) {
    const T* source = reinterpret_cast<const T*>(r.from + i * r.from_distance);
    T* target       = reinterpret_cast<T*>(r.to + i * r.to_distance);
    for (index_t n = 0; n < r.count; ++n) target[n * ts] = source[n * fs];
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

/// Sets short contiguous lines to zero.
template <class T>
struct ClearShort {
  Rows r;

  template <int N>
  KOKKOS_INLINE_FUNCTION void run() const {
    std::byte* from = r.from;
    for (index_t i = 0; i < r.rows; ++i, from += r.from_distance)
      for (int n = 0; n < N; ++n) reinterpret_cast<T*>(from)[n] = T{};
  }
};

template <class T>
KOKKOS_INLINE_FUNCTION void clear_rows_of(const Rows& r) {
  constexpr auto size  = static_cast<index_t>(sizeof(T));
  const index_t stride = r.from_stride / size;
  if (stride == 1 && with_short_count(r.count, ClearShort<T>{r})) return;
  for (index_t i = 0; i < r.rows; ++i) {
    T* source = reinterpret_cast<T*>(r.from + i * r.from_distance);
    if (stride == 1 && r.count >= 8)
      std::memset(source, 0, static_cast<std::size_t>(r.count * size));
    else
      for (index_t n = 0; n < r.count; ++n) source[n * stride] = T{};
  }
}

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

/// Whether these are short lines that stand one after the other in a buffer which another core has
/// written. They are best copied in large pieces to this core's cache first: loads from there and
/// far stores, taken in turns, wait for each other.
KOKKOS_INLINE_FUNCTION bool is_best_fetched(const Rows& r, index_t value_size) {
  constexpr index_t long_enough = 128;  // bytes
  return r.count * value_size < long_enough && r.from_stride == value_size &&
         r.from_distance == r.count * value_size;
}

/// Fetches such lines piece by piece and calls use.each(rows) for them.
template <class Use>
KOKKOS_INLINE_FUNCTION void fetch_rows(const Rows& r, const Use& use) {
  constexpr index_t size = 4096;
  alignas(64) std::byte buffer[size];
  const index_t line = r.from_distance, most = size / line;
  for (index_t first = 0; first < r.rows; first += most) {
    Rows part = r;
    part.rows = r.rows - first < most ? r.rows - first : most;
    part.from = buffer;
    part.to += first * r.to_distance;
    std::memcpy(buffer, r.from + first * line, static_cast<std::size_t>(part.rows * line));
    use.each(part);
  }
}

}  // namespace shard::impl

#endif
