// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_IMPL_JOBS_HPP
#define SHARD_EXCHANGE_IMPL_JOBS_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>

#include "shard/base/types.hpp"
#include "shard/exchange/impl/value_kind.hpp"
#include "shard/view/impl/geometry.hpp"
#include "shard/view/partial.hpp"

namespace shard::impl {

/// An entry of a plan's address table: a field's first owned point or the start of a buffer.
struct Address {
  std::byte* bytes = nullptr;
};

/// A box that is copied, value by value: lines of extent[0] values, one line per combination of the
/// other indices. Extents and strides are in the jobs' list of numbers from `first_number` on:
/// `dims` of each, in the order extents, from, to, direct (if there is one); strides in bytes.
/// `listed`: equal boxes at any places. The slowest dimension counts them, and its strides are the
/// positions, from `first_number` on, of lists of their offsets in bytes.
struct CopyJob {
  index_t from_offset = 0, to_offset = 0, direct_offset = 0;  ///< bytes
  index_t first_cell = 0;  ///< points of the jobs before this one
  int from = 0, to = 0;    ///< entries of the address table
  int direct       = -1;   ///< entry of the peer's own field, read instead where it isn't null
  int unless       = -1;   ///< nothing is copied where this entry isn't null
  int first_number = 0;
  int value_size   = 0;
  std::int8_t dims = 0;
  ValueKind negate = ValueKind::opaque;  ///< values of this kind change their sign; opaque: they
                                         ///< are copied as they are
  bool clear   = false;                  ///< the source is set to zero
  bool streams = false;                  ///< by non-temporal stores
  bool listed  = false;                  ///< the slowest dimension is a list of places
};

/// One summand of a SumJob: a box of a buffer, or of a field that is read in place if its entry of
/// the address table isn't null. Numbers: strides, direct ones after them (if there are any).
struct SumSource {
  index_t offset = 0, direct_offset = 0;  ///< bytes
  int from = 0, direct = -1;
  int first_number = 0;
  bool negative    = false;
  bool clear       = false;  ///< zeroes the source after a direct read
};

/// How several contributions become one value.
struct Reduction {
  ReductionKind op = ReductionKind::sum;
  bool adds        = true;  ///< the present value comes first; else it is overwritten
  double scale     = 1;     ///< of the result

  friend bool operator==(const Reduction&, const Reduction&) = default;
};

/// A box of owned points to which the same summands are added, each point by one thread: its own
/// value first, then the sources in their order. Boxes are disjoint. Numbers: extents, strides.
struct SumJob {
  index_t to_offset  = 0;
  index_t first_cell = 0;
  int to             = 0;
  int first_source = 0, source_count = 0;
  int first_number = 0;
  int value_size   = 0;
  std::int8_t dims = 0;
  ValueKind kind   = ValueKind::opaque;
  bool combines    = false;  ///< by `reduction`, in 32 bits where values have fewer; else by adding
  Reduction reduction{};
};

/// A work item on a host: some lines of a job.
struct Chunk {
  index_t first_line = 0;
  int lines = 0, job = 0;
};

/// The address table as kernels take it: in memory, or, where a device's is short, in the kernel's
/// own arguments, where a captured graph keeps it.
struct Addresses {
  static constexpr int most = 16;  ///< entries in the arguments
  const Address* memory     = nullptr;
  Address entries[most];

  KOKKOS_INLINE_FUNCTION const Address& operator[](int entry) const {
    return memory != nullptr ? memory[entry] : entries[entry];
  }
};

/// Non-owning lists of jobs, for kernels, so that a launch counts no references. A work item is a
/// chunk on a host, a point on a device. `Entries`: the address table, or a pointer to its entries,
/// since a copy of a table that was just filled waits until all of it is stored.
template <class Job, class Entries = Addresses>
struct JobTable {
  const Job* jobs          = nullptr;
  const SumSource* sources = nullptr;
  const index_t* numbers   = nullptr;
  const Chunk* chunks      = nullptr;
  int job_count            = 0;
  Entries addresses{};
};

/// Jobs in memory that kernels can access, owned by their plan.
template <class Job>
struct Jobs {
  const Job* jobs          = nullptr;
  const SumSource* sources = nullptr;
  const index_t* numbers   = nullptr;
  const Chunk* chunks      = nullptr;
  int job_count            = 0;
  index_t chunk_count = 0, cells = 0;
  index_t local_chunks = 0, local_cells = 0;  ///< the first of them, which need no message
  bool conditional = true;                    ///< all of them have an `unless`
  bool combine     = false;                   ///< some of them combine by a reduction
  bool is_little   = true;                    ///< small: one thread is faster than several

  template <class Entries>
  JobTable<Job, Entries> table(const Entries& addresses) const {
    return {jobs, sources, numbers, chunks, job_count, addresses};
  }
};

using CopyJobs = Jobs<CopyJob>;
using SumJobs  = Jobs<SumJob>;

}  // namespace shard::impl

#endif
