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

/// An entry of a plan's address table: a field's first owned cell or the start of a buffer.
struct Address {
  std::byte* bytes = nullptr;
};

/// A box that is copied, value by value: lines of extent[0] values, one line per combination of the
/// other indices. Extents and strides are in the jobs' list of numbers from `first_number` on:
/// `dims` of each, in the order extents, from, to, direct (if there is one); strides in bytes.
struct CopyJob {
  index_t from_offset = 0, to_offset = 0, direct_offset = 0;  ///< bytes
  index_t first_cell = 0;                                     ///< cells of the jobs before this one
  int from = 0, to = 0;                                       ///< entries of the address table
  int direct       = -1;  ///< entry of the peer's own field, read instead where it isn't null
  int unless       = -1;  ///< nothing is copied where this entry isn't null
  int first_number = 0;
  int value_size   = 0;
  std::int8_t dims = 0;
  ValueKind negate = ValueKind::opaque;  ///< values of this kind change their sign; opaque: they
                                         ///< are copied as they are
  bool clear   = false;                  ///< the source is set to zero
  bool streams = false;                  ///< by non-temporal stores
};

/// One summand of a SumJob: a box of a buffer, or of a peer's own field where that entry of the
/// address table isn't null. Numbers: strides, direct ones after them (if there are any).
struct SumSource {
  index_t offset = 0, direct_offset = 0;  ///< bytes
  int from = 0, direct = -1;
  int first_number = 0;
  bool negative    = false;
  bool clear       = false;  ///< what is read directly is set to zero
};

/// How contributions become one value, where that is more than adding them to what is there.
struct Reduction {
  ReductionKind op = ReductionKind::sum;
  bool adds        = true;  ///< the value that is there comes first; else it is overwritten
  double scale     = 1;     ///< of the result

  friend bool operator==(const Reduction&, const Reduction&) = default;
};

/// A box of owned cells to which the same summands are added, each cell by one thread: its own
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

/// Jobs as kernels take them: without owning them, so that a launch counts no references. A work
/// item is a chunk on a host, a cell on a device.
template <class Job>
struct JobTable {
  const Job* jobs          = nullptr;
  const SumSource* sources = nullptr;
  const index_t* numbers   = nullptr;
  const Chunk* chunks      = nullptr;
  const Address* addresses = nullptr;
  int job_count            = 0;
};

/// Jobs in memory that kernels reach, which their plan owns.
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
  bool is_little   = true;                    ///< one thread finishes them faster than several

  JobTable<Job> table(const Address* addresses) const {
    return {jobs, sources, numbers, chunks, addresses, job_count};
  }
};

using CopyJobs = Jobs<CopyJob>;
using SumJobs  = Jobs<SumJob>;

}  // namespace shard::impl

#endif
