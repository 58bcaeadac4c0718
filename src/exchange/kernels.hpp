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
  constexpr auto size  = static_cast<index_t>(sizeof(T));
  const index_t stride = r.from_stride / size;
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

/// A copy job with what is read chosen: a buffer, or the peer's own field.
struct CopyPart {
  const CopyJob& job;
  const index_t *extent, *from_stride, *to_stride;
  std::byte *from, *to;

  template <class Numbers, class Addresses>
  KOKKOS_INLINE_FUNCTION CopyPart(const CopyJob& j, const Numbers& numbers,
                                  const Addresses& addresses)
      : job(j), extent(numbers.data() + j.first_number) {
    std::byte* peer = job.direct < 0 ? nullptr : addresses(job.direct).bytes;
    from = peer != nullptr ? peer + job.direct_offset : addresses(job.from).bytes + job.from_offset;
    from_stride = extent + (peer != nullptr ? 3 : 1) * job.dims;
    to_stride   = extent + 2 * job.dims;
    to          = addresses(job.to).bytes + job.to_offset;
  }

  KOKKOS_INLINE_FUNCTION void operator()(const index_t* index, index_t rows) const {
    const bool many = job.dims > 1;
    copy_rows(job, {from + offset_of(job.dims, index, from_stride),
                    to + offset_of(job.dims, index, to_stride), from_stride[0], to_stride[0],
                    many ? from_stride[1] : 0, many ? to_stride[1] : 0, extent[0], rows});
  }
  KOKKOS_INLINE_FUNCTION void one(const index_t* index) const {
    copy_rows(job, {from + offset_of(job.dims, index, from_stride),
                    to + offset_of(job.dims, index, to_stride), job.value_size, job.value_size, 0,
                    0, 1, 1});
  }
};

/// Runs copy jobs. A work item is a chunk of lines on a host, a value on a device.
template <class Memory, bool ByChunks>
struct CopyKernel {
  CopyJobs<Memory> list;
  Kokkos::View<const Address*, Memory> addresses;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const CopyJob& job = list.jobs(ByChunks ? list.chunks(item).job : job_of(list.jobs, item));
    if (job.unless >= 0 && addresses(job.unless).bytes != nullptr) return;
    const CopyPart copy(job, list.numbers, addresses);
    if constexpr (ByChunks) {
      for_rows(job.dims, copy.extent, list.chunks(item), copy);
    } else {
      index_t index[max_rank] = {};
      index_of_cell(job.dims, copy.extent, item - job.first_cell, index);
      copy.one(index);
    }
  }
};

/// A checksum of what copy jobs read: of every byte and its place.
template <class Memory>
struct ChecksumKernel {
  CopyJobs<Memory> list;
  Kokkos::View<const Address*, Memory> addresses;

  KOKKOS_FUNCTION void operator()(index_t item, std::uint64_t& sum) const {
    const CopyJob& job = list.jobs(job_of(list.jobs, item));
    const CopyPart copy(job, list.numbers, addresses);
    index_t index[max_rank] = {};
    index_of_cell(job.dims, copy.extent, item - job.first_cell, index);
    const std::byte* value = copy.from + offset_of(job.dims, index, copy.from_stride);
    std::uint64_t hash     = static_cast<std::uint64_t>(item) + 0x9e3779b97f4a7c15ULL;
    for (int b = 0; b < job.value_size; ++b)
      hash = (hash ^ static_cast<std::uint64_t>(value[b])) * 0x100000001b3ULL;
    sum += hash ^ (hash >> 29U);
  }
};

/// Adds lines of one source.
struct AddRows {
  Rows r;
  bool negative;

  template <class T>
  KOKKOS_INLINE_FUNCTION void operator()() const {
    constexpr auto size = static_cast<index_t>(sizeof(T));
    if (r.from_stride == size && r.to_stride == size)
      negative ? add<T, true, true>() : add<T, true, false>();
    else
      negative ? add<T, false, true>() : add<T, false, false>();
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
};

/// A part of a sum job, one source after the other.
template <class Memory>
struct SumPart {
  const SumJob& job;
  const SumJobs<Memory>& list;
  const Kokkos::View<const Address*, Memory>& addresses;
  const index_t *extent, *to_stride;

  KOKKOS_INLINE_FUNCTION SumPart(const SumJob& j, const SumJobs<Memory>& l,
                                 const Kokkos::View<const Address*, Memory>& a)
      : job(j),
        list(l),
        addresses(a),
        extent(l.numbers.data() + j.first_number),
        to_stride(extent + j.dims) {}

  KOKKOS_INLINE_FUNCTION void add(const index_t* index, index_t count, index_t rows) const {
    std::byte* to = addresses(job.to).bytes + job.to_offset + offset_of(job.dims, index, to_stride);
    const bool many = job.dims > 1;
    for (int s = job.first_source; s < job.first_source + job.source_count; ++s) {
      const SumSource& source = list.sources(s);
      std::byte* peer         = source.direct < 0 ? nullptr : addresses(source.direct).bytes;
      const index_t* stride =
          list.numbers.data() + source.first_number + (peer != nullptr ? job.dims : 0);
      std::byte* from = (peer != nullptr ? peer + source.direct_offset
                                         : addresses(source.from).bytes + source.offset) +
                        offset_of(job.dims, index, stride);
      visit_arithmetic(job.kind, AddRows{{from, to, stride[0], to_stride[0], many ? stride[1] : 0,
                                          many ? to_stride[1] : 0, count, rows},
                                         source.negative});
    }
  }
  KOKKOS_INLINE_FUNCTION void operator()(const index_t* index, index_t rows) const {
    add(index, extent[0], rows);
  }
};

/// Runs sum jobs. Each owned cell belongs to one job, so one thread writes it, in the plan's order.
template <class Memory, bool ByChunks>
struct SumKernel {
  SumJobs<Memory> list;
  Kokkos::View<const Address*, Memory> addresses;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const SumJob& job = list.jobs(ByChunks ? list.chunks(item).job : job_of(list.jobs, item));
    const SumPart<Memory> sum(job, list, addresses);
    if constexpr (ByChunks) {
      for_rows(job.dims, sum.extent, list.chunks(item), sum);
    } else {
      index_t index[max_rank] = {};
      index_of_cell(job.dims, sum.extent, item - job.first_cell, index);
      sum.add(index, 1, 1);
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
                       CopyKernel<Memory, by_chunks>{copies, addresses});
}

template <class Space, class Memory>
std::uint64_t run_checksum(const Space& space, const CopyJobs<Memory>& copies,
                           const Kokkos::View<const Address*, Memory>& addresses) {
  std::uint64_t sum = 0;
  Kokkos::parallel_reduce(
      "shard::checksum",
      Kokkos::RangePolicy<Space, Kokkos::IndexType<index_t>>(space, 0, copies.cells),
      ChecksumKernel<Memory>{copies, addresses}, sum);
  return sum;
}

template <class Space, class Memory>
void run_sums(const std::string& label, const Space& space, const SumJobs<Memory>& sums,
              const Kokkos::View<const Address*, Memory>& addresses) {
  constexpr bool by_chunks = runs_on_host_v<Space>;
  const index_t items      = by_chunks ? static_cast<index_t>(sums.chunks.extent(0)) : sums.cells;
  if (items == 0) return;
  Kokkos::parallel_for(label,
                       Kokkos::RangePolicy<Space, Kokkos::IndexType<index_t>>(space, 0, items),
                       SumKernel<Memory, by_chunks>{sums, addresses});
}

}  // namespace shard::impl

#endif
