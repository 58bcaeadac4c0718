// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_JOB_LIST_HPP
#define SHARD_SRC_EXCHANGE_JOB_LIST_HPP

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "shard/exchange/jobs.hpp"

namespace shard::impl {

/// Bytes of all jobs of a list that one thread does sooner than several.
inline constexpr index_t little_work = 32768;

inline bool host_has_one_thread() { return Kokkos::DefaultHostExecutionSpace().concurrency() == 1; }

/// Bytes of a host's work item: enough for a thread, or for what is best done at a stretch where
/// there is but one.
inline index_t host_work() { return host_has_one_thread() ? index_t{1} << 20U : 32768; }

/// Lines of memory, far from each other, that a near cache keeps until another job meets them too:
/// where the fastest dimension is cut, both edges and both halos lie in the same ones if they are
/// narrow. Wider ones are moved one after the other, at equal distances, which a processor
/// foresees.
inline constexpr index_t lines_at_once = 512;

/// Such lines, of all fields, that no cache of a core keeps until the next exchange: while a core
/// is at the second job's, which are near by then, nothing comes from memory, so that turns lose
/// more than they save (128^3 doubles of 8 fields, over shared memory: 0.7 of the time without).
/// The transpose's jobs write on both sides, and take turns all the same.
inline constexpr index_t lines_from_afar = 131072;

/// Where a job's values lie far from each other, or in short runs.
struct Scattering {
  int field        = -1;  ///< the field's entry of the address table; -1: they don't
  index_t per_line = 1;   ///< lines of memory that a line of the job meets
};

/// Jobs, their numbers, and a host's work items: lines until they make enough work for a thread.
template <class OneJob>
struct JobList {
  using Job = OneJob;
  std::vector<Job> jobs;
  std::vector<index_t> numbers;
  std::vector<Chunk> chunks;
  index_t cells = 0, bytes = 0;
  index_t work  = host_work();
  bool by_lines = false;  // a host runs it, whose work items are chunks
  bool by_turns = true;   // jobs that are scattered over the same field take turns

  /// Makes room for the jobs of so many boxes.
  void reserve(std::size_t boxes) {
    constexpr std::size_t numbers_of_most = 9;
    jobs.reserve(boxes);
    chunks.reserve(boxes);
    numbers.reserve(numbers_of_most * boxes);
  }

  /// Appends a job whose extents are the first `dims` of its numbers; `from_middle`: in halves,
  /// with this one first. Those that are scattered over the same field, added one after the other,
  /// take turns.
  void add(Job job, std::span<const index_t> of_job, Scattering scattered = {},
           std::optional<bool> from_middle = std::nullopt) {
    job.first_number = static_cast<int>(numbers.size());
    job.first_cell   = cells;
    numbers.insert(numbers.end(), of_job.begin(), of_job.end());
    index_t lines = 1;
    for (int d = 1; d < job.dims; ++d) lines *= of_job[static_cast<std::size_t>(d)];
    const index_t line = of_job[0] * job.value_size;
    index_t most       = std::max(work / line, index_t{1});
    if (!by_turns) scattered = {};
    if (from_middle) {
      most      = std::min(most, (lines + 1) / 2);
      scattered = {};
    }
    if (scattered.field >= 0)
      most = std::min(most, std::max(lines_at_once / scattered.per_line, index_t{1}));
    const auto begin = static_cast<std::ptrdiff_t>(chunks.size());
    for (index_t first = 0; first < lines; first += most)
      chunks.push_back(
          {first, static_cast<int>(std::min(most, lines - first)), static_cast<int>(jobs.size())});
    const auto own = chunks.begin() + begin;
    if (from_middle.value_or(false)) std::rotate(own, own + (chunks.end() - own) / 2, chunks.end());
    if (scattered.field < 0 || scattered.field != turns_field_)
      turns_begin_ = begin;
    else if (chunks.end() - own > 1)
      std::inplace_merge(
          chunks.begin() + turns_begin_, own, chunks.end(),
          [](const Chunk& a, const Chunk& b) { return a.first_line < b.first_line; });
    turns_field_ = scattered.field;
    cells += lines * of_job[0];
    bytes += lines * line;
    jobs.push_back(job);
  }

  /// Jobs that are added from here on take no turns with those before.
  void end_turns() { turns_field_ = -1; }

  /// Appends the jobs of another list.
  void append(const JobList& other) {
    const int first = static_cast<int>(jobs.size());
    for (Job job : other.jobs) {
      job.first_number += static_cast<int>(numbers.size());
      job.first_cell += cells;
      jobs.push_back(job);
    }
    for (Chunk chunk : other.chunks) {
      chunk.job += first;
      chunks.push_back(chunk);
    }
    numbers.insert(numbers.end(), other.numbers.begin(), other.numbers.end());
    cells += other.cells;
    bytes += other.bytes;
  }

 private:
  int turns_field_            = -1;  // whose jobs take turns,
  std::ptrdiff_t turns_begin_ = 0;   // in the chunks from here on
};
using CopyJobList = JobList<CopyJob>;
struct SumJobList : JobList<SumJob> {
  std::vector<SumSource> sources;
  bool clear_last = false;         // those that lie in one piece; for work items that are chunks
  std::size_t most_collected = 0;  // bytes
  bool in_order = false;           // one job for each contribution, for one thread to do in turn

  void append(const SumJobList& other) {
    const auto first_job   = static_cast<std::ptrdiff_t>(jobs.size());
    const int first_number = static_cast<int>(numbers.size()),
              first_source = static_cast<int>(sources.size());
    JobList<SumJob>::append(other);
    for (auto job = jobs.begin() + first_job; job != jobs.end(); ++job)
      job->first_source += first_source;
    for (SumSource source : other.sources) {
      source.first_number += first_number;
      sources.push_back(source);
    }
  }
};

}  // namespace shard::impl

#endif
