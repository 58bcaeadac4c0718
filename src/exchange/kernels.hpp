// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_KERNELS_HPP
#define SHARD_SRC_EXCHANGE_KERNELS_HPP

#include <Kokkos_Core.hpp>

#include <cstring>
#include <string>

#include "shard/exchange/jobs.hpp"

namespace shard::impl {

template <class Space>
inline constexpr bool runs_on_host_v =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename Space::memory_space>::accessible;

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

/// Short lines of a known length, contiguous on both sides: what a cut of the fastest dimension
/// makes.
template <class T, int N>
KOKKOS_INLINE_FUNCTION void copy_short_rows(const Rows& r) {
  const std::byte* from = r.from;
  std::byte* to         = r.to;
  for (index_t i = 0; i < r.rows; ++i, from += r.from_distance, to += r.to_distance) {
    const T* source = reinterpret_cast<const T*>(from);
    T* target       = reinterpret_cast<T*>(to);
    for (int n = 0; n < N; ++n) target[n] = source[n];
  }
}

template <class T>
KOKKOS_INLINE_FUNCTION void copy_rows_of(const Rows& r) {
  constexpr auto size = static_cast<index_t>(sizeof(T));
  if (r.from_stride == size && r.to_stride == size) {
    switch (r.count) {
      case 1: return copy_short_rows<T, 1>(r);
      case 2: return copy_short_rows<T, 2>(r);
      case 3: return copy_short_rows<T, 3>(r);
      case 4: return copy_short_rows<T, 4>(r);
      case 5: return copy_short_rows<T, 5>(r);
      case 6: return copy_short_rows<T, 6>(r);
      default: break;
    }
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

template <class T, int N>
KOKKOS_INLINE_FUNCTION void clear_short_rows(const Rows& r) {
  std::byte* from = r.from;
  for (index_t i = 0; i < r.rows; ++i, from += r.from_distance)
    for (int n = 0; n < N; ++n) reinterpret_cast<T*>(from)[n] = T{};
}

template <class T>
KOKKOS_INLINE_FUNCTION void clear_rows_of(const Rows& r) {
  constexpr auto size  = static_cast<index_t>(sizeof(T));
  const index_t stride = r.from_stride / size;
  if (stride == 1) switch (r.count) {
      case 1: return clear_short_rows<T, 1>(r);
      case 2: return clear_short_rows<T, 2>(r);
      case 3: return clear_short_rows<T, 3>(r);
      case 4: return clear_short_rows<T, 4>(r);
      case 5: return clear_short_rows<T, 5>(r);
      default: break;
    }
  for (index_t i = 0; i < r.rows; ++i) {
    T* source = reinterpret_cast<T*>(r.from + i * r.from_distance);
    if (stride == 1 && r.count >= 8)
      std::memset(source, 0, static_cast<std::size_t>(r.count * size));
    else
      for (index_t n = 0; n < r.count; ++n) source[n * stride] = T{};
  }
}

KOKKOS_INLINE_FUNCTION void copy_rows(const CopyJob& job, const Rows& r) {
  if (job.negate != ValueKind::opaque)
    visit_arithmetic(job.negate, NegateRows{r});
  else
    switch (job.value_size) {
      case 1: copy_rows_of<std::uint8_t>(r); break;
      case 2: copy_rows_of<std::uint16_t>(r); break;
      case 4: copy_rows_of<std::uint32_t>(r); break;
      case 8: copy_rows_of<std::uint64_t>(r); break;
      case 16: copy_rows_of<Bytes16>(r); break;
      default:
        for (index_t i = 0; i < r.rows; ++i)
          for (index_t n = 0; n < r.count; ++n)
            for (int b = 0; b < job.value_size; ++b)
              r.to[i * r.to_distance + n * r.to_stride + b] =
                  r.from[i * r.from_distance + n * r.from_stride + b];
    }
  if (!job.clear) return;
  switch (job.value_size) {
    case 4: clear_rows_of<std::uint32_t>(r); break;
    case 8: clear_rows_of<std::uint64_t>(r); break;
    default:
      for (index_t i = 0; i < r.rows; ++i)
        for (index_t n = 0; n < r.count; ++n)
          for (int b = 0; b < job.value_size; ++b)
            r.from[i * r.from_distance + n * r.from_stride + b] = std::byte{0};
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

struct CopyFetched {
  const CopyJob& job;
  KOKKOS_INLINE_FUNCTION void each(const Rows& rows) const { copy_rows(job, rows); }
};

/// A copy job with what is read chosen: a buffer, or the peer's own field.
struct CopyPart {
  const CopyJob& job;
  const index_t *extent, *from_stride, *to_stride;
  std::byte *from, *to;

  KOKKOS_INLINE_FUNCTION CopyPart(const CopyJob& j, const JobTable<CopyJob>& table)
      : job(j), extent(table.numbers + j.first_number) {
    const Address* address = table.addresses;
    std::byte* peer        = job.direct < 0 ? nullptr : address[job.direct].bytes;
    from = peer != nullptr ? peer + job.direct_offset : address[job.from].bytes + job.from_offset;
    from_stride = extent + (peer != nullptr ? 3 : 1) * job.dims;
    to_stride   = extent + 2 * job.dims;
    to          = address[job.to].bytes + job.to_offset;
  }

  KOKKOS_INLINE_FUNCTION void operator()(const index_t* index, index_t rows) const {
    const bool many = job.dims > 1;
    const Rows r{from + offset_of(job.dims, index, from_stride),
                 to + offset_of(job.dims, index, to_stride),
                 from_stride[0],
                 to_stride[0],
                 many ? from_stride[1] : 0,
                 many ? to_stride[1] : 0,
                 extent[0],
                 rows};
    if (job.remote && is_best_fetched(r, job.value_size))
      fetch_rows(r, CopyFetched{job});
    else
      copy_rows(job, r);
  }
  KOKKOS_INLINE_FUNCTION void one(const index_t* index) const {
    copy_rows(job, {from + offset_of(job.dims, index, from_stride),
                    to + offset_of(job.dims, index, to_stride), job.value_size, job.value_size, 0,
                    0, 1, 1});
  }
};

/// Runs copy jobs. A work item is a chunk of lines on a host, a value on a device.
template <bool ByChunks>
struct CopyKernel {
  JobTable<CopyJob> table;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const CopyJob& job = table.jobs[ByChunks ? table.chunks[item].job : job_of(table, item)];
    if (job.unless >= 0 && table.addresses[job.unless].bytes != nullptr) return;
    const CopyPart copy(job, table);
    if constexpr (ByChunks) {
      for_rows(job.dims, copy.extent, table.chunks[item], copy);
    } else {
      index_t index[max_rank] = {};
      index_of_cell(job.dims, copy.extent, item - job.first_cell, index);
      copy.one(index);
    }
  }
};

/// A checksum of what copy jobs read: of every byte and its place.
struct ChecksumKernel {
  JobTable<CopyJob> table;

  KOKKOS_FUNCTION void operator()(index_t item, std::uint64_t& sum) const {
    const CopyJob& job = table.jobs[job_of(table, item)];
    const CopyPart copy(job, table);
    index_t index[max_rank] = {};
    index_of_cell(job.dims, copy.extent, item - job.first_cell, index);
    const std::byte* value = copy.from + offset_of(job.dims, index, copy.from_stride);
    std::uint64_t hash     = static_cast<std::uint64_t>(item) + 0x9e3779b97f4a7c15ULL;
    for (int b = 0; b < job.value_size; ++b)
      hash = (hash ^ static_cast<std::uint64_t>(value[b])) * 0x100000001b3ULL;
    sum += hash ^ (hash >> 29U);
  }
};

/// Fetches the line of memory at `address` to be written here.
KOKKOS_INLINE_FUNCTION void prefetch_to_write([[maybe_unused]] const void* address) {
#if defined(__x86_64__) && !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#endif
}

/// Adds lines of one source; `take`: and sets the source to zero.
struct AddRows {
  Rows r;
  bool negative, take;

  template <class T>
  KOKKOS_INLINE_FUNCTION void operator()() const {
    constexpr auto size = static_cast<index_t>(sizeof(T));
    if (r.from_stride == size && r.to_stride == size)
      negative ? run<T, true, true>() : run<T, true, false>();
    else
      negative ? run<T, false, true>() : run<T, false, false>();
  }

  template <class T, bool Contiguous, bool Negative>
  KOKKOS_INLINE_FUNCTION void run() const {
    if (take) return move<T, Contiguous, Negative>();
    if constexpr (Contiguous) switch (r.count) {
        case 1: return add_short<T, 1, Negative>();
        case 2: return add_short<T, 2, Negative>();
        case 3: return add_short<T, 3, Negative>();
        case 4: return add_short<T, 4, Negative>();
        case 5: return add_short<T, 5, Negative>();
        case 6: return add_short<T, 6, Negative>();
        default: break;
      }
    add<T, Contiguous, Negative>();
  }

  template <class T, int N, bool Negative>
  KOKKOS_INLINE_FUNCTION void add_short() const {
    const std::byte* from = r.from;
    std::byte* to         = r.to;
    for (index_t i = 0; i < r.rows; ++i, from += r.from_distance, to += r.to_distance) {
      const T* source = reinterpret_cast<const T*>(from);
      T* target       = reinterpret_cast<T*>(to);
      T sum[N];
      for (int n = 0; n < N; ++n)
        sum[n] = static_cast<T>(Negative ? target[n] - source[n] : target[n] + source[n]);
      for (int n = 0; n < N; ++n) target[n] = sum[n];
    }
  }

  template <class T, bool Contiguous, bool Negative>
  KOKKOS_INLINE_FUNCTION void add() const {
    constexpr auto size = static_cast<index_t>(sizeof(T));
    const index_t fs    = Contiguous ? 1 : r.from_stride / size;
    const index_t ts    = Contiguous ? 1 : r.to_stride / size;
    for (index_t i = 0; i < r.rows; ++i) {
      const T* from = reinterpret_cast<const T*>(r.from + i * r.from_distance);
      T* to         = reinterpret_cast<T*>(r.to + i * r.to_distance);
      for (index_t n = 0; n < r.count; ++n)
        to[n * ts] =
            static_cast<T>(Negative ? to[n * ts] - from[n * fs] : to[n * ts] + from[n * fs]);
    }
  }

  /// The source is a neighbour's halo. Its lines of memory are asked for to be written before they
  /// are read, so that each crosses between the cores once.
  template <class T, bool Contiguous, bool Negative>
  KOKKOS_INLINE_FUNCTION void move() const {
    constexpr auto size     = static_cast<index_t>(sizeof(T));
    constexpr index_t block = 64 / size > 0 ? 64 / size : 1, ahead = 16 * block;
    const index_t fs = Contiguous ? 1 : r.from_stride / size;
    const index_t ts = Contiguous ? 1 : r.to_stride / size;
    for (index_t i = 0; i < r.rows; ++i) {
      T* from = reinterpret_cast<T*>(r.from + i * r.from_distance);
      T* to   = reinterpret_cast<T*>(r.to + i * r.to_distance);
      for (index_t n = 0; n < (r.count < ahead ? r.count : ahead); n += block)
        prefetch_to_write(from + n * fs);
      index_t n = 0;
      for (; n + block <= r.count; n += block) {
        if (n + ahead < r.count) prefetch_to_write(from + (n + ahead) * fs);
        for (index_t k = n; k < n + block; ++k)
          to[k * ts] =
              static_cast<T>(Negative ? to[k * ts] - from[k * fs] : to[k * ts] + from[k * fs]);
        for (index_t k = n; k < n + block; ++k) from[k * fs] = T(0);
      }
      for (; n < r.count; ++n) {
        to[n * ts] =
            static_cast<T>(Negative ? to[n * ts] - from[n * fs] : to[n * ts] + from[n * fs]);
        from[n * fs] = T(0);
      }
    }
  }
};

struct AddFetched {
  ValueKind kind;
  bool negative;
  KOKKOS_INLINE_FUNCTION void each(const Rows& rows) const {
    visit_arithmetic(kind, AddRows{rows, negative, false});
  }
};

/// A part of a sum job, one source after the other.
struct SumPart {
  const SumJob& job;
  const JobTable<SumJob>& table;
  const index_t *extent, *to_stride;

  KOKKOS_INLINE_FUNCTION SumPart(const SumJob& j, const JobTable<SumJob>& t)
      : job(j), table(t), extent(t.numbers + j.first_number), to_stride(extent + j.dims) {}

  KOKKOS_INLINE_FUNCTION void add(const index_t* index, index_t count, index_t rows) const {
    std::byte* to =
        table.addresses[job.to].bytes + job.to_offset + offset_of(job.dims, index, to_stride);
    const bool many = job.dims > 1;
    for (int s = job.first_source; s < job.first_source + job.source_count; ++s) {
      const SumSource& source = table.sources[s];
      std::byte* peer         = source.direct < 0 ? nullptr : table.addresses[source.direct].bytes;
      const index_t* stride =
          table.numbers + source.first_number + (peer != nullptr ? job.dims : 0);
      std::byte* from = (peer != nullptr ? peer + source.direct_offset
                                         : table.addresses[source.from].bytes + source.offset) +
                        offset_of(job.dims, index, stride);
      const Rows r{
          from,  to,  stride[0], to_stride[0], many ? stride[1] : 0, many ? to_stride[1] : 0,
          count, rows};
      if (peer == nullptr && source.remote && is_best_fetched(r, job.value_size))
        fetch_rows(r, AddFetched{job.kind, source.negative});
      else
        visit_arithmetic(job.kind, AddRows{r, source.negative, peer != nullptr && source.take});
    }
  }
  KOKKOS_INLINE_FUNCTION void operator()(const index_t* index, index_t rows) const {
    add(index, extent[0], rows);
  }
};

/// Runs sum jobs. Each owned cell belongs to one job, so one thread writes it, in the plan's order.
template <bool ByChunks>
struct SumKernel {
  JobTable<SumJob> table;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const SumJob& job = table.jobs[ByChunks ? table.chunks[item].job : job_of(table, item)];
    const SumPart sum(job, table);
    if constexpr (ByChunks) {
      for_rows(job.dims, sum.extent, table.chunks[item], sum);
    } else {
      index_t index[max_rank] = {};
      index_of_cell(job.dims, sum.extent, item - job.first_cell, index);
      sum.add(index, 1, 1);
    }
  }
};

template <class Space>
Kokkos::RangePolicy<Space, Kokkos::IndexType<index_t>> items_of(const Space& space, index_t chunks,
                                                                index_t cells) {
  // a zero of another type would be checked for its value, with strings, at each launch
  return {space, index_t{0}, runs_on_host_v<Space> ? chunks : cells};
}

template <class Space, class Memory>
void run_copies(const char* label, const Space& space, const CopyJobs<Memory>& copies,
                const Address* addresses) {
  if (copies.cells == 0) return;
  Kokkos::parallel_for(label, items_of(space, copies.chunk_count, copies.cells),
                       CopyKernel<runs_on_host_v<Space>>{copies.table(addresses)});
}

template <class Space, class Memory>
std::uint64_t run_checksum(const Space& space, const CopyJobs<Memory>& copies,
                           const Address* addresses) {
  std::uint64_t sum = 0;
  Kokkos::parallel_reduce("shard::checksum", items_of(space, copies.cells, copies.cells),
                          ChecksumKernel{copies.table(addresses)}, sum);
  return sum;
}

template <class Space, class Memory>
void run_sums(const char* label, const Space& space, const SumJobs<Memory>& sums,
              const Address* addresses) {
  if (sums.cells == 0) return;
  Kokkos::parallel_for(label, items_of(space, sums.chunk_count, sums.cells),
                       SumKernel<runs_on_host_v<Space>>{sums.table(addresses)});
}

}  // namespace shard::impl

#endif
