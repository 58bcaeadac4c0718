// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXCHANGE_IMPL_REINDEXED_HPP
#define SHARD_EXCHANGE_IMPL_REINDEXED_HPP

#include <Kokkos_Core.hpp>

#include "shard/base/error.hpp"
#include "shard/exchange/exchange.hpp"

namespace shard::impl {

/// A field on one side of a move between indices.
struct ReindexedSide {
  FieldArgs args;
  void* origin = nullptr;

  ReindexedSide() = default;
  template <class Field>
  explicit ReindexedSide(const Field& field)
      : args(field_args(field)),
        origin(const_cast<void*>(static_cast<const void*>(field.origin()))) {}
};

/// The most fields that move at once.
inline constexpr int max_reindexed = 4;

/// Begins to[f] = from[f] under other indices (see Reindexing), the same for all fields, or the
/// transpose, which adds to from[f]: one message for each peer. The fields must live until it is
/// finished. Collective where the plan has to be made.
template <class Memory, class Space>
Pending<Space> start_reindexed(const Space& space, Direction direction, const Reindexing* dims,
                               const ReindexedSide* to, const ReindexedSide* from, int count) {
  const int rank = to->args.geometry->rank;
  FieldArgs there[max_reindexed], here[max_reindexed];
  Reindexing all[max_reindexed * max_rank];
  void *writes[max_reindexed] = {}, *reads[max_reindexed] = {};
  const Geometry* geometries[max_reindexed] = {};
  for (int f = 0; f < count && f < max_reindexed; ++f) {
    there[f]      = to[f].args;
    here[f]       = from[f].args;
    writes[f]     = to[f].origin;
    reads[f]      = from[f].origin;
    geometries[f] = here[f].geometry;
    for (int d = 0; d < rank && d < max_rank; ++d) all[f * rank + d] = dims[d];
  }
  auto plan          = FieldPlan<Memory>::find_reindexed(there, here, count, all);
  const auto started = plan->start(space, {reads, writes, geometries}, direction);
  return Pending<Space>(plan, space, started);
}

/// Both halves at once.
template <class Memory, class Space>
void run_reindexed(const Space& space, Direction direction, const Reindexing* dims,
                   const ReindexedSide* to, const ReindexedSide* from, int count) {
  start_reindexed<Memory>(space, direction, dims, to, from, count).finish();
}

}  // namespace shard::impl

#endif
