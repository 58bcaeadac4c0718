// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_JOBS_HPP
#define SHARD_EXCHANGE_JOBS_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>

#include "shard/base/types.hpp"
#include "shard/exchange/value_kind.hpp"
#include "shard/view/geometry.hpp"

namespace shard::impl {

/// An entry of a plan's address table: a field's first owned cell or the start of a buffer.
struct Address {
  std::byte* bytes = nullptr;
};

/// A box that is copied, value by value: lines of extent[0] values, one line per combination of the
/// other indices. Extents and strides stand in the jobs' list of numbers from `first_number` on:
/// `dims` of each, in the order extents, from, to, direct (if there is one); strides in bytes.
struct CopyJob {
  index_t from_offset = 0, to_offset = 0, direct_offset = 0;  ///< bytes
  index_t first_cell = 0;                                     ///< cells of the jobs before this one
  index_t plain      = 0;  ///< bytes, if they lie in one piece on every side and keep their sign
  int from = 0, to = 0;    ///< entries of the address table
  int direct       = -1;   ///< entry of the peer's own field, read instead where it isn't null
  int unless       = -1;   ///< nothing is copied where this entry isn't null
  int first_number = 0;
  int value_size   = 0;
  std::int8_t dims = 0;
  ValueKind negate = ValueKind::opaque;  ///< values of this kind change their sign; opaque: they
                                         ///< are copied as they are
  bool clear  = false;                   ///< the source is set to zero
  bool staged = false;  ///< a peer reads `to` in its place: short runs go there by way of this
                        ///< core's cache
  bool rows = false;    ///< a few contiguous ones, of values of 4 or 8 bytes that keep their sign
                        ///< and go to no core's cache on the way; two dimensions
};

/// One summand of a SumJob: a box of a buffer, or of a peer's own field where that entry of the
/// address table isn't null. Numbers: strides, direct ones after them (if there are any).
struct SumSource {
  index_t offset = 0, direct_offset = 0;  ///< bytes
  int from = 0, direct = -1;
  int first_number  = 0;
  bool negative : 1 = false;  // bits, for a plan has many of these
  bool take : 1     = false;  ///< what is read directly is set to zero
  bool last : 1     = false;  ///< it is when all jobs have been added
  bool remote : 1   = false;  ///< the buffer is a peer's
  bool held : 1     = false;  ///< it is taken in pieces of some lines of memory, not line by line
  bool ahead : 1    = false;  ///< in one piece, its memory is asked for some lines ahead
  bool down : 1 = false;  ///< read directly, lines are read from their ends: the peer adds to the
                          ///< cells behind these at that time, and a core that reads upwards
                          ///< fetches beyond the end
};

/// A box of owned cells to which the same summands are added, each cell by one thread: its own
/// value first, then the sources in their order. Boxes are disjoint, or (`in_order`) one for each
/// source. Numbers: extents, strides.
struct SumJob {
  index_t to_offset  = 0;
  index_t first_cell = 0;
  index_t plain      = 0;  ///< values, if they lie in one piece on every side
  int to             = 0;
  int first_source = 0, source_count = 0;
  int first_number = 0;
  int value_size   = 0;
  std::int8_t dims = 0;
  ValueKind kind   = ValueKind::opaque;
  bool rows        = false;  ///< contiguous ones; two dimensions
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
  const SumSource* sources = nullptr;  ///< of sums
  const index_t* numbers   = nullptr;
  const Chunk* chunks      = nullptr;
  int job_count            = 0;
  index_t chunk_count = 0, cells = 0;
  index_t local_chunks = 0, local_cells = 0;  ///< the first of them, which need no message
  bool conditional = true;                    ///< all of them have an `unless`
  bool is_little   = true;                    ///< one thread finishes them faster than several
  bool clear_last  = false;  ///< accumulate jobs: some sources are zeroed after all additions
  bool pieces =
      false;  ///< each job is one work item, a whole piece; of sums, of singles or doubles alone
  bool in_order = false;  ///< of sums: cells are in several jobs, which one thread does in turn
  bool collects = false;  ///< of sums: peers' sources are copied away first, for they are few

  JobTable<Job> table(const Address* addresses) const {
    return {jobs, sources, numbers, chunks, addresses, job_count};
  }
};

using CopyJobs = Jobs<CopyJob>;
using SumJobs  = Jobs<SumJob>;

}  // namespace shard::impl

#endif
