// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_RUN_JOBS_HPP
#define SHARD_SRC_EXCHANGE_RUN_JOBS_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>

#include "copy_kernel.hpp"
#include "shard/base/impl/launch.hpp"
#include "shard/exchange/impl/jobs.hpp"
#include "sum_kernel.hpp"

namespace shard::impl {

/// Whether the calling thread runs the jobs as a plain loop: they are so small that a kernel launch
/// would cost more. With a profiling tool attached (`has_tool`) they are always launched, so that
/// the tool sees them.
template <bool ByLines, class Space, class Jobs>
bool runs_here(bool has_tool, const Space& space, const Jobs& jobs) {
  return ByLines && !has_tool && (jobs.is_little || space.concurrency() == 1);
}

/// Runs a kernel over the jobs' work items from `first` to `end`.
template <bool ByLines, class Space, class Kernel, class Jobs>
void run_jobs(const char* label, bool has_tool, const Space& space, const Jobs& jobs,
              const Kernel& kernel, index_t first, index_t end) {
  if (first == end) return;
  if (runs_here<ByLines>(has_tool, space, jobs))
    for (index_t item = first; item < end; ++item) kernel(item);
  else
    launch(label, space, end, kernel, first);
}

/// Work items of some jobs: lines on a host, values on a device.
template <bool ByLines, class Jobs>
index_t items_of(const Jobs& jobs) {
  return ByLines ? jobs.chunk_count : jobs.cells;
}
/// The first of them, which need no message.
template <bool ByLines, class Jobs>
index_t local_items_of(const Jobs& jobs) {
  return ByLines ? jobs.local_chunks : jobs.local_cells;
}

template <bool ByLines, class Space>
void run_copies(const char* label, bool has_tool, const Space& space, const CopyJobs& copies,
                const Addresses& addresses, index_t first, index_t end) {
  run_jobs<ByLines>(label, has_tool, space, copies,
                    CopyKernel<ByLines>{table_of<ByLines>(copies, addresses)}, first, end);
}
template <bool ByLines, class Space>
void run_copies(const char* label, bool has_tool, const Space& space, const CopyJobs& copies,
                const Addresses& addresses) {
  run_copies<ByLines>(label, has_tool, space, copies, addresses, 0, items_of<ByLines>(copies));
}

template <bool ByLines, class Space>
void run_sums(const char* label, bool has_tool, const Space& space, const SumJobs& sums,
              const Addresses& addresses, index_t first, index_t end) {
  const auto table = table_of<ByLines>(sums, addresses);
  if constexpr (!ByLines)
    if (!sums.combine)
      return run_jobs<ByLines>(label, has_tool, space, sums, SumKernel<ByLines, false>{table},
                               first, end);
  run_jobs<ByLines>(label, has_tool, space, sums, SumKernel<ByLines>{table}, first, end);
}

template <class Space>
std::uint64_t run_checksum(const Space& space, const CopyJobs& copies, const Addresses& addresses) {
  std::uint64_t sum = 0;
  Kokkos::parallel_reduce("shard::checksum", range_policy<ChecksumKernel>(space, copies.cells),
                          ChecksumKernel{copies.table(addresses)}, sum);
  return sum;
}

}  // namespace shard::impl

#endif
