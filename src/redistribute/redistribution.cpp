// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Running redistributions.
#include "shard/redistribute/redistribution.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "redistribution_plan.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/environment_variable.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard::impl {

namespace {

template <class Memory>
struct RedistributionPlan : CachedPlan {
  RedistributionReport report;
  std::unique_ptr<TransferPlan<Memory>> transfer;

  RedistributionPlan() = default;
  ~RedistributionPlan() override {
  }  // NOLINT(modernize-use-equals-default): hipcc, as in plan_find.cpp
  std::size_t bytes() const override { return transfer->bytes(); }
};

/// The memory of both sides: field 0 is read from the source and written to the target; field 1 is
/// the target.
struct RedistributionFields {
  TransferField fields[max_transfer_fields];

  explicit RedistributionFields(const Redistribution& m) {
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
std::shared_ptr<RedistributionPlan<Memory>> make_plan(const Redistribution& redistribution) {
  MeshState& mesh         = *redistribution.mesh;
  std::string description = describe(redistribution), wrong;
  const Watched watched(
      {.what = "other ranks to plan a redistribution", .rank = mesh.rank(), .of = &description});
  index_t limit = 0;
  try {
    limit = message_limit();
    description += ", messages of at most " + text(limit) + " bytes";
  } catch (const ArgumentError& error) {
    description = wrong = error.what();
  }
  require_agreement(mesh.comm(), redistribution.function, description);
  if (!wrong.empty()) throw ArgumentError(wrong);

  RedistributionLayout layout(redistribution, {0, 0});
  int all[] = {layout.rounds[0], layout.rounds[1], layout.report.messages,
               layout.only_sends_whole ? 0 : 1};
  await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, all, 4, MPI_INT, MPI_MAX, mesh.comm());
  if (all[0] != layout.rounds[0] || all[1] != layout.rounds[1])
    layout = RedistributionLayout(redistribution, {all[0], all[1]});
  RedistributionKind& kind = layout.report.kind;
  if (all[2] == 0)
    kind = RedistributionKind::local;
  else if (kind == RedistributionKind::all_to_all && all[3] == 0 && layout.gathers)
    kind = RedistributionKind::all_gather;

  auto group = TransferGroup<Memory>::of(mesh);
  auto plan  = std::make_shared<RedistributionPlan<Memory>>();
  try {
    plan->report   = layout.report;
    plan->transfer = std::make_unique<TransferPlan<Memory>>(std::move(layout.steps), limit);
    plan->transfer->prepare(*group, RedistributionFields(redistribution).fields);
  } catch (const std::exception& error) {
    wrong = std::string("no memory for its messages: ") + error.what();
  }
  require_no_error(mesh.comm(), redistribution.function, wrong);
  return plan;
}

template <class Memory>
std::shared_ptr<RedistributionPlan<Memory>> find_plan(const Redistribution& redistribution) {
  constexpr bool on_host = std::is_same_v<Memory, Kokkos::HostSpace>;
  if (environment_flag("SHARD_CHECK"))
    require_agreement(redistribution.mesh->comm(), redistribution.function,
                      describe(redistribution));
  const PlanKey key = key_of(redistribution, on_host);
  auto plan = std::static_pointer_cast<RedistributionPlan<Memory>>(redistribution.mesh->find(key));
  if (!plan) {
    plan = make_plan<Memory>(redistribution);
    redistribution.mesh->keep(KeptKind::redistribution, key, plan);
  }
  return plan;
}

}  // namespace

template <class Space>
void Redistributions<Space>::run(const Space& space, const Redistribution& redistribution) {
  using Memory     = TransferMemory<Space>;
  const auto plan  = find_plan<Memory>(redistribution);
  const auto group = TransferGroup<Memory>::of(*redistribution.mesh);
  plan->transfer->run(space, *group, RedistributionFields(redistribution).fields);
}

template <class Space>
RedistributionReport Redistributions<Space>::report(const Redistribution& redistribution) {
  return find_plan<TransferMemory<Space>>(redistribution)->report;
}

#define SHARD_STRUCT(Memory, Space) template struct Redistributions<Space>;
SHARD_FOR_EACH_SPACE(SHARD_STRUCT)
#undef SHARD_STRUCT

}  // namespace shard::impl
