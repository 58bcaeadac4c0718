// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_UPLOAD_HPP
#define SHARD_SRC_EXCHANGE_UPLOAD_HPP

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "job_list.hpp"
#include "shard/exchange/impl/jobs.hpp"

namespace shard::impl {

/// The tables of a plan, one after the other in one piece of memory that kernels reach: a View for
/// each would take more memory than what is in it.
class Tables {
 public:
  Tables() { bytes_.reserve(usual); }

  /// Where a list will stand: bytes from the beginning.
  template <class T>
  std::size_t add(const std::vector<T>& list) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignment);
    const std::size_t at = (bytes_.size() + alignment - 1) / alignment * alignment;
    bytes_.resize(at + list.size() * sizeof(T));
    if (!list.empty()) std::memcpy(bytes_.data() + at, list.data(), list.size() * sizeof(T));
    return at;
  }

  /// Where the lists of some jobs will stand.
  struct JobPlaces {
    std::size_t jobs = 0, numbers = 0, chunks = 0, sources = 0;
  };
  template <class Job>
  JobPlaces add(const JobList<Job>& list) {
    return {add(list.jobs), add(list.numbers), add(list.chunks), 0};
  }
  JobPlaces add(const SumJobList& list) {
    JobPlaces places = add(static_cast<const JobList<SumJob>&>(list));
    places.sources   = add(list.sources);
    return places;
  }

  template <class Memory>
  Kokkos::View<const std::byte*, Memory> upload(const std::string& label) const {
    const Kokkos::View<std::byte*, Memory> there(
        Kokkos::view_alloc(Kokkos::WithoutInitializing, label), bytes_.size());
    Kokkos::deep_copy(
        there,
        Kokkos::View<const std::byte*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(
            bytes_.data(), bytes_.size()));
    return there;
  }

 private:
  static constexpr std::size_t alignment = 16, usual = std::size_t{1} << 15U;  // bytes
  std::vector<std::byte> bytes_;
};

template <class T>
const T* table_at(const std::byte* tables, std::size_t place) {
  return reinterpret_cast<const T*>(tables + place);
}

/// Jobs whose lists stand in these tables.
template <class List>
auto jobs_at(const std::byte* tables, const Tables::JobPlaces& places, const List& list) {
  using Job = typename List::Job;
  Jobs<Job> done;
  done.jobs        = table_at<Job>(tables, places.jobs);
  done.numbers     = table_at<index_t>(tables, places.numbers);
  done.chunks      = table_at<Chunk>(tables, places.chunks);
  done.sources     = table_at<SumSource>(tables, places.sources);
  done.job_count   = static_cast<int>(list.jobs.size());
  done.chunk_count = static_cast<index_t>(list.chunks.size());
  done.cells       = list.cells;
  done.is_little   = list.chunks.size() <= 1 || list.bytes <= little_work;
  if constexpr (std::is_same_v<Job, CopyJob>)
    for (const Job& job : list.jobs) done.conditional = done.conditional && job.unless >= 0;
  return done;
}

}  // namespace shard::impl

#endif
