// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_COLLECTED_SUMS_HPP
#define SHARD_SRC_EXCHANGE_COLLECTED_SUMS_HPP

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstring>
#include <vector>

#include "shard/exchange/jobs.hpp"
#include "sum_kernel.hpp"

namespace shard::impl {

/// Copies values and sets their source to zero, each at once: reading goes on meanwhile.
struct TakePiece {
  std::byte *from, *to;
  index_t count;

  template <class T>
  KOKKOS_INLINE_FUNCTION void operator()() const {
    T* __restrict source = reinterpret_cast<T*>(from);
    T* __restrict target = reinterpret_cast<T*>(to);
    for (index_t n = 0; n < count; ++n) {
      target[n] = source[n];
      source[n] = T(0);
    }
  }
};

inline constexpr std::size_t most_collected = 16384;  // bytes

/// Sums of so few values that what peers have is copied away first, by one thread. Peers are told
/// sooner that it was read; and owned cells are fetched when nobody reads the halo beside them any
/// longer, for the core that does takes them along.
class CollectedSums {
 public:
  explicit CollectedSums(const JobTable<SumJob>& table) : table_(table) {}

  /// Whether all jobs lie in one piece, and peers have no more than `most` bytes of their sources.
  static bool can_be(const std::vector<SumJob>& jobs, const std::vector<SumSource>& sources,
                     std::size_t most) {
    index_t bytes = 0;
    for (const SumJob& job : jobs) {
      if (job.plain == 0) return false;
      for (int s = job.first_source; s < job.first_source + job.source_count; ++s)
        if (is_a_peers(sources[static_cast<std::size_t>(s)])) bytes += room(job);
    }
    return bytes > 0 && bytes <= static_cast<index_t>(std::min(most, sizeof(values_)));
  }

  /// Copies what peers have, and sets to zero what is read in its own place.
  void collect() {
    std::byte* to = values_;
    for (int j = 0; j < table_.job_count; ++j) {
      const SumJob& job = table_.jobs[j];
      for (int s = job.first_source; s < job.first_source + job.source_count; ++s) {
        const SumSource& source = table_.sources[s];
        if (!is_a_peers(source)) continue;
        const SummandPlace it(source, table_.addresses);
        if (it.direct && source.take)
          visit_addition(job.kind, TakePiece{it.from, to, job.plain});
        else
          std::memcpy(to, it.from, static_cast<std::size_t>(job.plain * job.value_size));
        to += room(job);
      }
    }
  }

  /// Adds it, and this rank's own sources, in the plan's order.
  void add() {
    std::byte* collected = values_;
    for (int j = 0; j < table_.job_count; ++j) {
      const SumJob& job = table_.jobs[j];
      std::byte* to     = table_.addresses[job.to].bytes + job.to_offset;
      for (int s = job.first_source; s < job.first_source + job.source_count; ++s) {
        const SumSource& source = table_.sources[s];
        const bool theirs       = is_a_peers(source);
        std::byte* from         = theirs ? collected : SummandPlace(source, table_.addresses).from;
        if (theirs) collected += room(job);
        visit_addition(job.kind, AddPiece{from, to, job.plain, source.negative, false, false});
      }
    }
  }

 private:
  static bool is_a_peers(const SumSource& source) { return source.direct >= 0 || source.remote; }

  /// Bytes for a source's values, so that those of the next are aligned for any type.
  static index_t room(const SumJob& job) {
    constexpr index_t alignment = 16;
    return (job.plain * job.value_size + alignment - 1) / alignment * alignment;
  }

  JobTable<SumJob> table_;
  alignas(64) std::byte values_[most_collected];
};

}  // namespace shard::impl

#endif
