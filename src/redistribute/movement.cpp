// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Running movements.
#include "shard/redistribute/movement.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "movement_plan.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/environment_variable.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard::impl {

namespace {

template <class Memory>
struct MovementPlan : CachedPlan {
  RedistributionReport report;
  std::unique_ptr<TransferPlan<Memory>> transfer;

  MovementPlan() = default;
  ~MovementPlan() override {}  // NOLINT(modernize-use-equals-default): hipcc, as in plan_find.cpp
  std::size_t bytes() const override { return transfer->bytes(); }
};

/// The memory of both sides: field 0 is read from the source and written to the target; field 1 is
/// the target.
struct MovementFields {
  TransferField fields[max_transfer_fields];

  explicit MovementFields(const Movement& m) {
    TransferField &between = fields[0], &within = fields[1];
    between.read    = m.from.data;
    between.written = within.read = within.written = m.to.data;
    for (int d = 0; d < m.rank; ++d) {
      const auto i              = Geometry::at(d);
      between.read_stride[i]    = m.from.stride[i] / m.value_size;
      between.written_stride[i] = within.read_stride[i] = within.written_stride[i] =
          m.to.stride[i] / m.value_size;
    }
  }
};

/// Collective.
template <class Memory>
std::shared_ptr<MovementPlan<Memory>> make_plan(const Movement& movement) {
  MeshState& mesh         = *movement.mesh;
  std::string description = describe(movement), wrong;
  const Watched watched(
      {.what = "other ranks to plan a redistribution", .rank = mesh.rank(), .of = &description});
  index_t limit = 0;
  try {
    limit = message_limit();
    description += ", messages of at most " + text(limit) + " bytes";
  } catch (const ArgumentError& error) {
    description = wrong = error.what();
  }
  require_agreement(mesh.comm(), movement.function, description);
  if (!wrong.empty()) throw ArgumentError(wrong);

  MovementLayout layout(movement, {0, 0});
  int all[] = {layout.rounds[0], layout.rounds[1], layout.report.messages,
               layout.only_sends_whole ? 0 : 1};
  await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, all, 4, MPI_INT, MPI_MAX, mesh.comm());
  if (all[0] != layout.rounds[0] || all[1] != layout.rounds[1])
    layout = MovementLayout(movement, {all[0], all[1]});
  MovementKind& kind = layout.report.kind;
  if (all[2] == 0)
    kind = MovementKind::local;
  else if (kind == MovementKind::all_to_all && all[3] == 0 && layout.gathers)
    kind = MovementKind::all_gather;

  auto group = TransferGroup<Memory>::of(mesh);
  auto plan  = std::make_shared<MovementPlan<Memory>>();
  try {
    plan->report   = layout.report;
    plan->transfer = std::make_unique<TransferPlan<Memory>>(std::move(layout.steps), limit);
    plan->transfer->prepare(*group, MovementFields(movement).fields);
  } catch (const std::exception& error) {
    wrong = std::string("no memory for its messages: ") + error.what();
  }
  require_no_error(mesh.comm(), movement.function, wrong);
  return plan;
}

template <class Memory>
std::shared_ptr<MovementPlan<Memory>> find_plan(const Movement& movement) {
  constexpr bool on_host = std::is_same_v<Memory, Kokkos::HostSpace>;
  if (environment_flag("SHARD_CHECK"))
    require_agreement(movement.mesh->comm(), movement.function, describe(movement));
  const PlanKey key = key_of(movement, on_host);
  auto plan         = std::static_pointer_cast<MovementPlan<Memory>>(movement.mesh->find(key));
  if (!plan) {
    plan = make_plan<Memory>(movement);
    movement.mesh->keep(KeptKind::redistribution, key, plan);
  }
  return plan;
}

}  // namespace

template <class Space>
void Movements<Space>::run(const Space& space, const Movement& movement) {
  using Memory     = TransferMemory<Space>;
  const auto plan  = find_plan<Memory>(movement);
  const auto group = TransferGroup<Memory>::of(*movement.mesh);
  plan->transfer->run(space, *group, MovementFields(movement).fields);
}

template <class Space>
RedistributionReport Movements<Space>::report(const Movement& movement) {
  return find_plan<TransferMemory<Space>>(movement)->report;
}

#define SHARD_STRUCT(Memory, Space) template struct Movements<Space>;
SHARD_FOR_EACH_SPACE(SHARD_STRUCT)
#undef SHARD_STRUCT

}  // namespace shard::impl
