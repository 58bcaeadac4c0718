// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_COPY_KERNEL_HPP
#define SHARD_SRC_EXCHANGE_COPY_KERNEL_HPP

#include <Kokkos_Core.hpp>

#include <cstring>

#include "rows.hpp"
#include "shard/exchange/jobs.hpp"

namespace shard::impl {

/// Copies values of any size, byte by byte.
KOKKOS_INLINE_FUNCTION void copy_bytes(const Rows& r, int value_size, bool clear) {
  for (index_t i = 0; i < r.rows; ++i)
    for (index_t n = 0; n < r.count; ++n)
      for (int b = 0; b < value_size; ++b) {
        std::byte& source = r.from[i * r.from_distance + n * r.from_stride + b];
        r.to[i * r.to_distance + n * r.to_stride + b] = source;
        if (clear) source = std::byte{0};
      }
}

KOKKOS_INLINE_FUNCTION void copy_rows(const CopyJob& job, const Rows& r) {
  if (job.negate != ValueKind::opaque) {
    visit_addition(job.negate, NegateRows{r});
    return;
  }
  if (job.clear)  // by the transpose: what can be added, single and double precision above all
    switch (job.value_size) {
      case 4: copy_rows_of<std::uint32_t, true>(r); break;
      case 8: copy_rows_of<std::uint64_t, true>(r); break;
      case 16: copy_rows_of<Bytes16, true>(r); break;
      default: copy_bytes(r, job.value_size, true);
    }
  else
    switch (job.value_size) {
      case 1: copy_rows_of<std::uint8_t>(r); break;
      case 2: copy_rows_of<std::uint16_t>(r); break;
      case 4: copy_rows_of<std::uint32_t>(r); break;
      case 8: copy_rows_of<std::uint64_t>(r); break;
      case 16: copy_rows_of<Bytes16>(r); break;
      default: copy_bytes(r, job.value_size, false);
    }
}

/// Packs rows for a peer and sets them to zero, whole lines at a time where they are long: a buffer
/// that no cache holds needn't be fetched first.
KOKKOS_INLINE_FUNCTION void clear_rows_away(const Rows& r, index_t size) {
  const auto bytes = static_cast<std::size_t>(r.count * size);
  for (index_t i = 0; i < r.rows; ++i) {
    std::byte* const from = r.from + i * r.from_distance;
    copy_away(r.to + i * r.to_distance, from, bytes);
    std::memset(from, 0, bytes);
  }
}

struct CopyPiece {
  const CopyJob& job;
  KOKKOS_INLINE_FUNCTION void each(const Rows& rows) const { copy_rows(job, rows); }
};

/// Copies one value; `Clear`: and sets it to zero.
template <class T, bool Clear>
KOKKOS_INLINE_FUNCTION void copy_value_of(std::byte* from, std::byte* to) {
  *reinterpret_cast<T*>(to) = *reinterpret_cast<const T*>(from);
  if constexpr (Clear) *reinterpret_cast<T*>(from) = T{};
}

/// What a device's thread does: one value, without what makes lines fast on a host, which would
/// cost it registers, and minutes to compile.
template <bool Clear>
KOKKOS_INLINE_FUNCTION void copy_value(const CopyJob& job, std::byte* from, std::byte* to) {
  switch (job.value_size) {
    case 1: copy_value_of<std::uint8_t, Clear>(from, to); break;
    case 2: copy_value_of<std::uint16_t, Clear>(from, to); break;
    case 4: copy_value_of<std::uint32_t, Clear>(from, to); break;
    case 8: copy_value_of<std::uint64_t, Clear>(from, to); break;
    case 16: copy_value_of<Bytes16, Clear>(from, to); break;
    default: copy_bytes({from, to, 0, 0, 0, 0, 1, 1}, job.value_size, Clear);
  }
}

/// What a job reads: a buffer, or the peer's own field.
KOKKOS_INLINE_FUNCTION std::byte* source_of(const CopyJob& job, const Address* address,
                                            bool& direct) {
  std::byte* peer = job.direct < 0 ? nullptr : address[job.direct].bytes;
  direct          = peer != nullptr;
  return direct ? peer + job.direct_offset : address[job.from].bytes + job.from_offset;
}

/// A copy job with what is read chosen.
struct CopyPart {
  const CopyJob& job;
  const index_t *extent, *from_stride, *to_stride;
  std::byte *from, *to;

  KOKKOS_INLINE_FUNCTION CopyPart(const CopyJob& j, const JobTable<CopyJob>& table)
      : job(j), extent(table.numbers + j.first_number) {
    bool direct = false;
    from        = source_of(job, table.addresses, direct);
    from_stride = extent + (direct ? 3 : 1) * job.dims;
    to_stride   = extent + 2 * job.dims;
    to          = table.addresses[job.to].bytes + job.to_offset;
  }

  KOKKOS_INLINE_FUNCTION void operator()(const index_t* index, index_t rows) const {
    const bool many = job.dims > 1;
    const Rows r    = Rows{from + offset_of(job.dims, index, from_stride),
                        to + offset_of(job.dims, index, to_stride),
                        from_stride[0],
                        to_stride[0],
                        many ? from_stride[1] : 0,
                        many ? to_stride[1] : 0,
                        extent[0],
                        rows,
                        is_worth_asking(extent, job.dims)}
                       .as_line_if_ones();
    const index_t size = job.value_size;
    if (job.staged && is_best_staged(r, size))
      pack_rows(r, size, CopyPiece{job});
    else if (job.staged && job.clear && r.from_stride == size && r.to_stride == size &&
             r.count * size >= long_cleared_row)
      clear_rows_away(r, size);
    else
      copy_rows(job, r);
  }
  KOKKOS_INLINE_FUNCTION void one(const index_t* index) const {
    std::byte* const source = from + offset_of(job.dims, index, from_stride);
    std::byte* const target = to + offset_of(job.dims, index, to_stride);
    if (job.negate != ValueKind::opaque)
      visit_addition(job.negate, NegateRows{{source, target, 0, 0, 0, 0, 1, 1}});
    else if (job.clear)
      copy_value<true>(job, source, target);
    else
      copy_value<false>(job, source, target);
  }
};

/// Runs copy jobs. A work item is a chunk of lines on a host, a value on a device.
template <bool ByChunks>
struct CopyKernel {
  JobTable<CopyJob> table;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const CopyJob& job = table.jobs[ByChunks ? table.chunks[item].job : job_of(table, item)];
    if (job.unless >= 0 && table.addresses[job.unless].bytes != nullptr) return;
    if constexpr (ByChunks) {
      if (job.plain > 0) return copy_plain(job);
      if (job.rows) return copy_rows_alone(job, table.chunks[item]);
    }
    copy(job, item);
  }

  KOKKOS_INLINE_FUNCTION void copy_plain(const CopyJob& job) const {
    bool direct      = false;
    std::byte* from  = source_of(job, table.addresses, direct);
    const auto bytes = static_cast<std::size_t>(job.plain);
    std::byte* to    = table.addresses[job.to].bytes + job.to_offset;
    if (direct)
      copy_near(to, from, bytes);
    else if (job.staged && job.clear && job.plain >= long_cleared_row)
      copy_away(to, from, bytes);
    else
      std::memcpy(to, from, bytes);
    if (job.clear) std::memset(from, 0, bytes);
  }

  /// Rows and nothing else: for a corner's, of which there are many, what others need takes longer
  /// than they do.
  [[gnu::noinline]] KOKKOS_FUNCTION void copy_rows_alone(const CopyJob& job,
                                                         const Chunk& chunk) const {
    bool direct                = false;
    std::byte* const from      = source_of(job, table.addresses, direct);
    std::byte* const to        = table.addresses[job.to].bytes + job.to_offset;
    const index_t *extent      = table.numbers + job.first_number,
                  *from_stride = extent + (direct ? 6 : 2), *to_stride = extent + 4;
    const Rows rows{from + chunk.first_line * from_stride[1],
                    to + chunk.first_line * to_stride[1],
                    from_stride[0],
                    to_stride[0],
                    from_stride[1],
                    to_stride[1],
                    extent[0],
                    chunk.lines};
    job.value_size == 4 ? copy_rows_as<std::uint32_t>(rows, job.clear)
                        : copy_rows_as<std::uint64_t>(rows, job.clear);
  }
  template <class T>
  KOKKOS_INLINE_FUNCTION static void copy_rows_as(const Rows& rows, bool clear) {
    clear ? copy_rows_of<T, true>(rows) : copy_rows_of<T>(rows);
  }

  /// Not inlined, nor are rows: a plain copy of some hundred bytes ends sooner than it would
  /// have made room for what this keeps.
  [[gnu::noinline]] KOKKOS_FUNCTION void copy(const CopyJob& job, index_t item) const {
    const CopyPart part(job, table);
    if constexpr (ByChunks) {
      for_rows(job.dims, part.extent, table.chunks[item], part);
    } else {
      index_t index[max_rank] = {};
      index_of_cell(job.dims, part.extent, item - job.first_cell, index);
      part.one(index);
    }
  }
};

/// Runs copy jobs of which each copies a whole piece and is one work item: of many small ones what
/// CopyKernel asks of each takes as long as they do.
struct CopyPieces {
  JobTable<CopyJob> table;

  static bool can_be(const CopyJob& job) {
    const bool goes_away = job.staged && job.clear && job.plain >= long_cleared_row;
    return job.plain > 0 && job.unless < 0 && !goes_away;
  }

  void operator()(index_t item) const {
    const CopyJob& job = table.jobs[item];
    bool direct        = false;
    std::byte* from    = source_of(job, table.addresses, direct);
    std::byte* to      = table.addresses[job.to].bytes + job.to_offset;
    const auto bytes   = static_cast<std::size_t>(job.plain);
    if (direct)
      copy_near(to, from, bytes);
    else
      std::memcpy(to, from, bytes);
    if (job.clear) std::memset(from, 0, bytes);
  }
};

/// Writes what copy jobs read as it is, a byte in each line of memory: a field at work between two
/// exchanges. (To copy it onto itself does nothing where memcpy sees that it is the same.)
template <bool ByChunks>
struct TouchKernel {
  JobTable<CopyJob> table;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const CopyJob& job = table.jobs[ByChunks ? table.chunks[item].job : job_of(table, item)];
    const CopyPart part(job, table);
    if constexpr (ByChunks) {
      if (job.plain > 0) return touch(part.from, 1, job.plain);
      for_rows(job.dims, part.extent, table.chunks[item], [&](const index_t* index, index_t rows) {
        const index_t distance = job.dims > 1 ? part.from_stride[1] : 0;
        std::byte* row         = part.from + offset_of(job.dims, index, part.from_stride);
        for (index_t i = 0; i < rows; ++i, row += distance)
          touch(row, part.from_stride[0], part.extent[0]);
      });
    } else {
      index_t index[max_rank] = {};
      index_of_cell(job.dims, part.extent, item - job.first_cell, index);
      touch(part.from + offset_of(job.dims, index, part.from_stride), 1, job.value_size);
    }
  }

 private:
  /// So many values, or bytes.
  KOKKOS_INLINE_FUNCTION static void touch(std::byte* first, index_t stride, index_t count) {
    constexpr index_t line = 64;
    const index_t step     = stride > 0 && stride < line ? line / stride : 1;
    const auto write       = [&](index_t n) {
      volatile std::byte& value = first[n * stride];
      const std::byte as_it_is  = value;
      value                     = as_it_is;
    };
    for (index_t n = 0; n < count; n += step) write(n);
    write(count - 1);
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

}  // namespace shard::impl

#endif
