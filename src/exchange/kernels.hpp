// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_KERNELS_HPP
#define SHARD_SRC_EXCHANGE_KERNELS_HPP

#include <Kokkos_Core.hpp>

#include <string>

#include "shard/exchange/jobs.hpp"

namespace shard::impl {

template <class Space>
inline constexpr bool runs_on_host_v =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename Space::memory_space>::accessible;

/// The job that work item `item` belongs to: the last whose first item isn't beyond it. `first`
/// reads a job's first item.
template <class Jobs, class First>
KOKKOS_INLINE_FUNCTION int job_of(const Jobs& jobs, index_t item, const First& first) {
  int low = 0, high = static_cast<int>(jobs.extent(0)) - 1;
  while (low < high) {
    const int middle = low + (high - low + 1) / 2;
    if (first(jobs(middle)) <= item)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

struct FirstLine {
  template <class Job>
  KOKKOS_INLINE_FUNCTION index_t operator()(const Job& job) const {
    return job.first_line;
  }
};

struct FirstCell {
  template <class Job>
  KOKKOS_INLINE_FUNCTION index_t operator()(const Job& job) const {
    return job.first_cell;
  }
};

template <class T>
KOKKOS_INLINE_FUNCTION void copy_values(const std::byte* from, index_t from_stride, std::byte* to,
                                        index_t to_stride, index_t count) {
  const auto* source = reinterpret_cast<const T*>(from);
  auto* target       = reinterpret_cast<T*>(to);
  const index_t fs   = from_stride / static_cast<index_t>(sizeof(T)),
                ts   = to_stride / static_cast<index_t>(sizeof(T));
  if (fs == 1 && ts == 1)
    for (index_t i = 0; i < count; ++i) target[i] = source[i];
  else
    for (index_t i = 0; i < count; ++i) target[i * ts] = source[i * fs];
}

struct Bytes16 {
  std::uint64_t low, high;
};

/// Copies a line of values with their sign changed: typed from end to end, for a value that is
/// written as one type and read as another may be read before it is written.
struct NegateLine {
  const std::byte* from;
  index_t from_stride;
  std::byte* to;
  index_t to_stride, count;

  template <class T>
  KOKKOS_INLINE_FUNCTION void operator()() const {
    for (index_t i = 0; i < count; ++i) {
      const T value = *reinterpret_cast<const T*>(from + i * from_stride);
      *reinterpret_cast<T*>(to + i * to_stride) = static_cast<T>(T(0) - value);
    }
  }
};

KOKKOS_INLINE_FUNCTION void copy_line(const CopyJob& job, std::byte* from, std::byte* to,
                                      index_t count) {
  const index_t fs = job.from_stride[0], ts = job.to_stride[0];
  if (job.negate != ValueKind::opaque)
    visit_arithmetic(job.negate, NegateLine{from, fs, to, ts, count});
  else
    switch (job.value_size) {
      case 1: copy_values<std::uint8_t>(from, fs, to, ts, count); break;
      case 2: copy_values<std::uint16_t>(from, fs, to, ts, count); break;
      case 4: copy_values<std::uint32_t>(from, fs, to, ts, count); break;
      case 8: copy_values<std::uint64_t>(from, fs, to, ts, count); break;
      case 16: copy_values<Bytes16>(from, fs, to, ts, count); break;
      default:
        for (index_t i = 0; i < count; ++i)
          for (int b = 0; b < job.value_size; ++b) to[i * ts + b] = from[i * fs + b];
    }
  if (job.clear)
    for (index_t i = 0; i < count; ++i)
      for (int b = 0; b < job.value_size; ++b) from[i * fs + b] = std::byte{0};
}

/// Runs copy jobs. A work item is a line on a host, a value on a device.
template <class Memory, bool ByLines>
struct CopyKernel {
  Kokkos::View<const CopyJob*, Memory> jobs;
  Kokkos::View<const Address*, Memory> addresses;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const int j = ByLines ? job_of(jobs, item, FirstLine{}) : job_of(jobs, item, FirstCell{});
    const CopyJob& job = jobs(j);
    index_t rest       = item - (ByLines ? job.first_line : job.first_cell);
    index_t from = job.from_offset, to = job.to_offset;
    if (!ByLines) {
      from += (rest % job.extent[0]) * job.from_stride[0];
      to += (rest % job.extent[0]) * job.to_stride[0];
      rest /= job.extent[0];
    }
    for (int d = 1; d < job.dims; ++d) {
      from += (rest % job.extent[d]) * job.from_stride[d];
      to += (rest % job.extent[d]) * job.to_stride[d];
      rest /= job.extent[d];
    }
    copy_line(job, addresses(job.from).bytes + from, addresses(job.to).bytes + to,
              ByLines ? job.extent[0] : 1);
  }
};

/// Adds a line of one source.
struct AddLine {
  const std::byte* from;
  index_t from_stride;
  std::byte* to;
  index_t to_stride, count;
  bool negative;

  template <class T>
  KOKKOS_INLINE_FUNCTION void operator()() const {
    for (index_t i = 0; i < count; ++i) {
      const T value = *reinterpret_cast<const T*>(from + i * from_stride);
      T& sum        = *reinterpret_cast<T*>(to + i * to_stride);
      sum           = static_cast<T>(negative ? sum - value : sum + value);
    }
  }
};

/// Runs sum jobs. Each owned cell belongs to one job, so one thread writes it, in the plan's order.
template <class Memory, bool ByLines>
struct SumKernel {
  Kokkos::View<const SumJob*, Memory> jobs;
  Kokkos::View<const SumSource*, Memory> sources;
  Kokkos::View<const Address*, Memory> addresses;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const int j       = ByLines ? job_of(jobs, item, FirstLine{}) : job_of(jobs, item, FirstCell{});
    const SumJob& job = jobs(j);
    index_t rest      = item - (ByLines ? job.first_line : job.first_cell);
    index_t index[max_rank] = {};
    for (int d = ByLines ? 1 : 0; d < job.dims; ++d) {
      index[d] = rest % job.extent[d];
      rest /= job.extent[d];
    }
    index_t to = job.to_offset;
    for (int d = 0; d < job.dims; ++d) to += index[d] * job.to_stride[d];
    for (int s = job.first_source; s < job.first_source + job.source_count; ++s) {
      const SumSource& source = sources(s);
      index_t from            = source.offset;
      for (int d = 0; d < job.dims; ++d) from += index[d] * source.stride[d];
      visit_arithmetic(job.kind, AddLine{addresses(source.from).bytes + from, source.stride[0],
                                         addresses(job.to).bytes + to, job.to_stride[0],
                                         ByLines ? job.extent[0] : 1, source.negative});
    }
  }
};

template <class Space, class Memory>
void run_copies(const std::string& label, const Space& space, const CopyJobs<Memory>& copies,
                const Kokkos::View<const Address*, Memory>& addresses) {
  constexpr bool by_lines = runs_on_host_v<Space>;
  const index_t items     = by_lines ? copies.lines : copies.cells;
  if (items == 0) return;
  Kokkos::parallel_for(label,
                       Kokkos::RangePolicy<Space, Kokkos::IndexType<index_t>>(space, 0, items),
                       CopyKernel<Memory, by_lines>{copies.jobs, addresses});
}

template <class Space, class Memory>
void run_sums(const std::string& label, const Space& space, const SumJobs<Memory>& sums,
              const Kokkos::View<const Address*, Memory>& addresses) {
  constexpr bool by_lines = runs_on_host_v<Space>;
  const index_t items     = by_lines ? sums.lines : sums.cells;
  if (items == 0) return;
  Kokkos::parallel_for(label,
                       Kokkos::RangePolicy<Space, Kokkos::IndexType<index_t>>(space, 0, items),
                       SumKernel<Memory, by_lines>{sums.jobs, sums.sources, addresses});
}

}  // namespace shard::impl

#endif
