// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_SUM_KERNEL_HPP
#define SHARD_SRC_EXCHANGE_SUM_KERNEL_HPP

#include <Kokkos_Core.hpp>

#include "moved_run.hpp"
#include "rows.hpp"
#include "shard/exchange/jobs.hpp"

namespace shard::impl {

/// Adds short lines, contiguous on both sides; `Take`: and sets the source to zero. `far`: it is a
/// neighbour's, and its memory is asked for in time.
template <class T, bool Negative, bool Take>
struct AddShort {
  Rows r;
  bool far = false;

  template <int N>
  KOKKOS_INLINE_FUNCTION void run() const {
    std::byte *from = r.from, *to = r.to;
    [[maybe_unused]] const index_t from_ahead = far ? ahead_of(r.from_distance, r.rows) : 0,
                                   to_ahead   = far ? ahead_of(r.to_distance, r.rows) : 0;
    for (index_t i = 0; i < r.rows; ++i, from += r.from_distance, to += r.to_distance) {
      T* source = reinterpret_cast<T*>(from);
      T* target = reinterpret_cast<T*>(to);
      if constexpr (Take) {
        if (from_ahead != 0) prefetch_to_write(from + from_ahead);
        if (to_ahead != 0) prefetch_to_write(to + to_ahead);
      }
      T sum[N];
      for (int n = 0; n < N; ++n)
        sum[n] = static_cast<T>(Negative ? target[n] - source[n] : target[n] + source[n]);
      for (int n = 0; n < N; ++n) target[n] = sum[n];
      if constexpr (Take)
        for (int n = 0; n < N; ++n) source[n] = T(0);
    }
  }
};

/// Adds a line of single values; `Take`: and sets the source to zero. `remote`: several at once,
/// for the source isn't near; `ask`: and their memory is asked for.
template <class T, bool Negative, bool Take>
KOKKOS_INLINE_FUNCTION void add_line(T* from, index_t from_stride, T* to, index_t to_stride,
                                     index_t count, bool remote, bool ask) {
  index_t n = 0;
  for (; remote && n + at_once <= count; n += at_once) {
    if (ask) {
      ask_for_values<T, Take>(from, from_stride);
      ask_for_values<T, true>(to, to_stride);
    }
    T sums[at_once];
    for (index_t k = 0; k < at_once; ++k) {
      const T value = from[k * from_stride], old = to[k * to_stride];
      sums[k] = static_cast<T>(Negative ? old - value : old + value);
    }
    for (index_t k = 0; k < at_once; ++k) to[k * to_stride] = sums[k];
    if constexpr (Take)
      for (index_t k = 0; k < at_once; ++k) from[k * from_stride] = T(0);
    from += at_once * from_stride;
    to += at_once * to_stride;
  }
  for (; n < count; ++n, from += from_stride, to += to_stride) {
    *to = static_cast<T>(Negative ? *to - *from : *to + *from);
    if constexpr (Take) *from = T(0);
  }
}

/// Adds lines of one source; `take`: and sets the source to zero. `remote`: it is a neighbour's,
/// which is best read `down`wards or not. Within a rank no memory is asked for: lines that the halo
/// of one side takes are, a moment later, those that the owned cells of the other side give.
struct AddRows {
  Rows r;
  bool negative, take, remote, down;
  bool held = false;

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
      add_line<T, Negative, Take>(from, fs, to, ts, r.count, remote, r.ask);
    }
  }

  /// The source is a neighbour's halo. Its lines of memory are asked for to be written before they
  /// are read, some of them ahead, so that each crosses between the cores once and none is waited
  /// for: along a long row, and in the rows to come where rows are short.
  template <class T, bool Contiguous, bool Negative>
  KOKKOS_INLINE_FUNCTION void move() const {
    if constexpr (!Contiguous)
      add<T, false, Negative, true>();
    else if (with_short_count(r.count, AddShort<T, Negative, true>{r, true}))
      return;
    else if (down)
      move_rows<T, Negative, true>();
    else
      move_rows<T, Negative, false>();
  }

  template <class T, bool Negative, bool Down>
  KOKKOS_INLINE_FUNCTION void move_rows() const {
    using Run      = MovedRun<T, Negative, Down>;
    const auto row = [&](index_t i) {
      T* from = reinterpret_cast<T*>(r.from + i * r.from_distance);
      T* to   = reinterpret_cast<T*>(r.to + i * r.to_distance);
      return Down ? Run{from + r.count, to + r.count} : Run{from, to};
    };
    const index_t rows_ahead = (Run::ahead + r.count - 1) / r.count;
    for (index_t i = 0; i < r.rows && i < rows_ahead; ++i) row(i).ask_first(r.count);
    if (r.count >= 2 * Run::ahead)
      for (index_t i = 0; i < r.rows; ++i) {
        const Run next = i + 1 < r.rows ? row(i + 1) : Run{};
        held ? row(i).take_held(r.count, next) : row(i).take(r.count, next);
      }
    else if (held)
      take_groups<T>(row, rows_ahead);
    else
      for (index_t i = 0; i < r.rows; ++i)
        if (i + rows_ahead < r.rows)
          row(i).template move<true, true>(r.count, row(i + rows_ahead));
        else
          row(i).template move<false, false>(r.count, {});
  }

  /// Holds as many short rows at once as there is room for.
  template <class T, class Row>
  KOKKOS_INLINE_FUNCTION void take_groups(const Row& row, index_t rows_ahead) const {
    constexpr index_t most = MovedRun<T, false, false>::held;
    alignas(64) T values[most];
    const index_t group = most / r.count;
    for (index_t first = 0; first < r.rows; first += group) {
      const index_t end = first + group < r.rows ? first + group : r.rows;
      for (index_t i = first; i < end; ++i)
        row(i).hold(values + (i - first) * r.count, r.count, [&](index_t n) {
          if (i + rows_ahead >= r.rows) return;
          row(i + rows_ahead).ask_from(n);
          row(i + rows_ahead).ask_to(n);
        });
      for (index_t i = first; i < end; ++i) row(i).add(values + (i - first) * r.count, r.count);
    }
  }
};

/// Adds one value; `take`: and sets its source to zero.
struct AddValue {
  std::byte *from, *to;
  bool negative, take;

  template <class T>
  KOKKOS_INLINE_FUNCTION void operator()() const {
    T &source = *reinterpret_cast<T*>(from), &target = *reinterpret_cast<T*>(to);
    target = static_cast<T>(negative ? target - source : target + source);
    if (take) source = T(0);
  }
};

/// What is added: this rank's or a peer's buffer, or the peer's own field.
struct SummandPlace {
  std::byte* from;
  bool direct;

  KOKKOS_INLINE_FUNCTION SummandPlace(const SumSource& source, const Address* addresses) {
    std::byte* peer = source.direct < 0 ? nullptr : addresses[source.direct].bytes;
    direct          = peer != nullptr;
    from = direct ? peer + source.direct_offset : addresses[source.from].bytes + source.offset;
  }
};

/// Adds values that lie in one piece on both sides; `take`: and sets their source to zero. `far`:
/// it is a neighbour's, and its memory is asked for in time (`ahead`), or left to the processor.
struct AddPiece {
  std::byte *from, *to;
  index_t count;
  bool negative, take, down;
  bool held = false, far = true, ahead = false;

  template <class T>
  KOKKOS_INLINE_FUNCTION void operator()() const {
    negative ? run<T, true>() : run<T, false>();
  }
  template <class T, bool Negative>
  KOKKOS_INLINE_FUNCTION void run() const {
    T *source = reinterpret_cast<T*>(from), *target = reinterpret_cast<T*>(to);
    if (take && !far && held)
      take_near<T, Negative>(source, target, count);
    else if (take && !far)
      MovedRun<T, Negative, false>{source, target}.template move<false, false>(count, {});
    else if (take && down)
      move(MovedRun<T, Negative, true>{source + count, target + count});
    else if (take)
      move(MovedRun<T, Negative, false>{source, target});
    else if (down)
      MovedRun<T, Negative, true>{source + count, target + count}
          .template move<false, false, false>(count, {});
    else
      for (index_t n = 0; n < count; ++n)
        target[n] = static_cast<T>(Negative ? target[n] - source[n] : target[n] + source[n]);
  }
  /// In pieces that are added, then cleared: with both in one loop 8 KiB took 0.4 to 1.4 us from
  /// turn to turn on a Granite Rapids. On a Zen 4 both line by line are faster: 32 KiB in 1.4 us,
  /// not in 1.8.
  template <class T, bool Negative>
  KOKKOS_INLINE_FUNCTION static void take_near(T* KOKKOS_RESTRICT source, T* KOKKOS_RESTRICT target,
                                               index_t count) {
    constexpr index_t piece = 2048 / sizeof(T);
    for (index_t begin = 0; begin < count; begin += piece) {
      const index_t end = begin + piece < count ? begin + piece : count;
      for (index_t n = begin; n < end; ++n)
        target[n] = static_cast<T>(Negative ? target[n] - source[n] : target[n] + source[n]);
      for (index_t n = begin; n < end; ++n) source[n] = T(0);
    }
  }
  template <class Run>
  KOKKOS_INLINE_FUNCTION void move(const Run& values) const {
    if (!ahead || (count < 2 * Run::ahead && !held)) {
      values.template move<false, false>(count, {});
      return;
    }
    values.ask_first(count);
    held ? values.take_held(count) : values.take(count);
  }
};

/// A sum job that lies in one piece on every side.
struct PlainSum {
  const SumJob& job;
  const JobTable<SumJob>& table;

  KOKKOS_INLINE_FUNCTION AddPiece piece(const SumSource& source) const {
    const SummandPlace it(source, table.addresses);
    return {it.from,
            table.addresses[job.to].bytes + job.to_offset,
            job.plain,
            source.negative,
            it.direct && source.take && !source.last,
            it.direct && source.down,
            source.held,
            source.remote,
            source.ahead};
  }
  KOKKOS_INLINE_FUNCTION void add() const {
    for (int s = job.first_source; s < job.first_source + job.source_count; ++s)
      visit_addition(job.kind, piece(table.sources[s]));
  }
  KOKKOS_INLINE_FUNCTION void clear() const {
    for (int s = job.first_source; s < job.first_source + job.source_count; ++s) {
      if (!table.sources[s].last) continue;
      const SummandPlace it(table.sources[s], table.addresses);
      if (it.direct) clear_away(it.from, static_cast<std::size_t>(job.plain * job.value_size));
    }
  }
};

/// A sum job of rows and nothing else: for a corner's, of which there are many, what others need
/// takes longer than they do.
struct SumOfRows {
  const SumJob& job;
  const JobTable<SumJob>& table;
  const Chunk& chunk;

  KOKKOS_INLINE_FUNCTION void add() const {
    const index_t *extent = table.numbers + job.first_number, *to_stride = extent + 2;
    std::byte* const to =
        table.addresses[job.to].bytes + job.to_offset + chunk.first_line * to_stride[1];
    for (int s = job.first_source; s < job.first_source + job.source_count; ++s) {
      const SumSource& source = table.sources[s];
      const SummandPlace it(source, table.addresses);
      const index_t* stride = table.numbers + source.first_number + (it.direct ? 2 : 0);
      const Rows rows{it.from + chunk.first_line * stride[1],
                      to,
                      stride[0],
                      to_stride[0],
                      stride[1],
                      to_stride[1],
                      extent[0],
                      chunk.lines};
      visit_addition(job.kind, AddRows{rows, source.negative, it.direct && source.take,
                                       source.remote, source.down, source.held});
    }
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
    const SummandPlace place(source, table.addresses);
    const index_t* stride = table.numbers + source.first_number + (place.direct ? job.dims : 0);
    std::byte* to         = table.addresses[job.to].bytes + job.to_offset;
    const bool many       = job.dims > 1;
    const Rows r{place.from + offset_of(job.dims, index, stride),
                 to + offset_of(job.dims, index, to_stride),
                 stride[0],
                 to_stride[0],
                 many ? stride[1] : 0,
                 many ? to_stride[1] : 0,
                 count,
                 rows,
                 is_worth_asking(extent, job.dims)};
    return {r.as_line_if_ones(), place.direct && source.take};
  }

  KOKKOS_INLINE_FUNCTION void operator()(const index_t* index, index_t rows) const {
    for (int s = job.first_source; s < job.first_source + job.source_count; ++s) {
      const SumSource& source = table.sources[s];
      const Summand it        = summand(source, index, extent[0], rows);
      visit_addition(job.kind, AddRows{it.rows, source.negative, it.taken, source.remote,
                                       source.down, source.held});
    }
  }
  /// One value, by a device's thread.
  KOKKOS_INLINE_FUNCTION void one(const index_t* index) const {
    for (int s = job.first_source; s < job.first_source + job.source_count; ++s) {
      const SumSource& source = table.sources[s];
      const Summand it        = summand(source, index, 1, 1);
      visit_addition(job.kind, AddValue{it.rows.from, it.rows.to, source.negative, it.taken});
    }
  }
};

/// Runs sum jobs. Each owned cell belongs to one job, so one thread writes it, in the plan's order.
template <bool ByChunks>
struct SumKernel {
  JobTable<SumJob> table;
  bool clear = false;  // what was left to be set to zero when all have been added

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const SumJob& job = table.jobs[ByChunks ? table.chunks[item].job : job_of(table, item)];
    if constexpr (ByChunks)
      if (job.plain > 0) return clear ? PlainSum{job, table}.clear() : PlainSum{job, table}.add();
    if (clear) return;
    if constexpr (ByChunks)
      if (job.rows) return SumOfRows{job, table, table.chunks[item]}.add();
    add(job, item);
  }

  /// Not inlined: a plain sum of some hundred bytes ends sooner than it would have made room for
  /// what this keeps.
  [[gnu::noinline]] KOKKOS_FUNCTION void add(const SumJob& job, index_t item) const {
    const SumPart sum(job, table);
    if constexpr (ByChunks) {
      for_rows(job.dims, sum.extent, table.chunks[item], sum);
    } else {
      index_t index[max_rank] = {};
      index_of_cell(job.dims, sum.extent, item - job.first_cell, index);
      sum.one(index);
    }
  }
};

/// Runs sum jobs of which each adds one piece to another and is one work item, all of one type; see
/// CopyPieces.
template <class T>
struct SumPieces {
  JobTable<SumJob> table;

  void operator()(index_t item) const {
    const SumJob& job = table.jobs[item];
    PlainSum{job, table}.piece(table.sources[job.first_source]).template operator()<T>();
  }
};

}  // namespace shard::impl

#endif
