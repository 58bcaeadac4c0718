// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_JOB_BUILDER_HPP
#define SHARD_SRC_EXCHANGE_JOB_BUILDER_HPP

#include <array>
#include <cstddef>
#include <vector>

#include "job_list.hpp"
#include "shard/exchange/impl/route.hpp"

namespace shard::impl {

/// Where a piece's elements are in memory.
struct Elements {
  int entry     = -1;                      ///< number of an entry of the address table; -1: none
  index_t first = 0;                       ///< bytes to the first element
  std::array<index_t, max_rank> stride{};  ///< bytes from element to element of the piece
};

using Strides = std::array<index_t, max_rank>;  // in values

/// Dimensions from the fastest in messages to the slowest.
inline int message_dim(const RouteField& field, int k) {
  return field.left ? k : field.rank - 1 - k;
}
index_t count_of(const RouteField& field, const Piece& piece);

/// A piece's elements in the field that is read, in the field that is written, and in a message,
/// where they are contiguous.
Elements source_elements(const RouteField& field, const Piece& piece, int entry,
                         const Strides& strides);
Elements target_elements(const RouteField& field, const Piece& piece, int entry,
                         const Strides& strides);
Elements packed_elements(const RouteField& field, const Piece& piece, int entry, index_t first);

/// Bytes that are contiguous on both sides.
std::size_t run_of(const RouteField& field, const Piece& piece, const Elements& from,
                   const Elements& to);

/// How a copy job differs from a plain copy.
struct CopyOptions {
  Elements direct{};      ///< read instead where this entry isn't null
  int unless    = -1;     ///< nothing is copied where this entry isn't null
  bool negative = false;  ///< the sign changes
  bool clear    = false;  ///< the source is set to zero
};
/// Appends the jobs that copy a piece.
void add_copy(const RouteField& field, const Piece& piece, const Elements& from, const Elements& to,
              CopyJobList& jobs, const CopyOptions& options = {});

/// Makes one job of many that copy boxes of equal extents and strides at different places, as those
/// of an index space are; leaves lists of few jobs as they are.
void list_equal_boxes(CopyJobList& jobs);

/// What the adjoint adds to a piece's source elements.
struct Summand {
  const Piece* piece = nullptr;
  Elements from;       ///< a message, or this rank's own halo
  Elements direct{};   ///< a halo that is read in place, and then zeroed, if its entry isn't null:
                       ///< the peer's, or for a local piece this rank's own
  bool local = false;  ///< this rank's own halo
};

/// Divides the elements that the summands cover into disjoint jobs, each with its summands in their
/// order. `to`: the entry of the field and its strides. Jobs whose summands are all local go to
/// `local`, which is done first. `reduction`: how they are combined, null where they are added.
void add_sums(const RouteField& field, std::vector<Summand> summands, int to,
              const Strides& strides, SumJobList& jobs, SumJobList& local,
              const Reduction* reduction = nullptr);

}  // namespace shard::impl

#endif
