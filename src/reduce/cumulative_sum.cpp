// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/reduce/cumulative_sum.hpp"

#include <cstddef>
#include <memory>
#include <utility>

#include "../exchange/segments.hpp"
#include "../exchange/transfer.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard::impl {

template <class Space>
ChainMessages<Space>::ChainMessages(const ChainPlace& place)
    : place_(place), group_(TransferGroup<TransferMemory<Space>>::of(*place.mesh)) {}

template <class Space>
void ChainMessages<Space>::run(const Space& space, void* values, index_t count, bool sends) const {
  using Memory   = TransferMemory<Space>;
  const int peer = sends ? place_.after : place_.before;
  if (peer < 0 || count == 0) return;
  auto* const group       = static_cast<TransferGroup<Memory>*>(group_.get());
  const index_t numbers[] = {count, peer, sends ? 1 : 0};
  PlanKey key             = PlanKey::of(KeyKind::chain);
  key.mix(numbers, sizeof(numbers));
  auto plan = group->find(key);
  if (!plan) {
    RouteField field;
    field.value_size = 8;
    field.rank       = 1;
    BoxRoute route(field);
    PieceBox box;
    box.extent[0] = count;
    if (sends)
      route.send(peer, box);
    else
      route.receive(peer, box);
    plan = std::make_shared<TransferPlan<Memory>>(one_step(std::move(route)), message_limit());
    group->keep(*place_.mesh, key, plan);
  }
  auto* const bytes = static_cast<std::byte*>(values);
  TransferField field{bytes, bytes, {}, {}};
  field.read_stride[0] = field.written_stride[0] = 1;
  const Watched watched(
      {.what = "sums of the ranks before, for a cumulative sum", .rank = place_.mesh->rank()});
  plan->run(space, *group, &field);
}

ChainPlace chain_place(const char* function, const Geometry& field, int dim, bool reverse) {
  if (dim < 0 || dim >= field.rank)
    throw_argument(function, {"there is no dimension ", text(dim), "; \"", field.label, "\" has ",
                              text(field.rank)});
  ChainPlace place{field.mesh.get()};
  const DimGeometry& own = field.dims[Geometry::at(dim)];
  const auto next        = [&](int step) {
    for (int c = own.coordinate + step; c >= 0 && c < own.partition.parts(); c += step)
      if (own.partition.count(c) > 0)
        return rank_of(*field.mesh, field, [&](int d) {
          return d == dim ? c : field.dims[Geometry::at(d)].coordinate;
        });
    return -1;
  };
  place.before = next(reverse ? 1 : -1);
  place.after  = next(reverse ? -1 : 1);
  return place;
}

template <class Space>
void ChainMessages<Space>::receive(const Space& space, void* values, index_t count) const {
  run(space, values, count, false);
}
template <class Space>
void ChainMessages<Space>::send(const Space& space, void* values, index_t count) const {
  run(space, values, count, true);
}

#define SHARD_STRUCT(Memory, Space) template class ChainMessages<Space>;
SHARD_FOR_EACH_SPACE(SHARD_STRUCT)
#undef SHARD_STRUCT

}  // namespace shard::impl
