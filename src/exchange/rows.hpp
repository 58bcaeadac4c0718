// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_ROWS_HPP
#define SHARD_SRC_EXCHANGE_ROWS_HPP

#include <Kokkos_Core.hpp>

#include <cstring>
#include <type_traits>

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

/// The same to be read.
KOKKOS_INLINE_FUNCTION void prefetch_to_read([[maybe_unused]] const void* address) {
#if defined(__x86_64__) && !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__)
  asm volatile("prefetcht0 %0" : : "m"(*static_cast<const char*>(address)));
#endif
}

/// Copies a piece of this core's cache to where a neighbour will read it. The processor's own
/// instruction for copies writes whole lines, without fetching first what the neighbour's core has
/// in them; store by store they cost 1.5 times as much, and 3 to 5 times between cores that share
/// no cache.
KOKKOS_INLINE_FUNCTION void copy_away(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__x86_64__) && !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__)
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
  std::memcpy(to, from, bytes);
#endif
}

/// Copies a piece of a peer's own field to this rank's. Where it is long, and lies alike within
/// lines of memory, by the same instruction: 0.8 of the time of vector stores. To and from messages
/// of MPI it was up to 1.2 times as slow.
KOKKOS_INLINE_FUNCTION void copy_near(std::byte* to, const std::byte* from, std::size_t bytes) {
  constexpr std::size_t long_enough = 65536;
  constexpr std::ptrdiff_t line     = 64;
  if (bytes >= long_enough && (to - from) % line == 0)
    copy_away(to, from, bytes);
  else
    std::memcpy(to, from, bytes);
}

/// Sets a piece of a neighbour's memory to zero in the same way, where it is long enough for that.
KOKKOS_INLINE_FUNCTION void clear_away(std::byte* to, std::size_t bytes) {
#if defined(__x86_64__) && !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__)
  constexpr std::size_t long_enough = 4096;
  if (bytes >= long_enough) {
    asm volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(0) : "memory");
    return;
  }
#endif
  std::memset(to, 0, bytes);
}

/// So many rows from one to that whose memory is asked for.
inline constexpr index_t few_rows = 16;

/// Bytes from a short row to the one whose memory is asked for while it is moved; 0 where rows lie
/// so near to each other that a processor sees by itself that they go on, or are no more than that.
KOKKOS_INLINE_FUNCTION index_t ahead_of(index_t distance, index_t rows) {
  constexpr index_t near = 128;
  return rows > few_rows && (distance < -near || distance > near) ? few_rows * distance : 0;
}

/// Bytes from a short row, or a piece of a line, to the line of memory that is asked for to be
/// written: those that follow each other too, for stores alone ask a neighbour's cache for few at a
/// time, and others wait behind them.
KOKKOS_INLINE_FUNCTION index_t ahead_of_stores(index_t distance, index_t rows) {
  constexpr index_t bytes = 768;
  const index_t by_rows   = ahead_of(distance, rows);
  return by_rows != 0 ? by_rows : bytes;
}

/// Lines of a job that follow each other at equal distances: dimensions 0 and 1 of a box. Strides
/// and distances in bytes.
struct Rows {
  std::byte *from, *to;
  index_t from_stride, to_stride;      // along a line
  index_t from_distance, to_distance;  // from line to line
  index_t count, rows;
  bool ask = false;  // the memory of single values is asked for before they are reached

  /// Lines of one value are a line.
  KOKKOS_INLINE_FUNCTION Rows as_line_if_ones() const {
    if (count > 1) return *this;
    return {from, to, from_distance, to_distance, 0, 0, rows, 1, ask};
  }
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

/// Copies short lines, contiguous on both sides; `Clear`: and sets the source to zero, twice as
/// many stores, for which memory is asked for in time.
template <class T, bool Clear>
struct CopyShort {
  Rows r;

  template <int N>
  KOKKOS_INLINE_FUNCTION void run() const {
    std::byte *from = r.from, *to = r.to;
    [[maybe_unused]] const index_t from_ahead = ahead_of(r.from_distance, r.rows),
                                   to_ahead   = ahead_of_stores(r.to_distance, r.rows);
    for (index_t i = 0; i < r.rows; ++i, from += r.from_distance, to += r.to_distance) {
      T* source = reinterpret_cast<T*>(from);
      T* target = reinterpret_cast<T*>(to);
      if constexpr (Clear) {
        if (from_ahead != 0) prefetch_to_write(from + from_ahead);
        prefetch_to_write(to + to_ahead);
      }
      T line[N];  // whole, for the two might overlap as far as a compiler knows
      for (int n = 0; n < N; ++n) line[n] = source[n];
      for (int n = 0; n < N; ++n) target[n] = line[n];
      if constexpr (Clear)
        for (int n = 0; n < N; ++n) source[n] = T{};
    }
  }
};

/// Values that are handled at once, and the number of those, counted in values, whose memory is
/// asked for before they are reached: single values of a strided line are a line of memory each,
/// and a core that waits for the first of them sees only as many of the next as it has room for
/// instructions.
inline constexpr index_t at_once = 8, values_ahead = 48;

/// Whether a job's lines make so many values that they lie in no near cache, where asking costs
/// more than it brings.
KOKKOS_INLINE_FUNCTION bool is_worth_asking(const index_t* extent, int dims) {
  constexpr index_t many = 8192;
  return extent[0] * (dims > 1 ? extent[1] : 1) >= many;
}

/// Asks for the memory of at_once values of a strided line that come later; none for values that
/// lie near each other. They needn't be there: asking for what isn't mapped does nothing.
template <class T, bool Write>
KOKKOS_INLINE_FUNCTION void ask_for_values(const T* line, index_t stride) {
  constexpr auto near = static_cast<index_t>(64 / sizeof(T));
  if (stride > -near && stride < near) return;
  for (index_t k = 0; k < at_once; ++k) {
    const T* value = line + (values_ahead + k) * stride;
    Write ? prefetch_to_write(value) : prefetch_to_read(value);
  }
}

/// The stride of a buffer's values: known to the compiler, which needs no registers for it then.
struct Contiguous {
  KOKKOS_FUNCTION constexpr operator index_t() const { return 1; }
};

/// Copies a line of single values; `Clear`: and sets each to zero. Strides are index_t or
/// Contiguous.
template <class T, bool Clear, class FromStride, class ToStride>
KOKKOS_INLINE_FUNCTION void copy_line(T* source, FromStride from_stride, T* target,
                                      ToStride to_stride, index_t count, bool ask) {
  [[maybe_unused]] const index_t to_ahead = ahead_of_stores(to_stride * index_t{sizeof(T)}, count);
  index_t n                               = 0;
  for (; n + at_once <= count; n += at_once) {
    if (ask) {
      ask_for_values<T, Clear>(source, from_stride);
      ask_for_values<T, true>(target, to_stride);
    }
    if constexpr (Clear) prefetch_to_write(reinterpret_cast<std::byte*>(target) + to_ahead);
    T values[at_once];  // whole, for the two might overlap as far as a compiler knows
    for (index_t k = 0; k < at_once; ++k) values[k] = source[k * from_stride];
    for (index_t k = 0; k < at_once; ++k) target[k * to_stride] = values[k];
    if constexpr (Clear)
      for (index_t k = 0; k < at_once; ++k) source[k * from_stride] = T{};
    source += at_once * from_stride;
    target += at_once * to_stride;
  }
  for (; n < count; ++n, source += from_stride, target += to_stride) {
    *target = *source;
    if constexpr (Clear) *source = T{};
  }
}

template <class T, bool Clear, class FromStride, class ToStride>
KOKKOS_INLINE_FUNCTION void copy_lines(const Rows& r, FromStride from_stride, ToStride to_stride) {
  for (index_t i = 0; i < r.rows; ++i)
    copy_line<T, Clear>(reinterpret_cast<T*>(r.from + i * r.from_distance), from_stride,
                        reinterpret_cast<T*>(r.to + i * r.to_distance), to_stride, r.count, r.ask);
}

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
  if (r.to_stride == size)
    copy_lines<T, Clear>(r, r.from_stride / size, Contiguous{});
  else if (r.from_stride == size)
    copy_lines<T, Clear>(r, Contiguous{}, r.to_stride / size);
  else
    copy_lines<T, Clear>(r, r.from_stride / size, r.to_stride / size);
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

/// Bytes of a row that is long enough to be packed straight into a buffer for a peer.
inline constexpr index_t long_packed_row = 128;

/// The same where it is set to zero too, and goes there by the processor's instruction for copies.
/// On a Zen 4, rows of 1 kB and 1 MB in all took 0.4 to 0.55 of the time of vector stores into a
/// buffer that lay in no near cache, and as long into one that did; rows of 512 B up to three times
/// as long.
inline constexpr index_t long_cleared_row = 1024;

/// Whether values that are packed into a buffer for a peer are gathered one by one or in short
/// lines, `size` bytes each. They go by way of a piece of this core's cache then: far stores taken
/// in turns with loads wait for each other, and whole lines of memory are fewer.
KOKKOS_INLINE_FUNCTION bool is_best_staged(const Rows& r, index_t size) {
  return r.to_stride == size && (r.rows == 1 || r.to_distance == r.count * size) &&
         (r.count * size < long_packed_row || r.from_stride != size);
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

/// Calls use.each(rows) for pieces of what is packed into a buffer for a peer, by way of a buffer
/// of this core.
template <class Use>
KOKKOS_INLINE_FUNCTION void pack_rows(const Rows& r, index_t size, const Use& use) {
  constexpr index_t piece = 16384;
  alignas(64) std::byte buffer[piece];
  for_pieces(r, size, piece, [&](Rows part, std::size_t bytes) {
    std::byte* const to = part.to;
    part.to             = buffer;
    use.each(part);
    copy_away(to, buffer, bytes);
  });
}

}  // namespace shard::impl

#endif
