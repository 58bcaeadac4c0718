// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_LINES_HPP
#define SHARD_SRC_EXCHANGE_LINES_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <cstring>

#include "shard/exchange/jobs.hpp"

namespace shard::impl {

/// The job that cell `item` belongs to: the last whose first cell isn't after it.
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

/// Calls use(index, lines) for each run of lines of a chunk that differ in dimension 1 alone;
/// `index` is the first line's index.
template <class Use>
KOKKOS_INLINE_FUNCTION void for_lines(int dims, const index_t* extent, const Chunk& chunk,
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

/// `rows` lines of `count` values at equal distances. Strides, along a line, and distances, from
/// line to line, in bytes.
struct Lines {
  std::byte *from, *to;
  index_t from_stride, to_stride;
  index_t from_distance, to_distance;
  index_t count, rows;
};

struct Bytes16 {
  std::uint64_t low, high;
};

/// Copies lines of values of type T; `Clear`: and sets their source to zero.
template <class T, bool Clear = false>
KOKKOS_INLINE_FUNCTION void copy_lines(const Lines& l) {
  constexpr auto size   = static_cast<index_t>(sizeof(T));
  const bool contiguous = l.from_stride == size && l.to_stride == size;
  for (index_t i = 0; i < l.rows; ++i) {
    std::byte *from = l.from + i * l.from_distance, *to = l.to + i * l.to_distance;
    if (contiguous) {
      const auto bytes = static_cast<std::size_t>(l.count * size);
      std::memcpy(to, from, bytes);
      if constexpr (Clear) std::memset(from, 0, bytes);
      continue;
    }
    for (index_t n = 0; n < l.count; ++n, from += l.from_stride, to += l.to_stride) {
      *reinterpret_cast<T*>(to) = *reinterpret_cast<const T*>(from);
      if constexpr (Clear) *reinterpret_cast<T*>(from) = T{};
    }
  }
}

/// The same for values of any size, byte by byte.
KOKKOS_INLINE_FUNCTION void copy_lines_of_bytes(const Lines& l, int value_size, bool clear) {
  for (index_t i = 0; i < l.rows; ++i)
    for (index_t n = 0; n < l.count; ++n)
      for (int b = 0; b < value_size; ++b) {
        std::byte& source = l.from[i * l.from_distance + n * l.from_stride + b];
        l.to[i * l.to_distance + n * l.to_stride + b] = source;
        if (clear) source = std::byte{0};
      }
}

/// Copies lines with the sign changed. Typed from end to end, for a value that is written as one
/// type and read as another may be read before it is written.
struct NegateLines {
  Lines l;

  template <class T>
  KOKKOS_INLINE_FUNCTION void operator()() const {
    for (index_t i = 0; i < l.rows; ++i)
      for (index_t n = 0; n < l.count; ++n) {
        const T value =
            *reinterpret_cast<const T*>(l.from + i * l.from_distance + n * l.from_stride);
        *reinterpret_cast<T*>(l.to + i * l.to_distance + n * l.to_stride) =
            static_cast<T>(T(0) - value);
      }
  }
};

/// Adds lines to others, or subtracts them; `clear`: and sets their source to zero. Source and
/// target don't overlap.
struct AddLines {
  Lines l;
  bool negative, clear;

  template <class T>
  KOKKOS_INLINE_FUNCTION void operator()() const {
    if (negative)
      clear ? run<T, true, true>() : run<T, true, false>();
    else
      clear ? run<T, false, true>() : run<T, false, false>();
  }

  template <class T, bool Negative, bool Clear>
  KOKKOS_INLINE_FUNCTION void run() const {
    constexpr auto size   = static_cast<index_t>(sizeof(T));
    const bool contiguous = l.from_stride == size && l.to_stride == size;
    for (index_t i = 0; i < l.rows; ++i) {
      T* from = reinterpret_cast<T*>(l.from + i * l.from_distance);
      T* to   = reinterpret_cast<T*>(l.to + i * l.to_distance);
      if (contiguous)
        add<T, Negative, Clear>(from, 1, to, 1);
      else
        add<T, Negative, Clear>(from, l.from_stride / size, to, l.to_stride / size);
    }
  }

 private:
  template <class T, bool Negative, bool Clear>
  KOKKOS_INLINE_FUNCTION void add(T* KOKKOS_RESTRICT from, index_t from_stride,
                                  T* KOKKOS_RESTRICT to, index_t to_stride) const {
    for (index_t n = 0; n < l.count; ++n) {
      T &source = from[n * from_stride], &target = to[n * to_stride];
      target = static_cast<T>(Negative ? target - source : target + source);
      if constexpr (Clear) source = T(0);
    }
  }
};

}  // namespace shard::impl

#endif
