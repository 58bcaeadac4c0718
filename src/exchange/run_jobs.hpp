// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_RUN_JOBS_HPP
#define SHARD_SRC_EXCHANGE_RUN_JOBS_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>

#include "copy_kernel.hpp"
#include "shard/base/launch.hpp"
#include "shard/exchange/jobs.hpp"
#include "sum_kernel.hpp"

namespace shard::impl {

/// Whether the thread that is here moves the lines: they are so few that several would take longer
/// to begin, or one has to move them in order. Unless a tool is to see the launch.
template <bool ByLines, class Space, class Jobs>
bool runs_here(bool seen, const Space& space, const Jobs& jobs) {
  if constexpr (!ByLines) return false;
  if (space.concurrency() == 1) return !seen;
  return jobs.in_order || (jobs.is_little && !seen);
}

template <class Kernel>
void run_here(index_t first, index_t end, const Kernel& kernel) {
  for (index_t item = first; item < end; ++item) kernel(item);
}

/// Cells that a core's cache holds, edges beside them included, if each has a line of memory.
inline constexpr index_t cells_in_cache = 16384;

template <class Kernel>
void run_here_backwards(index_t first, index_t end, const Kernel& kernel) {
  for (index_t item = end; item > first; --item) kernel(item - 1);
}

/// Runs a kernel over jobs: over lines, or over values. `first`: the work items before it are done.
template <bool ByLines, class Space, class Kernel, class Jobs>
void run_jobs(const char* label, bool seen, const Space& space, const Jobs& jobs,
              const Kernel& kernel, index_t first = 0) {
  if (jobs.cells == 0) return;
  if (runs_here<ByLines>(seen, space, jobs)) return run_here(first, jobs.chunk_count, kernel);
  launch(label, space, ByLines ? jobs.chunk_count : jobs.cells, kernel, first);
}

/// Copies work items by the thread that is here.
template <bool ByLines>
void copy_here(const CopyJobs& copies, const Address* addresses, index_t first, index_t end,
               bool backwards = false) {
  const auto run = [&](const auto& kernel) {
    backwards ? run_here_backwards(first, end, kernel) : run_here(first, end, kernel);
  };
  if (copies.pieces)
    run(CopyPieces{copies.table(addresses)});
  else
    run(CopyKernel<ByLines>{copies.table(addresses)});
}

/// Copies the first work items, those that need no message, and returns how many these are.
template <bool ByLines, class Space>
index_t run_local_copies(bool seen, const Space& space, const CopyJobs& copies,
                         const Address* addresses) {
  const index_t items = ByLines ? copies.local_chunks : copies.local_cells;
  if (items == 0) return 0;
  if (runs_here<ByLines>(seen, space, copies))
    copy_here<ByLines>(copies, addresses, 0, items);
  else
    launch("shard::fill_local", space, items, CopyKernel<ByLines>{copies.table(addresses)});
  return items;
}

/// As run_copies. `backwards`: the last item first, where the thread that is here does it. What is
/// unpacked lies beside what was packed, and of several large fields the caches have kept those
/// that were packed last.
template <bool ByLines, class Space>
void run_unpacking(bool seen, const Space& space, const CopyJobs& copies, const Address* addresses,
                   index_t first, bool backwards) {
  if (copies.cells > 0 && runs_here<ByLines>(seen, space, copies))
    copy_here<ByLines>(copies, addresses, first, copies.chunk_count, backwards);
  else
    run_jobs<ByLines>("shard::unpack", seen, space, copies,
                      CopyKernel<ByLines>{copies.table(addresses)}, first);
}

template <bool ByLines, class Space>
void run_copies(const char* label, bool seen, const Space& space, const CopyJobs& copies,
                const Address* addresses, index_t first = 0) {
  if (copies.cells > 0 && runs_here<ByLines>(seen, space, copies))
    copy_here<ByLines>(copies, addresses, first, copies.chunk_count);
  else
    run_jobs<ByLines>(label, seen, space, copies, CopyKernel<ByLines>{copies.table(addresses)},
                      first);
}

/// Writes what the jobs read as it is.
template <bool ByLines, class Space>
void run_touch(const Space& space, const CopyJobs& copies, const Address* addresses) {
  run_jobs<ByLines>("shard::touch", false, space, copies,
                    TouchKernel<ByLines>{copies.table(addresses)});
}

template <bool ByLines, class Space>
void run_sums(const char* label, bool seen, const Space& space, const SumJobs& sums,
              const Address* addresses, index_t first = 0) {
  using Kernel = SumKernel<ByLines>;
  if (sums.cells > 0 && sums.pieces && runs_here<ByLines>(seen, space, sums)) {
    if (sums.jobs->kind == ValueKind::f32)
      run_here(first, sums.chunk_count, SumPieces<float>{sums.table(addresses)});
    else
      run_here(first, sums.chunk_count, SumPieces<double>{sums.table(addresses)});
    return;
  }
  run_jobs<ByLines>(label, seen, space, sums, Kernel{sums.table(addresses)}, first);
  if (sums.clear_last)
    run_jobs<ByLines>(label, seen, space, sums, Kernel{sums.table(addresses), true});
}

template <class Space>
std::uint64_t run_checksum(const Space& space, const CopyJobs& copies, const Address* addresses) {
  std::uint64_t sum = 0;
  Kokkos::parallel_reduce("shard::checksum", range_policy<ChecksumKernel>(space, copies.cells),
                          ChecksumKernel{copies.table(addresses)}, sum);
  return sum;
}

}  // namespace shard::impl

#endif
