// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_UPLOAD_HPP
#define SHARD_SRC_EXCHANGE_UPLOAD_HPP

#include <Kokkos_Core.hpp>

#include <string>
#include <type_traits>
#include <vector>

#include "job_builder.hpp"
#include "shard/exchange/jobs.hpp"

namespace shard::impl {

/// A list in memory that kernels reach.
template <class Memory, class Job>
Kokkos::View<const Job*, Memory> upload(const std::string& label, const std::vector<Job>& jobs) {
  const Kokkos::View<Job*, Memory> there(Kokkos::view_alloc(Kokkos::WithoutInitializing, label),
                                         jobs.size());
  Kokkos::deep_copy(
      there, Kokkos::View<const Job*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(
                 jobs.data(), jobs.size()));
  return there;
}

/// Jobs in memory that kernels reach.
template <class Memory, class Job>
Jobs<Job, Memory> finished(const std::string& label, const JobList<Job>& list) {
  Jobs<Job, Memory> done;
  done.jobs        = upload<Memory>(label, list.jobs);
  done.numbers     = upload<Memory>(label + " numbers", list.numbers);
  done.chunks      = upload<Memory>(label + " chunks", list.ordered_chunks());
  done.chunk_count = static_cast<index_t>(list.chunks.size());
  done.cells       = list.cells;
  done.is_little   = list.chunks.size() <= 1 || list.bytes <= little_work;
  if constexpr (std::is_same_v<Job, CopyJob>)
    for (const Job& job : list.jobs) done.conditional = done.conditional && job.unless >= 0;
  return done;
}

}  // namespace shard::impl

#endif
