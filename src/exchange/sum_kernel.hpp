// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_SUM_KERNEL_HPP
#define SHARD_SRC_EXCHANGE_SUM_KERNEL_HPP

#include <Kokkos_Core.hpp>

#include "rows.hpp"
#include "shard/exchange/jobs.hpp"

namespace shard::impl {

/// Fetches the line of memory at `address` to be written here.
KOKKOS_INLINE_FUNCTION void prefetch_to_write([[maybe_unused]] const void* address) {
#if defined(__x86_64__) && !defined(__CUDA_ARCH__) && !defined(__HIP_DEVICE_COMPILE__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#endif
}

/// Adds short lines, contiguous on both sides; `Take`: and sets the source to zero.
template <class T, bool Negative, bool Take>
struct AddShort {
  Rows r;

  template <int N>
  KOKKOS_INLINE_FUNCTION void run() const {
    std::byte *from = r.from, *to = r.to;
    for (index_t i = 0; i < r.rows; ++i, from += r.from_distance, to += r.to_distance) {
      T* source = reinterpret_cast<T*>(from);
      T* target = reinterpret_cast<T*>(to);
      T sum[N];
      for (int n = 0; n < N; ++n)
        sum[n] = static_cast<T>(Negative ? target[n] - source[n] : target[n] + source[n]);
      for (int n = 0; n < N; ++n) target[n] = sum[n];
      if constexpr (Take)
        for (int n = 0; n < N; ++n) source[n] = T(0);
    }
  }
};

/// Adds lines of one source; `take`: and sets the source to zero. `remote`: it is a neighbour's.
struct AddRows {
  Rows r;
  bool negative, take, remote;

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
    if (take && remote)
      move<T, Contiguous, Negative>();
    else if (take)
      add<T, Contiguous, Negative, true>();
    else
      add<T, Contiguous, Negative, false>();
  }

  template <class T, bool Contiguous, bool Negative, bool Take>
  KOKKOS_INLINE_FUNCTION void add() const {
    constexpr auto size = static_cast<index_t>(sizeof(T));
    if constexpr (Contiguous)
      if (with_short_count(r.count, AddShort<T, Negative, Take>{r})) return;
    const index_t fs = Contiguous ? 1 : r.from_stride / size;
    const index_t ts = Contiguous ? 1 : r.to_stride / size;
    for (index_t i = 0; i < r.rows; ++i) {
      T* from = reinterpret_cast<T*>(r.from + i * r.from_distance);
      T* to   = reinterpret_cast<T*>(r.to + i * r.to_distance);
      for (index_t n = 0; n < r.count; ++n)
        to[n * ts] =
            static_cast<T>(Negative ? to[n * ts] - from[n * fs] : to[n * ts] + from[n * fs]);
      if constexpr (Take)
        for (index_t n = 0; n < r.count; ++n) from[n * fs] = T(0);
    }
  }

  /// The source is a neighbour's halo. Its lines of memory are asked for to be written before they
  /// are read, some of them ahead, so that each crosses between the cores once and none is waited
  /// for: along a long row, and in the rows to come where rows are short.
  template <class T, bool Contiguous, bool Negative>
  KOKKOS_INLINE_FUNCTION void move() const {
    if constexpr (!Contiguous) {
      add<T, false, Negative, true>();
    } else {
      constexpr index_t ahead = 24 * block_of<T>;  // values
      const auto from         = [&](index_t i) {
        return reinterpret_cast<T*>(r.from + i * r.from_distance);
      };
      const auto to = [&](index_t i) { return reinterpret_cast<T*>(r.to + i * r.to_distance); };
      if (r.count >= 2 * ahead) {
        for (index_t n = 0; n < ahead; n += block_of<T>) prefetch_to_write(from(0) + n);
        const index_t rest = r.count - ahead;
        for (index_t i = 0; i < r.rows; ++i) {
          move_values<T, Negative, true, false>(from(i), to(i), rest, from(i) + ahead, nullptr);
          if (i + 1 < r.rows)
            move_values<T, Negative, true, true>(from(i) + rest, to(i) + rest, ahead, from(i + 1),
                                                 to(i + 1));
          else
            move_values<T, Negative, false, false>(from(i) + rest, to(i) + rest, ahead, nullptr,
                                                   nullptr);
        }
        return;
      }
      const index_t rows_ahead = (ahead + r.count - 1) / r.count;
      for (index_t i = 0; i < (rows_ahead < r.rows ? rows_ahead : r.rows); ++i)
        for (index_t n = 0; n < r.count; n += block_of<T>) prefetch_to_write(from(i) + n);
      for (index_t i = 0; i < r.rows; ++i)
        if (i + rows_ahead < r.rows)
          move_values<T, Negative, true, true>(from(i), to(i), r.count, from(i + rows_ahead),
                                               to(i + rows_ahead));
        else
          move_values<T, Negative, false, false>(from(i), to(i), r.count, nullptr, nullptr);
    }
  }

  template <class T>
  static constexpr index_t block_of = sizeof(T) < 64 ? 64 / static_cast<index_t>(sizeof(T)) : 1;

  /// Adds values, sets their source to zero and asks for as many others to be written.
  template <class T, bool Negative, bool AskFrom, bool AskTo>
  KOKKOS_INLINE_FUNCTION static void move_values(T* from, T* to, index_t count, const T* next_from,
                                                 const T* next_to) {
    constexpr index_t block = block_of<T>;
    index_t n               = 0;
    for (; n + block <= count; n += block) {
      if constexpr (AskFrom) prefetch_to_write(next_from + n);
      if constexpr (AskTo) prefetch_to_write(next_to + n);
      T sum[block];
      for (index_t k = 0; k < block; ++k)
        sum[k] = static_cast<T>(Negative ? to[n + k] - from[n + k] : to[n + k] + from[n + k]);
      for (index_t k = 0; k < block; ++k) to[n + k] = sum[k];
      for (index_t k = 0; k < block; ++k) from[n + k] = T(0);
    }
    if (n < count) {
      if constexpr (AskFrom) prefetch_to_write(next_from + n);
      if constexpr (AskTo) prefetch_to_write(next_to + n);
    }
    for (; n < count; ++n) {
      to[n]   = static_cast<T>(Negative ? to[n] - from[n] : to[n] + from[n]);
      from[n] = T(0);
    }
  }
};

struct AddFetched {
  ValueKind kind;
  bool negative;
  KOKKOS_INLINE_FUNCTION void each(const Rows& rows) const {
    visit_arithmetic(kind, AddRows{rows, negative, false, true});
  }
};

/// A part of a sum job, one source after the other.
struct SumPart {
  const SumJob& job;
  const JobTable<SumJob>& table;
  const index_t *extent, *to_stride;

  KOKKOS_INLINE_FUNCTION SumPart(const SumJob& j, const JobTable<SumJob>& t)
      : job(j), table(t), extent(t.numbers + j.first_number), to_stride(extent + j.dims) {}

  /// One source's rows, and those that they are added to.
  struct Summand {
    Rows rows;
    bool taken = false;  // from a neighbour's own field, or this rank's
  };
  KOKKOS_INLINE_FUNCTION Summand summand(const SumSource& source, const index_t* index,
                                         index_t count, index_t rows) const {
    std::byte* peer       = source.direct < 0 ? nullptr : table.addresses[source.direct].bytes;
    const bool direct     = peer != nullptr;
    const index_t* stride = table.numbers + source.first_number + (direct ? job.dims : 0);
    std::byte* from =
        direct ? peer + source.direct_offset : table.addresses[source.from].bytes + source.offset;
    std::byte* to   = table.addresses[job.to].bytes + job.to_offset;
    const bool many = job.dims > 1;
    return {{from + offset_of(job.dims, index, stride), to + offset_of(job.dims, index, to_stride),
             stride[0], to_stride[0], many ? stride[1] : 0, many ? to_stride[1] : 0, count, rows},
            direct && source.take};
  }

  KOKKOS_INLINE_FUNCTION void add(const index_t* index, index_t count, index_t rows) const {
    for (int s = job.first_source; s < job.first_source + job.source_count; ++s) {
      const SumSource& source = table.sources[s];
      const Summand it        = summand(source, index, count, rows);
      if (!it.taken && source.remote && is_best_fetched(it.rows, job.value_size))
        fetch_rows(it.rows, AddFetched{job.kind, source.negative});
      else
        visit_arithmetic(job.kind, AddRows{it.rows, source.negative, it.taken, source.remote});
    }
  }
  KOKKOS_INLINE_FUNCTION void operator()(const index_t* index, index_t rows) const {
    add(index, extent[0], rows);
  }

  /// Asks for the beginning of what is taken from neighbours.
  void ask() const {
    constexpr index_t most        = 16;  // lines of the cache
    const index_t index[max_rank] = {};
    for (int s = job.first_source; s < job.first_source + job.source_count; ++s) {
      if (!table.sources[s].remote) continue;
      const Summand it    = summand(table.sources[s], index, extent[0], 1);
      const index_t bytes = extent[0] * job.value_size;
      if (it.taken)
        for (index_t b = 0; b < (bytes < 64 * most ? bytes : 64 * most); b += 64)
          prefetch_to_write(it.rows.from + b);
    }
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

  /// Asks for what a job to come takes from neighbours, so that it needn't wait for it.
  void ask(index_t item) const {
    if (table.chunks[item].first_line == 0)
      SumPart(table.jobs[table.chunks[item].job], table).ask();
  }
};

}  // namespace shard::impl

#endif
