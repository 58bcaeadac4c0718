// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses a plan's tuning by measuring candidates.
#include <mpi.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../comm/host_channel.hpp"
#include "../comm/mpi_channel.hpp"
#include "by_dimension.hpp"
#include "for_each_space.hpp"
#include "plan.hpp"
#include "plan_trials.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard::impl {

namespace {

constexpr std::size_t never = std::numeric_limits<std::size_t>::max();
/// What the messages of a plan use on some rank.
struct Usage {
  bool mapped = false, others = false;  ///< channels of mapped memory, other channels
  bool only_mpi = true;                 ///< no other channel was opened
  bool any_long = false;                ///< messages that MPI sends in several steps
  bool in_parts = false;                ///< long messages to other hosts go in parts by default
  bool may_join = false;                ///< messages are short, and hosts have several ranks
};

/// Candidates: what the requested tuning leaves open, the simplest first. `usage`: of the plan of
/// the first.
std::vector<Tuning> candidates(const Tuning& asked, const std::vector<FieldSpec>& fields,
                               const Usage& usage) {
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
  add(asked.transport, asked.messages, asked.direct_run);
  if (usage.mapped)
    for (const std::size_t run : {std::size_t{1}, never}) add(asked.transport, asked.messages, run);
  // within mapped memory the other layouts are all the same
  for (const MessageLayout messages : others)
    if (usage.others || !usage.mapped || messages == MessageLayout::by_dimension)
      add(asked.transport, messages, asked.direct_run);
  if (usage.may_join && asked.messages == MessageLayout::one_per_peer)
    add(asked.transport, MessageLayout::one_per_host, asked.direct_run);
  if (usage.any_long && asked.message_part == 0) {
    add(asked.transport, asked.messages, asked.direct_run);
    list.back().message_part = usage.in_parts ? no_parts : eager_part;
  }
  if (asked.transport != TransportKind::automatic || usage.only_mpi) return list;
  add(TransportKind::mpi, asked.messages, asked.direct_run);
  for (const MessageLayout messages : others) add(TransportKind::mpi, messages, asked.direct_run);
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
  const std::string names = names_of(fields);
  const Wait for_others{.what = "other ranks to try plans", .rank = mesh.rank(), .of = &names};
  {
    const Watched watched(for_others);
    require_agreement(mesh.comm(), "Exchange", to_text(asked) + wrong);
    if (!wrong.empty()) throw_argument("Exchange", {wrong});
  }
  // making the first checks the fields on all ranks, and shows which channels carry messages
  std::vector<std::shared_ptr<FieldPlan>> plans;
  plans.push_back(make(mesh, fields, candidates(asked, fields, {}).front()));
  const PlanMessages<Memory>& first = plans.front()->at_once_->messages();
  int uses[5]                       = {};
  for (const PeerMessage& m : first.sends) {
    uses[m.mapped ? 0 : 1] = 1;
    if (!m.mapped && m.bytes > longest_joined) uses[4] = 1;
  }
  uses[3] = first.has_long ? 1 : 0;
  for (const auto& channel : first.channels)
    if (std::string_view(channel->name) != name_of(TransportKind::mpi)) uses[2] = 1;
  {
    const Watched watched(for_others);
    await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, uses, 5, MPI_INT, MPI_MAX, mesh.comm());
  }
  const Usage usage{.mapped   = uses[0] != 0,
                    .others   = uses[1] != 0,
                    .only_mpi = uses[2] == 0,
                    .any_long = uses[3] != 0,
                    .in_parts = uses[3] != 0 && sends_in_parts(mesh),
                    .may_join = !device && asked.transport == TransportKind::automatic &&
                                uses[1] != 0 && uses[4] == 0 && may_join_hosts(mesh)};
  const std::vector<Tuning> list = candidates(asked, fields, usage);
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

#define SHARD_MEASURE(Memory)                                                           \
  template std::shared_ptr<FieldPlan<Memory>> FieldPlan<Memory>::make_measured(         \
      MeshState&, const std::vector<FieldSpec>&, const Tuning&, const FieldAddresses&); \
  template std::string FieldPlan<Memory>::report() const;
SHARD_FOR_EACH_MEMORY(SHARD_MEASURE)
#undef SHARD_MEASURE

}  // namespace shard::impl
