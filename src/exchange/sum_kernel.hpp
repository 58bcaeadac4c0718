// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_SUM_KERNEL_HPP
#define SHARD_SRC_EXCHANGE_SUM_KERNEL_HPP

#include <Kokkos_Core.hpp>

#include "lines.hpp"
#include "shard/exchange/impl/jobs.hpp"

namespace shard::impl {

/// The device's sum: one value a thread.
struct AddValue {
  std::byte *from, *to;
  bool negative, clear;

  template <class T>
  KOKKOS_INLINE_FUNCTION void operator()() const {
    T &source = *reinterpret_cast<T*>(from), &target = *reinterpret_cast<T*>(to);
    target = static_cast<T>(negative ? target - source : target + source);
    if (clear) source = T(0);
  }
};

/// A sum job with its addresses. Sources are added one after the other: each is a buffer, or the
/// peer's own halo.
struct SumPlace {
  const SumJob& job;
  const JobTable<SumJob>& table;
  const index_t *extent, *to_stride;

  KOKKOS_INLINE_FUNCTION SumPlace(const SumJob& j, const JobTable<SumJob>& t)
      : job(j), table(t), extent(t.numbers + j.first_number), to_stride(extent + j.dims) {}

  /// Calls use(source, lines, clear) for each source.
  template <class Use>
  KOKKOS_INLINE_FUNCTION void for_sources(const index_t* index, index_t count, index_t rows,
                                          const Use& use) const {
    const bool many     = job.dims > 1;
    std::byte* const to = table.addresses[job.to].bytes + job.to_offset;
    for (int s = job.first_source; s < job.first_source + job.source_count; ++s) {
      const SumSource& source = table.sources[s];
      std::byte* const peer   = source.direct < 0 ? nullptr : table.addresses[source.direct].bytes;
      const bool direct       = peer != nullptr;
      std::byte* const from =
          direct ? peer + source.direct_offset : table.addresses[source.from].bytes + source.offset;
      const index_t* stride = table.numbers + source.first_number + (direct ? job.dims : 0);
      use(source,
          Lines{from + offset_of(job.dims, index, stride),
                to + offset_of(job.dims, index, to_stride), stride[0], to_stride[0],
                many ? stride[1] : 0, many ? to_stride[1] : 0, count, rows},
          direct && source.clear);
    }
  }

  /// Some lines, on a host.
  KOKKOS_INLINE_FUNCTION void operator()(const index_t* index, index_t rows) const {
    for_sources(index, extent[0], rows, [&](const SumSource& source, const Lines& l, bool clear) {
      visit_addition(job.kind, AddLines{l, source.negative, clear});
    });
  }
  /// One value, on a device.
  KOKKOS_INLINE_FUNCTION void one(const index_t* index) const {
    for_sources(index, 1, 1, [&](const SumSource& source, const Lines& l, bool clear) {
      visit_addition(job.kind, AddValue{l.from, l.to, source.negative, clear});
    });
  }
};

/// Runs sum jobs. Each owned cell belongs to one job, so one thread writes it, in the plan's order.
template <bool ByLines>
struct SumKernel {
  JobTable<SumJob> table;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const SumJob& job = table.jobs[ByLines ? table.chunks[item].job : job_of(table, item)];
    const SumPlace place(job, table);
    if constexpr (ByLines) {
      for_lines(job.dims, place.extent, table.chunks[item], place);
    } else {
      index_t index[max_rank] = {};
      index_of_cell(job.dims, place.extent, item - job.first_cell, index);
      place.one(index);
    }
  }
};

}  // namespace shard::impl

#endif
