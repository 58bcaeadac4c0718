// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_JOB_LIST_HPP
#define SHARD_SRC_EXCHANGE_JOB_LIST_HPP

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <type_traits>
#include <utility>
#include <vector>

#include "host_copy.hpp"
#include "shard/exchange/impl/jobs.hpp"

namespace shard::impl {

/// Whether a Kokkos profiling tool is attached. Asking costs as much as packing a small face, so
/// the answer is cached for 16 calls.
class ToolProbe {
 public:
  bool is_attached() {
    if (calls_++ % 16 == 0) is_attached_ = Kokkos::Profiling::profileLibraryLoaded();
    return is_attached_;
  }

 private:
  unsigned calls_   = 0;
  bool is_attached_ = false;
};

/// A list of jobs with fewer bytes than this is copied by one thread: several would take longer.
inline constexpr index_t little_work = 32768;

/// Bytes of a host's work item; more if there is only one thread.
inline index_t host_work() {
  return Kokkos::DefaultHostExecutionSpace().concurrency() == 1 ? index_t{1} << 20U : 32768;
}

/// Whether a box with lines of `count` values is scattered. stride(side, d): bytes on each of two
/// sides. Boxes that are contiguous along the lines on one side and across them on the other are
/// copied in tiles.
template <class Stride>
bool lies_scattered(index_t count, index_t size, int dims, const Stride& stride) {
  constexpr index_t cache_line = 64;
  const auto is_far            = [](index_t s) { return std::abs(s) >= cache_line; };
  const bool is_line = count > 1, many = dims > 1;
  for (const int side : {0, 1})
    if (is_line && many && stride(side, 0) == size && stride(1 - side, 1) == size) return false;
  for (const int side : {0, 1}) {
    if (is_line && is_far(stride(side, 0))) return true;
    if (many && count * size < cache_line && is_far(stride(side, 1))) return true;
  }
  return false;
}

/// Jobs, their numbers, and a host's work items, each of enough lines for a thread.
template <class OneJob>
struct JobList {
  using Job = OneJob;
  std::vector<Job> jobs;
  std::vector<index_t> numbers;
  std::vector<Chunk> chunks;
  index_t cells = 0, bytes = 0;
  index_t work     = host_work();
  bool interleaves = false;  // work items of jobs over the same field alternate

  /// An empty list of the same kind.
  JobList like() const {
    JobList other;
    other.work        = work;
    other.interleaves = interleaves;
    return other;
  }

  /// Appends a job whose extents are the first `dims` of its numbers.
  void add(Job job, const std::vector<index_t>& of_job) {
    job.first_number = static_cast<int>(numbers.size());
    job.first_cell   = cells;
    numbers.insert(numbers.end(), of_job.begin(), of_job.end());
    index_t lines = 1;
    for (int d = 1; d < job.dims; ++d) lines *= of_job[static_cast<std::size_t>(d)];
    const index_t line = of_job[0] * job.value_size;
    index_t most       = std::max(work / line, index_t{1});
    if (interleaves && is_scattered(job))
      most = std::min(most, std::max(interleaved_values / of_job[0], index_t{1}));
    if constexpr (std::is_same_v<Job, CopyJob>)
      if (job.listed) {  // whole boxes, unless they are large
        const index_t of_box = lines / of_job[static_cast<std::size_t>(job.dims - 1)];
        if (of_box > 0 && of_box <= most) most = most / of_box * of_box;
      }
    for (index_t first = 0; first < lines; first += most)
      chunks.push_back(
          {first, static_cast<int>(std::min(most, lines - first)), static_cast<int>(jobs.size())});
    cells += lines * of_job[0];
    bytes += lines * line;
    jobs.push_back(job);
  }

  /// Interleaves the work items of jobs that are scattered over the same field.
  void interleave() {
    const auto order = [&](const Chunk& c) {
      const Job& job = jobs[static_cast<std::size_t>(c.job)];
      return is_scattered(job) ? std::pair(field_of(job), c.first_line) : std::pair(-1, index_t{0});
    };
    std::stable_sort(chunks.begin(), chunks.end(),
                     [&](const Chunk& a, const Chunk& b) { return order(a) < order(b); });
  }

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
  /// The entry of the field that a job reads or writes; those of buffers follow.
  static int field_of(const CopyJob& job) { return std::min(job.from, job.to); }
  static int field_of(const SumJob& job) { return job.to; }

  /// Whether the values of a job's lines, or its short lines, are far apart on some side.
  bool is_scattered(const Job& job) const {
    if constexpr (std::is_same_v<Job, CopyJob>)
      if (job.listed) return false;
    const auto stride = [&](int side, int d) {
      return numbers[static_cast<std::size_t>(job.first_number + (side + 1) * job.dims + d)];
    };
    return lies_scattered(numbers[static_cast<std::size_t>(job.first_number)], job.value_size,
                          job.dims, stride);
  }
};
using CopyJobList = JobList<CopyJob>;
struct SumJobList : JobList<SumJob> {
  std::vector<SumSource> sources;

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
