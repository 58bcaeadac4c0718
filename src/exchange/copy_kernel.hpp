// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_COPY_KERNEL_HPP
#define SHARD_SRC_EXCHANGE_COPY_KERNEL_HPP

#include <Kokkos_Core.hpp>

#include "lines.hpp"
#include "listed_boxes.hpp"
#include "shard/exchange/impl/jobs.hpp"

namespace shard::impl {

template <class T, bool Clear>
KOKKOS_INLINE_FUNCTION void copy_lines_as(const Lines& lines) {
  Clear ? move_lines<T>(lines) : copy_lines<T>(lines);
}

/// The host's copy of a job's lines.
template <bool Clear>
KOKKOS_INLINE_FUNCTION void copy_job_lines(const CopyJob& job, const Lines& lines) {
  switch (job.value_size) {
    case 1: copy_lines_as<std::uint8_t, Clear>(lines); break;
    case 2: copy_lines_as<std::uint16_t, Clear>(lines); break;
    case 4: copy_lines_as<std::uint32_t, Clear>(lines); break;
    case 8: copy_lines_as<std::uint64_t, Clear>(lines); break;
    case 16: copy_lines_as<Bytes16, Clear>(lines); break;
    default: copy_lines_of_bytes(lines, job.value_size, Clear);
  }
}

template <class T, bool Clear>
KOKKOS_INLINE_FUNCTION void copy_value_of(std::byte* from, std::byte* to) {
  *reinterpret_cast<T*>(to) = *reinterpret_cast<const T*>(from);
  if constexpr (Clear) *reinterpret_cast<T*>(from) = T{};
}

/// The device's copy: one value for each thread. The host's loops would need more registers, and
/// minutes to compile.
template <bool Clear>
KOKKOS_INLINE_FUNCTION void copy_value(const CopyJob& job, std::byte* from, std::byte* to) {
  switch (job.value_size) {
    case 1: copy_value_of<std::uint8_t, Clear>(from, to); break;
    case 2: copy_value_of<std::uint16_t, Clear>(from, to); break;
    case 4: copy_value_of<std::uint32_t, Clear>(from, to); break;
    case 8: copy_value_of<std::uint64_t, Clear>(from, to); break;
    case 16: copy_value_of<Bytes16, Clear>(from, to); break;
    default: copy_lines_of_bytes({from, to, 0, 0, 0, 0, 1, 1}, job.value_size, Clear);
  }
}

/// A copy job with its addresses: it reads a buffer, or the peer's own field.
struct CopyPlace {
  const CopyJob& job;
  const index_t *extent, *from_stride, *to_stride;
  std::byte *from, *to;

  /// Bytes from the first value to that at `index`, with these strides.
  KOKKOS_INLINE_FUNCTION index_t offset(const index_t* index, const index_t* stride) const {
    if (!job.listed) return offset_of(job.dims, index, stride);
    const int last = job.dims - 1;
    return offset_of(last, index, stride) + extent[stride[last] + index[last]];
  }

  template <class Entries>
  KOKKOS_INLINE_FUNCTION CopyPlace(const CopyJob& j, const JobTable<CopyJob, Entries>& table)
      : job(j), extent(table.numbers + j.first_number) {
    std::byte* const peer = job.direct < 0 ? nullptr : table.addresses[job.direct].bytes;
    const bool direct     = peer != nullptr;
    from = direct ? peer + job.direct_offset : table.addresses[job.from].bytes + job.from_offset;
    from_stride = extent + (direct ? 3 : 1) * job.dims;
    to_stride   = extent + 2 * job.dims;
    to          = table.addresses[job.to].bytes + job.to_offset;
  }

  /// Some lines, on a host.
  KOKKOS_INLINE_FUNCTION void operator()(const index_t* index, index_t rows) const {
    if (job.listed && job.dims == 2) {  // a line at each place
      for (index_t i = 0; i < rows; ++i)
        copy({from + extent[from_stride[1] + index[1] + i],
              to + extent[to_stride[1] + index[1] + i], from_stride[0], to_stride[0], 0, 0,
              extent[0], 1});
      return;
    }
    const bool many = job.dims > 1;
    copy({from + offset(index, from_stride), to + offset(index, to_stride), from_stride[0],
          to_stride[0], many ? from_stride[1] : 0, many ? to_stride[1] : 0, extent[0], rows});
  }
  /// Copies the chunk if it is whole listed boxes of values of 4 or 8 bytes. Returns whether it
  /// did.
  KOKKOS_INLINE_FUNCTION bool copies_boxes(const Chunk& chunk) const {
    constexpr int most = 4;  // dimensions, with that of the places
    if (!job.listed || job.dims > most || job.negate != ValueKind::opaque || job.streams)
      return false;
    if (job.value_size == 8) return copies_boxes_of<std::uint64_t>(chunk);
    if (job.value_size == 4) return copies_boxes_of<std::uint32_t>(chunk);
    return false;
  }
  template <class T>
  KOKKOS_INLINE_FUNCTION bool copies_boxes_of(const Chunk& chunk) const {
    using Boxes       = ListedBoxes<T>;
    const int last    = job.dims - 1;
    const auto dim_of = [&](int d) {
      if (d >= last) return typename Boxes::Dim{};
      return typename Boxes::Dim{extent[d], from_stride[d], to_stride[d]};
    };
    const auto middle = dim_of(1), outer = dim_of(2);
    const index_t lines = middle.extent * outer.extent, first = chunk.first_line / lines;
    if (first * lines != chunk.first_line || chunk.lines % lines != 0) return false;
    return Boxes{from,
                 to,
                 extent + from_stride[last] + first,
                 extent + to_stride[last] + first,
                 chunk.lines / lines,
                 dim_of(0),
                 middle,
                 outer,
                 job.clear}
        .copied();
  }
  KOKKOS_INLINE_FUNCTION void copy(const Lines& lines) const {
    if (job.streams) {
      KOKKOS_IF_ON_HOST((stream_lines(lines, lines.count * job.value_size);))
    } else if (job.negate != ValueKind::opaque)
      visit_addition(job.negate, NegateLines{lines});
    else if (job.clear)
      copy_job_lines<true>(job, lines);
    else
      copy_job_lines<false>(job, lines);
  }
  /// One value, on a device.
  KOKKOS_INLINE_FUNCTION void one(const index_t* index) const {
    std::byte* const source = from + offset(index, from_stride);
    std::byte* const target = to + offset(index, to_stride);
    if (job.negate != ValueKind::opaque)
      visit_addition(job.negate, NegateLines{{source, target, 0, 0, 0, 0, 1, 1}});
    else if (job.clear)
      copy_value<true>(job, source, target);
    else
      copy_value<false>(job, source, target);
  }
};

/// Runs copy jobs. A work item is a chunk of lines on a host, a value on a device.
template <bool ByLines>
struct CopyKernel {
  KernelTable<CopyJob, ByLines> table;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const CopyJob& job = table.jobs[ByLines ? table.chunks[item].job : job_of(table, item)];
    if (job.unless >= 0 && table.addresses[job.unless].bytes != nullptr) return;
    const CopyPlace place(job, table);
    if constexpr (ByLines) {
      if (!place.copies_boxes(table.chunks[item]))
        for_lines(job.dims, place.extent, table.chunks[item], place);
    } else {
      index_t index[max_rank] = {};
      index_of_cell(job.dims, place.extent, item - job.first_cell, index);
      place.one(index);
    }
  }
};

/// Rewrites the values that copy jobs read, unchanged, as a model rewrites its fields between two
/// exchanges. (memcpy onto the same memory may do nothing.)
struct TouchKernel {
  JobTable<CopyJob> table;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const CopyJob& job = table.jobs[job_of(table, item)];
    const CopyPlace place(job, table);
    index_t index[max_rank] = {};
    index_of_cell(job.dims, place.extent, item - job.first_cell, index);
    volatile std::byte& value = place.from[place.offset(index, place.from_stride)];
    const std::byte as_it_is  = value;
    value                     = as_it_is;
  }
};

/// A checksum of the values that copy jobs read: of each byte and its position.
struct ChecksumKernel {
  JobTable<CopyJob> table;

  KOKKOS_FUNCTION void operator()(index_t item, std::uint64_t& sum) const {
    const CopyJob& job = table.jobs[job_of(table, item)];
    const CopyPlace place(job, table);
    index_t index[max_rank] = {};
    index_of_cell(job.dims, place.extent, item - job.first_cell, index);
    const std::byte* value = place.from + place.offset(index, place.from_stride);
    std::uint64_t hash     = static_cast<std::uint64_t>(item) + 0x9e3779b97f4a7c15ULL;
    for (int b = 0; b < job.value_size; ++b)
      hash = (hash ^ static_cast<std::uint64_t>(value[b])) * 0x100000001b3ULL;
    sum += hash ^ (hash >> 29U);
  }
};

}  // namespace shard::impl

#endif
