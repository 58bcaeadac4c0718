// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_SUM_KERNEL_HPP
#define SHARD_SRC_EXCHANGE_SUM_KERNEL_HPP

#include <Kokkos_Core.hpp>

#include "lines.hpp"
#include "shard/exchange/impl/jobs.hpp"

namespace shard::impl {

/// The device's sum: one value for each thread.
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

/// Floats of fewer than 32 bits (half_t and bhalf_t, where a backend has them) are combined in 32
/// bits and rounded once.
template <class T>
struct Accumulated {
  static constexpr bool is_short = sizeof(T) < sizeof(float) && !std::is_integral_v<T>;
  using type                     = std::conditional_t<is_short, float, T>;
};

template <class T>
KOKKOS_INLINE_FUNCTION void join(ReductionKind op, T& sum, const T& value) {
  if (op == ReductionKind::sum) {
    sum = static_cast<T>(sum + value);
  } else if constexpr (value_kind<T>() != ValueKind::c32 && value_kind<T>() != ValueKind::c64) {
    // A NaN is not equal to itself; one NaN makes the result NaN.
    if ((op == ReductionKind::max ? sum < value : value < sum) || value != value) sum = value;
  }
}

template <class T>
KOKKOS_INLINE_FUNCTION T scaled(const T& value, double scale) {
  if constexpr (std::is_same_v<T, Kokkos::complex<float>>)
    return value * static_cast<float>(scale);
  else if constexpr (std::is_same_v<T, Kokkos::complex<double>>)
    return value * scale;
  else if constexpr (std::is_floating_point_v<T>)
    return value * static_cast<T>(scale);
  else
    return value;  // a scale of integers is 1
}

/// Where one contribution to a line is.
struct Contribution {
  const std::byte* at;
  index_t stride;
};

/// Reduces the contributions to some values of a line, at most `Most`. \tparam Sources calls
/// use(contribution) for each, in order
template <int Most, class Sources>
struct CombineValues {
  const Reduction& reduction;
  std::byte* to;
  index_t to_stride, count;
  const Sources& sources;

  template <class T>
  KOKKOS_INLINE_FUNCTION void operator()() const {
    using Wide          = typename Accumulated<T>::type;
    constexpr auto size = static_cast<index_t>(sizeof(T));
    Wide sum[Most];
    bool first = true;
    if (reduction.adds) {
      for (index_t i = 0; i < count; ++i)
        sum[i] = static_cast<Wide>(*reinterpret_cast<const T*>(to + i * to_stride));
      first = false;
    }
    sources([&](const Contribution& c) {
      if (first)
        for (index_t i = 0; i < count; ++i)
          sum[i] = static_cast<Wide>(*reinterpret_cast<const T*>(c.at + i * c.stride));
      else if (reduction.op == ReductionKind::sum && c.stride == size)
        for (index_t i = 0; i < count; ++i)
          sum[i] =
              static_cast<Wide>(sum[i] + static_cast<Wide>(reinterpret_cast<const T*>(c.at)[i]));
      else
        for (index_t i = 0; i < count; ++i)
          join(reduction.op, sum[i],
               static_cast<Wide>(*reinterpret_cast<const T*>(c.at + i * c.stride)));
      first = false;
    });
    if (reduction.scale != 1)
      for (index_t i = 0; i < count; ++i) sum[i] = scaled(sum[i], reduction.scale);
    if (to_stride == size)
      for (index_t i = 0; i < count; ++i) reinterpret_cast<T*>(to)[i] = static_cast<T>(sum[i]);
    else
      for (index_t i = 0; i < count; ++i)
        *reinterpret_cast<T*>(to + i * to_stride) = static_cast<T>(sum[i]);
  }
};

/// A sum job with its addresses. Sources are added in order: each is a buffer, or a halo that is
/// read in place. \tparam Combine the job may combine
template <class Table, bool Combine>
struct SumPlace {
  const SumJob& job;
  const Table& table;
  const index_t *extent, *to_stride;

  KOKKOS_INLINE_FUNCTION SumPlace(const SumJob& j, const Table& t)
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

  /// Combines `count` values of a line, at most `Most` at a time.
  template <int Most>
  KOKKOS_INLINE_FUNCTION void combine(index_t* index, index_t count) const {
    std::byte* const to = table.addresses[job.to].bytes + job.to_offset;
    const index_t end   = index[0] + count;
    for (; index[0] < end; index[0] += Most) {
      const index_t n    = end - index[0] < Most ? end - index[0] : Most;
      const auto sources = [&](const auto& use) {
        for (int s = job.first_source; s < job.first_source + job.source_count; ++s) {
          const SumSource& source = table.sources[s];
          const index_t* stride   = table.numbers + source.first_number;
          use(Contribution{table.addresses[source.from].bytes + source.offset +
                               offset_of(job.dims, index, stride),
                           stride[0]});
        }
      };
      visit_arithmetic(job.kind, CombineValues<Most, decltype(sources)>{
                                     job.reduction, to + offset_of(job.dims, index, to_stride),
                                     to_stride[0], n, sources});
    }
  }

  /// Some lines, on a host.
  KOKKOS_INLINE_FUNCTION void operator()(const index_t* index, index_t rows) const {
    if (job.combines) {
      constexpr int at_a_time = 512;
      index_t here[max_rank]  = {};
      for (index_t i = 0; i < rows; ++i) {
        for (int d = 0; d < job.dims; ++d) here[d] = index[d];
        if (job.dims > 1) here[1] += i;
        combine<at_a_time>(here, extent[0]);
      }
      return;
    }
    for_sources(index, extent[0], rows, [&](const SumSource& source, const Lines& l, bool clear) {
      visit_addition(job.kind, AddLines{l, source.negative, clear});
    });
  }
  /// One value, on a device.
  KOKKOS_INLINE_FUNCTION void one(index_t* index) const {
    if constexpr (Combine)
      if (job.combines) return combine<1>(index, 1);
    for_sources(index, 1, 1, [&](const SumSource& source, const Lines& l, bool clear) {
      visit_addition(job.kind, AddValue{l.from, l.to, source.negative, clear});
    });
  }
};

/// Runs sum jobs. Each owned cell belongs to one job, so one thread writes it, in the plan's order.
/// \tparam Combine some jobs combine, which takes a device's threads three times the registers
template <bool ByLines, bool Combine = true>
struct SumKernel {
  KernelTable<SumJob, ByLines> table;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const SumJob& job = table.jobs[ByLines ? table.chunks[item].job : job_of(table, item)];
    const SumPlace<decltype(table), Combine> place(job, table);
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
