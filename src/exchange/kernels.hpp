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
template <class Jobs>
KOKKOS_INLINE_FUNCTION int job_of(const Jobs& jobs, index_t item) {
  int low = 0, high = static_cast<int>(jobs.extent(0)) - 1;
  while (low < high) {
    const int middle = low + (high - low + 1) / 2;
    if (jobs(middle).first_cell <= item)
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

template <class T>
KOKKOS_INLINE_FUNCTION void clear_rows_of(const Rows& r) {
  const index_t stride = r.from_stride / static_cast<index_t>(sizeof(T));
  for (index_t i = 0; i < r.rows; ++i) {
    T* source = reinterpret_cast<T*>(r.from + i * r.from_distance);
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
template <class Job, class Use>
KOKKOS_INLINE_FUNCTION void for_rows(const Job& job, const Chunk& chunk, const Use& use) {
  const index_t rows = job.dims > 1 ? job.extent[1] : 1, end = chunk.first_line + chunk.lines;
  for (index_t line = chunk.first_line; line < end;) {
    index_t index[max_rank] = {};
    index_t rest            = line;
    for (int d = 1; d < job.dims; ++d) {
      index[d] = rest % job.extent[d];
      rest /= job.extent[d];
    }
    const index_t n = end - line < rows - index[1] ? end - line : rows - index[1];
    use(index, n);
    line += n;
  }
}

KOKKOS_INLINE_FUNCTION index_t offset_of(int dims, const index_t* index, const index_t* stride) {
  index_t offset = 0;
  for (int d = 0; d < dims; ++d) offset += index[d] * stride[d];
  return offset;
}

/// A copy job with what is read chosen: a buffer, or the peer's own field.
struct CopySource {
  const CopyJob& job;
  std::byte *from, *to;
  const index_t* from_stride;

  template <class Addresses>
  KOKKOS_INLINE_FUNCTION CopySource(const CopyJob& j, const Addresses& addresses) : job(j) {
    std::byte* peer = job.direct < 0 ? nullptr : addresses(job.direct).bytes;
    from = peer != nullptr ? peer + job.direct_offset : addresses(job.from).bytes + job.from_offset;
    from_stride = peer != nullptr ? job.direct_stride : job.from_stride;
    to          = addresses(job.to).bytes + job.to_offset;
  }

  KOKKOS_INLINE_FUNCTION void operator()(const index_t* index, index_t rows) const {
    copy_rows(job, {from + offset_of(job.dims, index, from_stride),
                    to + offset_of(job.dims, index, job.to_stride), from_stride[0],
                    job.to_stride[0], from_stride[1], job.to_stride[1], job.extent[0], rows});
  }
  KOKKOS_INLINE_FUNCTION void one(const index_t* index) const {
    copy_rows(job, {from + offset_of(job.dims, index, from_stride),
                    to + offset_of(job.dims, index, job.to_stride), job.value_size, job.value_size,
                    0, 0, 1, 1});
  }
};

/// Runs copy jobs. A work item is a chunk of lines on a host, a value on a device.
template <class Memory, bool ByChunks>
struct CopyKernel {
  Kokkos::View<const CopyJob*, Memory> jobs;
  Kokkos::View<const Chunk*, Memory> chunks;
  Kokkos::View<const Address*, Memory> addresses;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const CopyJob& job = jobs(ByChunks ? chunks(item).job : job_of(jobs, item));
    if (job.unless >= 0 && addresses(job.unless).bytes != nullptr) return;
    const CopySource copy(job, addresses);
    if constexpr (ByChunks) {
      for_rows(job, chunks(item), copy);
    } else {
      index_t index[max_rank] = {};
      index_t rest            = item - job.first_cell;
      for (int d = 0; d < job.dims; ++d) {
        index[d] = rest % job.extent[d];
        rest /= job.extent[d];
      }
      copy.one(index);
    }
  }
};

/// Adds lines of one source.
struct AddRows {
  Rows r;
  bool negative;

  template <class T>
  KOKKOS_INLINE_FUNCTION void operator()() const {
    constexpr auto size = static_cast<index_t>(sizeof(T));
    if (r.count == 1)  // the line is a column of the rows
      add<T>(1, r.rows, 0, 0, r.from_distance, r.to_distance);
    else if (r.from_stride == size && r.to_stride == size)
      add<T>(r.rows, r.count, r.from_distance, r.to_distance, size, size);
    else
      add<T>(r.rows, r.count, r.from_distance, r.to_distance, r.from_stride, r.to_stride);
  }

  template <class T>
  KOKKOS_INLINE_FUNCTION void add(index_t rows, index_t count, index_t fd, index_t td, index_t fs,
                                  index_t ts) const {
    for (index_t i = 0; i < rows; ++i) {
      const std::byte* from = r.from + i * fd;
      std::byte* to         = r.to + i * td;
      for (index_t n = 0; n < count; ++n) {
        const T value = *reinterpret_cast<const T*>(from + n * fs);
        T& sum        = *reinterpret_cast<T*>(to + n * ts);
        sum           = static_cast<T>(negative ? sum - value : sum + value);
      }
    }
  }
};

/// A sum job's part, one source after the other.
template <class Sources, class Addresses>
struct Summands {
  const SumJob& job;
  const Sources& sources;
  const Addresses& addresses;

  KOKKOS_INLINE_FUNCTION void add(const index_t* index, index_t count, index_t rows) const {
    std::byte* to =
        addresses(job.to).bytes + job.to_offset + offset_of(job.dims, index, job.to_stride);
    for (int s = job.first_source; s < job.first_source + job.source_count; ++s) {
      const SumSource& source = sources(s);
      std::byte* peer         = source.direct < 0 ? nullptr : addresses(source.direct).bytes;
      const index_t* stride   = peer != nullptr ? source.direct_stride : source.stride;
      std::byte* from         = (peer != nullptr ? peer + source.direct_offset
                                                 : addresses(source.from).bytes + source.offset) +
                        offset_of(job.dims, index, stride);
      visit_arithmetic(job.kind, AddRows{{from, to, stride[0], job.to_stride[0], stride[1],
                                          job.to_stride[1], count, rows},
                                         source.negative});
    }
  }
  KOKKOS_INLINE_FUNCTION void operator()(const index_t* index, index_t rows) const {
    add(index, job.extent[0], rows);
  }
};

/// Runs sum jobs. Each owned cell belongs to one job, so one thread writes it, in the plan's order.
template <class Memory, bool ByChunks>
struct SumKernel {
  Kokkos::View<const SumJob*, Memory> jobs;
  Kokkos::View<const SumSource*, Memory> sources;
  Kokkos::View<const Chunk*, Memory> chunks;
  Kokkos::View<const Address*, Memory> addresses;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const SumJob& job = jobs(ByChunks ? chunks(item).job : job_of(jobs, item));
    const Summands<decltype(sources), decltype(addresses)> summands{job, sources, addresses};
    if constexpr (ByChunks) {
      for_rows(job, chunks(item), summands);
    } else {
      index_t index[max_rank] = {};
      index_t rest            = item - job.first_cell;
      for (int d = 0; d < job.dims; ++d) {
        index[d] = rest % job.extent[d];
        rest /= job.extent[d];
      }
      summands.add(index, 1, 1);
    }
  }
};

template <class Space, class Memory>
void run_copies(const std::string& label, const Space& space, const CopyJobs<Memory>& copies,
                const Kokkos::View<const Address*, Memory>& addresses) {
  constexpr bool by_chunks = runs_on_host_v<Space>;
  const index_t items = by_chunks ? static_cast<index_t>(copies.chunks.extent(0)) : copies.cells;
  if (items == 0) return;
  Kokkos::parallel_for(label,
                       Kokkos::RangePolicy<Space, Kokkos::IndexType<index_t>>(space, 0, items),
                       CopyKernel<Memory, by_chunks>{copies.jobs, copies.chunks, addresses});
}

template <class Space, class Memory>
void run_sums(const std::string& label, const Space& space, const SumJobs<Memory>& sums,
              const Kokkos::View<const Address*, Memory>& addresses) {
  constexpr bool by_chunks = runs_on_host_v<Space>;
  const index_t items      = by_chunks ? static_cast<index_t>(sums.chunks.extent(0)) : sums.cells;
  if (items == 0) return;
  Kokkos::parallel_for(
      label, Kokkos::RangePolicy<Space, Kokkos::IndexType<index_t>>(space, 0, items),
      SumKernel<Memory, by_chunks>{sums.jobs, sums.sources, sums.chunks, addresses});
}

}  // namespace shard::impl

#endif
