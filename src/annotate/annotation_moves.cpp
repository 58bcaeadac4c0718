// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <exception>
#include <memory>
#include <vector>

#include "../exchange/transfer.hpp"
#include "shard/annotate/impl/annotation.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard::impl {

namespace {

PieceBox box_of(const DeviceShard& shard) {
  PieceBox box;
  for (std::size_t d = 0; d < shard.begin.size(); ++d) {
    box.begin[d]  = shard.begin[d];
    box.extent[d] = shard.end[d] - shard.begin[d];
  }
  return box;
}

/// A box of global indices as a shard counts them.
PieceBox inside(PieceBox box, const DeviceShard& shard) {
  for (std::size_t d = 0; d < shard.begin.size(); ++d) box.begin[d] -= shard.begin[d];
  return box;
}

RouteField described(const CellType& cell) {
  RouteField field;
  field.value_size = cell.value_size;
  field.rank       = cell.rank;
  field.left       = cell.first_is_fast;
  return field;
}

TransferField between(const CellType& cell, const PlainView& to, const PlainView& from) {
  TransferField field{from.data, to.data, {}, {}};
  for (int d = 0; d < cell.rank; ++d) {
    const auto i            = Geometry::at(d);
    field.read_stride[i]    = from.stride[i] / cell.value_size;
    field.written_stride[i] = to.stride[i] / cell.value_size;
  }
  return field;
}

}  // namespace

template <class Space>
void AnnotationMoves<Space>::copy(const Space& space, const CellType& cell, const PlainView& to,
                                  const PlainView& from) {
  using Memory = TransferMemory<Space>;
  BoxRoute route(described(cell));
  route.keep({{}, to.extent}, {{}, to.extent});
  const TransferField field = between(cell, to, from);
  TransferGroup<Memory> here;
  TransferPlan<Memory>(one_step(std::move(route)), 1).run(space, here, &field);
}

template <class Space>
void AnnotationMoves<Space>::move(const Space& space, const char* function, const CellType& cell,
                                  const DeviceMesh& mesh, const ShardLayout& want,
                                  const PlainView& to, const ShardLayout& have,
                                  const PlainView& from, std::string wrong) {
  using Memory              = TransferMemory<Space>;
  const int me              = mesh.rank();
  const OpSharding& holders = have.sharding();
  const DeviceShard mine = have.shard(me), wanted = want.shard(me);
  const std::vector<int> my_tile = holders.tile_of(me);
  const auto common              = [&](const DeviceShard& a, const DeviceShard& b) {
    return intersection(box_of(a), box_of(b), cell.rank);
  };

  // Who has a cell takes it from itself, else from one of those that have it, by turns.
  BoxRoute route(described(cell));
  const PieceBox own = common(mine, wanted);
  route.keep(inside(own, mine), inside(own, wanted));
  if (!holders.replicated())
    for (int rank = 0; rank < mesh.size(); ++rank) {
      if (holders.tile_of(rank) == my_tile) continue;
      if (rank % holders.replicas() == mine.replica_id)
        route.send(rank, inside(common(mine, want.shard(rank)), mine));
      if (me % holders.replicas() == holders.replica_id(rank))
        route.receive(rank, inside(common(have.shard(rank), wanted), wanted));
    }

  const Watched watched({.what = "the cells of an annotated tensor", .rank = me});
  const auto group          = TransferGroup<Memory>::of(*mesh.state());
  const TransferField field = between(cell, to, from);
  std::unique_ptr<TransferPlan<Memory>> plan;
  try {
    plan = std::make_unique<TransferPlan<Memory>>(one_step(std::move(route)), message_limit());
    plan->prepare(*group, &field);
  } catch (const std::exception& error) {
    if (wrong.empty()) wrong = error.what();
  }
  require_no_error(mesh.communicator(), function, wrong);
  plan->run(space, *group, &field);
}

#define SHARD_STRUCT(Memory, Space) template struct AnnotationMoves<Space>;
SHARD_FOR_EACH_SPACE(SHARD_STRUCT)
#undef SHARD_STRUCT

}  // namespace shard::impl
