// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_UPLOAD_HPP
#define SHARD_SRC_EXCHANGE_UPLOAD_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <vector>

#include "job_list.hpp"
#include "shard/exchange/impl/jobs.hpp"

namespace shard::impl {

template <class T>
const T* table_at(const std::byte* tables, std::size_t place) {
  return reinterpret_cast<const T*>(tables + place);
}

/// The tables of a plan, one after the other in one allocation that kernels can access: a View for
/// each would take more memory than its contents.
class Tables {
 public:
  Tables() { bytes_.reserve(usual); }

  /// Appends a list. Returns its place: bytes from the beginning.
  template <class T>
  std::size_t add(const std::vector<T>& list) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignment);
    const std::size_t at = (bytes_.size() + alignment - 1) / alignment * alignment;
    bytes_.resize(at + list.size() * sizeof(T));
    if (!list.empty()) std::memcpy(bytes_.data() + at, list.data(), list.size() * sizeof(T));
    return at;
  }
  /// Appends the lists of some jobs. `jobs` are valid after `upload`, which must find them where
  /// they are now.
  template <class List, class Job>
  void add(const List& list, Jobs<Job>& jobs) {
    jobs.job_count   = static_cast<int>(list.jobs.size());
    jobs.chunk_count = static_cast<index_t>(list.chunks.size());
    jobs.cells       = list.cells;
    jobs.is_little   = list.chunks.size() <= 1 || list.bytes <= little_work;
    if constexpr (std::is_same_v<Job, CopyJob>)
      for (const Job& job : list.jobs) jobs.conditional = jobs.conditional && job.unless >= 0;
    else
      for (const Job& job : list.jobs) jobs.combine = jobs.combine || job.combines;
    const std::size_t of_jobs = add(list.jobs), numbers = add(list.numbers),
                      chunks = add(list.chunks);
    std::size_t sources      = 0;
    if constexpr (std::is_same_v<Job, SumJob>) sources = add(list.sources);
    set_.push_back([=, &jobs](const std::byte* tables) {
      jobs.jobs    = table_at<Job>(tables, of_jobs);
      jobs.numbers = table_at<index_t>(tables, numbers);
      jobs.chunks  = table_at<Chunk>(tables, chunks);
      jobs.sources = table_at<SumSource>(tables, sources);
    });
  }

  template <class Memory>
  Kokkos::View<const std::byte*, Memory> upload(const std::string& label) const {
    const Kokkos::View<std::byte*, Memory> there(
        Kokkos::view_alloc(Kokkos::WithoutInitializing, label), bytes_.size());
    Kokkos::deep_copy(
        there,
        Kokkos::View<const std::byte*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(
            bytes_.data(), bytes_.size()));
    for (const auto& set : set_) set(there.data());
    return there;
  }

 private:
  static constexpr std::size_t alignment = 16, usual = std::size_t{1} << 15U;  // bytes
  std::vector<std::byte> bytes_;
  std::vector<std::function<void(const std::byte*)>> set_;
};

}  // namespace shard::impl

#endif
