// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_LINES_HPP
#define SHARD_SRC_EXCHANGE_LINES_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "host_copy.hpp"
#include "shard/exchange/impl/jobs.hpp"

namespace shard::impl {

/// The table of a kernel's jobs: on a host its addresses stay where they are.
template <class Job, bool ByLines>
using KernelTable = JobTable<Job, std::conditional_t<ByLines, const Address*, Addresses>>;
template <bool ByLines, class Jobs>
auto table_of(const Jobs& jobs, const Addresses& addresses) {
  if constexpr (ByLines)
    return jobs.table(addresses.memory != nullptr ? addresses.memory : addresses.entries);
  else
    return jobs.table(addresses);
}

/// The job of element `item`: the last job whose first element isn't after it.
template <class Table>
KOKKOS_INLINE_FUNCTION int job_of(const Table& table, index_t item) {
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
  const index_t rows      = dims > 1 ? extent[1] : 1;
  index_t index[max_rank] = {};
  index_t rest            = chunk.first_line;
  for (int d = 1; d < dims && rest > 0; ++d) {  // divisions take as long as a short line
    index[d] = rest % extent[d];
    rest /= extent[d];
  }
  for (index_t left = chunk.lines;;) {
    const index_t n = left < rows - index[1] ? left : rows - index[1];
    use(index, n);
    left -= n;
    if (left == 0) return;
    index[1] = 0;
    for (int d = 2; d < dims && ++index[d] == extent[d]; ++d) index[d] = 0;
  }
}

struct Bytes16 {
  std::uint64_t low, high;
};

/// Rows of N contiguous values.
template <class T>
struct CopyShortRows {
  const Lines& l;

  template <int N>
  KOKKOS_INLINE_FUNCTION void run() const {
    std::byte *from = l.from, *to = l.to;
    const Prefetcher fetch_from(l.from_distance), fetch_to(l.to_distance);
    for (index_t i = 0; i < l.rows; ++i, from += l.from_distance, to += l.to_distance) {
      fetch_from(from);
      fetch_to(to);
      T row[N];  // loaded whole: the compiler can't exclude an overlap
      for (int n = 0; n < N; ++n) row[n] = reinterpret_cast<const T*>(from)[n];
      for (int n = 0; n < N; ++n) reinterpret_cast<T*>(to)[n] = row[n];
    }
  }
};

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

/// Copies lines whose rows are contiguous on one side and whose columns are contiguous on the
/// other. It copies tiles, so that whole cache lines are read and written.
template <class T>
KOKKOS_INLINE_FUNCTION void transpose_lines(const Lines& l) {
  constexpr auto size    = static_cast<index_t>(sizeof(T));
  constexpr index_t edge = tile_edge;
  const bool along       = l.from_stride == size;  // otherwise `to` is contiguous along a row
  const index_t ni = along ? l.rows : l.count, nj = along ? l.count : l.rows;
  const index_t from_step = along ? l.from_distance : l.from_stride;
  const index_t to_step   = along ? l.to_stride : l.to_distance;
  alignas(64) T tile[edge * edge];
  for (index_t i0 = 0; i0 < ni; i0 += edge)
    for (index_t j0 = 0; j0 < nj; j0 += edge) {
      const index_t n = ni - i0 < edge ? ni - i0 : edge, m = nj - j0 < edge ? nj - j0 : edge;
      const std::byte* from = l.from + i0 * from_step + j0 * size;
      std::byte* to         = l.to + j0 * to_step + i0 * size;
      if (n == edge && m == edge)
        transpose_values(tile, from, from_step, edge, edge);  // sizes known at compile time
      else
        transpose_values(tile, from, from_step, n, m);
      for (index_t j = 0; j < m; ++j)
        std::memcpy(to + j * to_step, tile + j * n, static_cast<std::size_t>(n * size));
    }
}

/// Copies lines of values of type T.
template <class T>
KOKKOS_INLINE_FUNCTION void copy_lines(const Lines& l) {
  constexpr auto size    = static_cast<index_t>(sizeof(T));
  constexpr index_t tall = 8;  // smallest number of rows for tiles
  if (l.rows >= tall && l.count >= tall &&
      ((l.from_stride == size && l.to_distance == size && l.to_stride != size) ||
       (l.to_stride == size && l.from_distance == size && l.from_stride != size)))
    return transpose_lines<T>(l);
  if (l.from_stride == size && l.to_stride == size) {
    if (with_short_count(l.count, CopyShortRows<T>{l})) return;
    for (index_t i = 0; i < l.rows; ++i)
      std::memcpy(l.to + i * l.to_distance, l.from + i * l.from_distance,
                  static_cast<std::size_t>(l.count * size));
    return;
  }
  const Prefetcher fetch_from(l.from_stride), fetch_to(l.to_stride);
  for (index_t i = 0; i < l.rows; ++i) {
    std::byte *from = l.from + i * l.from_distance, *to = l.to + i * l.to_distance;
    for (index_t n = 0; n < l.count; ++n, from += l.from_stride, to += l.to_stride) {
      fetch_from(from);
      fetch_to(to);
      *reinterpret_cast<T*>(to) = *reinterpret_cast<const T*>(from);
    }
  }
}

/// Sets the source of lines to zero.
template <class T>
KOKKOS_INLINE_FUNCTION void clear_lines(const Lines& l) {
  constexpr auto size        = static_cast<index_t>(sizeof(T));
  constexpr index_t long_row = 16;  // smallest number of values for memset
  for (index_t i = 0; i < l.rows; ++i) {
    std::byte* from = l.from + i * l.from_distance;
    if (l.from_stride == size && l.count >= long_row)
      std::memset(from, 0, static_cast<std::size_t>(l.count * size));
    else
      for (index_t n = 0; n < l.count; ++n, from += l.from_stride)
        *reinterpret_cast<T*>(from) = T{};
  }
}

/// Gathers rows of N contiguous values in a buffer and sets them to zero.
template <class T>
struct TakeShortRows {
  const Lines& l;
  T* buffer;

  template <int N>
  KOKKOS_INLINE_FUNCTION void run() const {
    std::byte* from = l.from;
    const Prefetcher fetch(l.from_distance);
    for (index_t i = 0; i < l.rows; ++i, from += l.from_distance) {
      fetch(from);
      T* const row = reinterpret_cast<T*>(from);
      for (int n = 0; n < N; ++n) buffer[i * N + n] = row[n];
      for (int n = 0; n < N; ++n) row[n] = T{};
    }
  }
};

/// Gathers lines in a buffer and sets them to zero.
template <class T>
KOKKOS_INLINE_FUNCTION void take_lines(const Lines& l, T* buffer) {
  if (l.from_stride == index_t{sizeof(T)} && with_short_count(l.count, TakeShortRows<T>{l, buffer}))
    return;
  const Prefetcher fetch(l.from_stride);
  for (index_t i = 0; i < l.rows; ++i) {
    std::byte* from = l.from + i * l.from_distance;
    for (index_t n = 0; n < l.count; ++n, from += l.from_stride) {
      fetch(from);
      T& value                = *reinterpret_cast<T*>(from);
      buffer[i * l.count + n] = value;
      value                   = T{};
    }
  }
}

/// Copies lines and sets their source to zero.
template <class T>
KOKKOS_INLINE_FUNCTION void move_lines(const Lines& l) {
  constexpr auto size = static_cast<index_t>(sizeof(T));
  const bool packs    = l.to_stride == size && (l.rows == 1 || l.to_distance == l.count * size);
  if (!packs || (l.from_stride == size && l.count > short_count)) {
    copy_lines<T>(l);
    clear_lines<T>(l);
    return;
  }
  for_blocks(l, [](const Lines& block) {
    T buffer[block_values];
    take_lines<T>(block, buffer);
    std::memcpy(block.to, buffer, static_cast<std::size_t>(block.rows * block.count) * sizeof(T));
  });
}

/// The same for values of any size, byte by byte.
KOKKOS_INLINE_FUNCTION void copy_lines_of_bytes(const Lines& l, int value_size, bool clear) {
  if (!clear && l.from_stride == value_size && l.to_stride == value_size) {
    for (index_t i = 0; i < l.rows; ++i) {
      std::byte* const to         = l.to + i * l.to_distance;
      const std::byte* const from = l.from + i * l.from_distance;
      const index_t bytes         = l.count * value_size;
      // hipcc takes std::memcpy for a host's function where <cstring> was included before HIP
      KOKKOS_IF_ON_HOST((std::memcpy(to, from, static_cast<std::size_t>(bytes));))
      KOKKOS_IF_ON_DEVICE((for (index_t b = 0; b < bytes; ++b) to[b] = from[b];))
    }
    return;
  }
  for (index_t i = 0; i < l.rows; ++i)
    for (index_t n = 0; n < l.count; ++n)
      for (int b = 0; b < value_size; ++b) {
        std::byte& source = l.from[i * l.from_distance + n * l.from_stride + b];
        l.to[i * l.to_distance + n * l.to_stride + b] = source;
        if (clear) source = std::byte{0};
      }
}

/// Copies lines and changes the sign. All accesses have the values' own type, because a compiler
/// may reorder accesses of different types.
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

/// Adds lines to others, or subtracts them. `clear`: then sets the source to zero. Source and
/// target don't overlap.
struct AddLines {
  Lines l;
  bool negative, clear;

  template <class T>
  KOKKOS_INLINE_FUNCTION void operator()() const {
    const AddLines joined{l.joined(), negative, clear};
    if (negative)
      clear ? joined.run<T, true, true>() : joined.run<T, true, false>();
    else
      clear ? joined.run<T, false, true>() : joined.run<T, false, false>();
  }

  template <class T, bool Negative, bool Clear>
  KOKKOS_INLINE_FUNCTION void run() const {
    constexpr auto size   = static_cast<index_t>(sizeof(T));
    const bool contiguous = l.from_stride == size && l.to_stride == size;
    if (contiguous && with_short_count(l.count, AddShortRows<T, Negative, Clear>{l})) return;
    for (index_t i = 0; i < l.rows; ++i) {
      T* from = reinterpret_cast<T*>(l.from + i * l.from_distance);
      T* to   = reinterpret_cast<T*>(l.to + i * l.to_distance);
      if (contiguous) {
        if (i + 1 < l.rows) {
          fetch_row(l.from + (i + 1) * l.from_distance, l.count * size);
          fetch_row(l.to + (i + 1) * l.to_distance, l.count * size);
        }
        add<T, Negative, Clear>(from, 1, to, 1);
      } else
        add<T, Negative, Clear>(from, l.from_stride / size, to, l.to_stride / size);
    }
  }

 private:
  /// Rows of N contiguous values.
  template <class T, bool Negative, bool Clear>
  struct AddShortRows {
    const Lines& l;

    template <int N>
    KOKKOS_INLINE_FUNCTION void run() const {
      std::byte *from = l.from, *to = l.to;
      const Prefetcher fetch_from(l.from_distance), fetch_to(l.to_distance);
      for (index_t i = 0; i < l.rows; ++i, from += l.from_distance, to += l.to_distance) {
        fetch_from(from);
        fetch_to(to);
        T *source = reinterpret_cast<T*>(from), *target = reinterpret_cast<T*>(to);
        T sum[N];
        for (int n = 0; n < N; ++n)
          sum[n] = static_cast<T>(Negative ? target[n] - source[n] : target[n] + source[n]);
        for (int n = 0; n < N; ++n) target[n] = sum[n];
        if constexpr (Clear)
          for (int n = 0; n < N; ++n) source[n] = T(0);
      }
    }
  };

  template <class T, bool Negative, bool Clear>
  KOKKOS_INLINE_FUNCTION void add(T* KOKKOS_RESTRICT from, index_t from_stride,
                                  T* KOKKOS_RESTRICT to, index_t to_stride) const {
    const Prefetcher fetch_from(from_stride * index_t{sizeof(T)}),
        fetch_to(to_stride * index_t{sizeof(T)});
    index_t n = 0;
    if (from_stride != 1 || to_stride != 1)
      for (; n + added_at_once <= l.count; n += added_at_once) {
        T sum[added_at_once];
        for (index_t k = 0; k < added_at_once; ++k) {
          const T &source = from[(n + k) * from_stride], &target = to[(n + k) * to_stride];
          fetch_from(reinterpret_cast<const std::byte*>(&source));
          fetch_to(reinterpret_cast<const std::byte*>(&target));
          sum[k] = static_cast<T>(Negative ? target - source : target + source);
        }
        for (index_t k = 0; k < added_at_once; ++k) to[(n + k) * to_stride] = sum[k];
        if constexpr (Clear)
          for (index_t k = 0; k < added_at_once; ++k) from[(n + k) * from_stride] = T(0);
      }
    for (; n < l.count; ++n) {
      T &source = from[n * from_stride], &target = to[n * to_stride];
      target = static_cast<T>(Negative ? target - source : target + source);
      if constexpr (Clear) source = T(0);
    }
  }
};

}  // namespace shard::impl

#endif
