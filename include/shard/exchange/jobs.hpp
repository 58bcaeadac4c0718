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
/// other indices.
struct CopyJob {
  int from = 0, to = 0;                                          ///< entries of the address table
  index_t from_offset = 0, to_offset = 0;                        ///< bytes
  index_t from_stride[max_rank] = {}, to_stride[max_rank] = {};  ///< bytes
  index_t extent[max_rank] = {};
  int dims                 = 0;
  int value_size           = 0;
  ValueKind negate = ValueKind::opaque;  ///< values of this kind change their sign; opaque: they
                                         ///< are copied as they are
  bool clear    = false;                 ///< the source is set to zero
  index_t lines = 0, cells = 0;
  index_t first_line = 0, first_cell = 0;  ///< of the jobs before this one
};

/// One summand of a SumJob: a box of a buffer.
struct SumSource {
  int from                 = 0;
  index_t offset           = 0;  ///< bytes
  index_t stride[max_rank] = {};
  bool negative            = false;
};

/// A box of owned cells to which the same summands are added, each cell by one thread: its own
/// value first, then the sources in their order.
struct SumJob {
  int to                      = 0;
  index_t to_offset           = 0;
  index_t to_stride[max_rank] = {};
  index_t extent[max_rank]    = {};
  int dims                    = 0;
  ValueKind kind              = ValueKind::opaque;
  int first_source = 0, source_count = 0;
  index_t lines = 0, cells = 0;
  index_t first_line = 0, first_cell = 0;
};

/// Jobs in memory that kernels reach, with the size of the kernel's range by lines and by cells.
template <class Memory>
struct CopyJobs {
  Kokkos::View<const CopyJob*, Memory> jobs;
  index_t lines = 0, cells = 0;
};

template <class Memory>
struct SumJobs {
  Kokkos::View<const SumJob*, Memory> jobs;
  Kokkos::View<const SumSource*, Memory> sources;
  index_t lines = 0, cells = 0;
};

}  // namespace shard::impl

#endif
