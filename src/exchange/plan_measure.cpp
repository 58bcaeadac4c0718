// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Choosing how a plan moves its values by trying.
#include <mpi.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "by_dimension.hpp"
#include "plan.hpp"
#include "plan_trials.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard::impl {

namespace {

constexpr std::size_t never = std::numeric_limits<std::size_t>::max();
/// What is tried: what the tuning that was asked for leaves open, the plainest first. \param shares
/// whether shared memory carries messages, \param beyond whether others carry some all the same.
std::vector<Tuning> candidates(const Tuning& asked, const std::vector<FieldSpec>& fields,
                               bool shares, bool beyond, bool nccl) {
  std::vector<Tuning> list;
  const auto add = [&](TransportKind transport, MessageLayout messages, std::size_t direct_run) {
    Tuning t     = asked;
    t.measured   = false;
    t.transport  = transport;
    t.messages   = messages;
    t.direct_run = direct_run;
    list.push_back(t);
  };
  std::vector<MessageLayout> others;  // than what was asked for, if that leaves them open
  if (asked.messages == MessageLayout::one_per_peer) {
    if (fields.size() > 1) others = {MessageLayout::one_per_field, MessageLayout::by_size};
    others.push_back(MessageLayout::one_per_box);
    if (PhasedFields(fields).phases() > 0) others.push_back(MessageLayout::by_dimension);
  }
  const auto add_layouts = [&](TransportKind transport) {
    add(transport, asked.messages, asked.direct_run);
    for (const MessageLayout messages : others) add(transport, messages, asked.direct_run);
  };
  if (shares) {
    constexpr auto automatic = TransportKind::automatic;
    add(automatic, asked.messages, asked.direct_run);
    add(automatic, asked.messages, 1);
    add(automatic, asked.messages, never);
    // within shared memory the other layouts are all the same
    for (const MessageLayout messages : others)
      if (beyond || messages == MessageLayout::by_dimension)
        add(automatic, messages, asked.direct_run);
  }
  if (nccl) add_layouts(TransportKind::nccl);
  add_layouts(shares || nccl ? TransportKind::mpi : asked.transport);
  return list;
}

/// A larger margin for a plan that packs long runs which the first one reads in place.
template <class Plans>
std::vector<double> margins_of(const Plans& plans) {
  const auto packs = [](const auto& plan) { return plan->tuning().direct_run == never; };
  std::vector<double> margins;
  for (const auto& plan : plans)
    margins.push_back(packs(plan) && !packs(plans.front()) ? packing_margin : usual_margin);
  return margins;
}

}  // namespace

template <class Memory>
std::shared_ptr<FieldPlan<Memory>> FieldPlan<Memory>::make_measured(
    MeshState& mesh, const std::vector<FieldSpec>& fields, const Tuning& wanted,
    const FieldAddresses& addresses) {
  constexpr bool device   = !std::is_same_v<Memory, Kokkos::HostSpace>;
  Tuning asked            = wanted;
  const std::string wrong = take_from_environment(asked.transport, device);
  int shares              = 0;
  bool nccl               = false;
  const std::string names = names_of(fields);
  const Wait for_others{.what = "other ranks to try plans", .rank = mesh.rank(), .of = &names};
  {
    const Watched watched(for_others);
    require_agreement(mesh.comm(), "Exchange",
                      to_text(asked) + wrong);  // before asking what there is
    if (!wrong.empty()) throw_argument("Exchange", {wrong});
    if (asked.transport == TransportKind::automatic) {
      if constexpr (!device) {
        shares = SharedPool::of(mesh)->usable() ? 1 : 0;
        await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, &shares, 1, MPI_INT, MPI_MAX,
                  mesh.comm());
      } else {
        nccl = DeviceCarriers::choose(mesh, device_kind_of<Memory>, asked).group != nullptr;
      }
    }
  }
  // making the first checks the fields on all ranks, and shows which messages leave a node
  std::vector<std::shared_ptr<FieldPlan>> plans;
  plans.push_back(make(mesh, fields, candidates(asked, fields, shares != 0, false, nccl).front()));
  int beyond = 0;
  if (shares != 0) {
    for (const PeerMessage& message : plans.front()->adjoint_->channel().sends)
      if (!message.shared) beyond = 1;
    const Watched watched(for_others);
    await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, &beyond, 1, MPI_INT, MPI_MAX,
              mesh.comm());
  }
  const std::vector<Tuning> list = candidates(asked, fields, shares != 0, beyond != 0, nccl);
  for (auto tried = list.begin() + 1; tried != list.end(); ++tried)
    plans.push_back(make(mesh, fields, *tried));
  const auto seconds              = Trials<Memory>(mesh, fields, names, addresses).seconds(plans);
  std::shared_ptr<FieldPlan> best = plans[best_of(seconds, margins_of(plans))];
  for (std::size_t i = 0; i < plans.size(); ++i)
    best->tried_.push_back({plans[i]->tuning(), median(seconds[i])});
  return best;
}

template <class Memory>
std::string FieldPlan<Memory>::report() const {
  std::string text = to_text(tuning());
  for (const Tried& t : tried_)
    text += "\n  " + std::to_string(t.seconds * 1e6) + " us  " + to_text(t.tuning);
  return text;
}

using Host = Kokkos::HostSpace;
template std::shared_ptr<FieldPlan<Host>> FieldPlan<Host>::make_measured(
    MeshState&, const std::vector<FieldSpec>&, const Tuning&, const FieldAddresses&);
template std::string FieldPlan<Host>::report() const;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
using Device = Kokkos::DefaultExecutionSpace::memory_space;
template std::shared_ptr<FieldPlan<Device>> FieldPlan<Device>::make_measured(
    MeshState&, const std::vector<FieldSpec>&, const Tuning&, const FieldAddresses&);
template std::string FieldPlan<Device>::report() const;
#endif

}  // namespace shard::impl
