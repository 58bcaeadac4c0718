// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Choosing how a plan moves its values by trying.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "collected_sums.hpp"
#include "plan_channel.hpp"
#include "plan_phases.hpp"
#include "plan_trials.hpp"
#include "shard/base/error.hpp"
#include "shard/base/watchdog.hpp"

namespace shard::impl {

namespace {

constexpr std::size_t never = std::numeric_limits<std::size_t>::max();
/// Bytes in a piece from which the transpose is tried to take halos directly. Of single values two
/// ranks take the same lines of memory in turns, which some processors' caches make up for.
constexpr std::size_t taken[] = {16, 1, never};

/// What is tried: what the tuning that was asked for leaves open, the plainest first. \param shares
/// whether shared memory carries messages, \param beyond whether others carry some all the same.
std::vector<Tuning> candidates(const Tuning& asked, const std::vector<FieldSpec>& fields,
                               bool shares, bool beyond, bool nccl) {
  std::vector<Tuning> list;
  const auto add = [&](TransportKind transport, MessageLayout messages, std::size_t direct_run,
                       bool other_packing = false) {
    Tuning t         = asked;
    t.measured       = false;
    t.transport      = transport;
    t.messages       = messages;
    t.direct_run     = direct_run;
    t.staged_packing = asked.staged_packing != other_packing;
    if (!t.adjoint_direct_run) t.adjoint_direct_run = asked.direct_run;
    list.push_back(t);
  };
  std::vector<MessageLayout> others;  // than what was asked for, if that leaves them open
  if (asked.messages == MessageLayout::one_per_peer) {
    if (fields.size() > 1) others = {MessageLayout::one_per_field, MessageLayout::by_size};
    others.push_back(MessageLayout::one_per_box);
    if (!PhasedFields(fields).specs.empty()) others.push_back(MessageLayout::by_dimension);
  }
  const auto add_layouts = [&](TransportKind transport) {
    add(transport, asked.messages, asked.direct_run);
    for (const MessageLayout messages : others) add(transport, messages, asked.direct_run);
  };
  if (shares) {
    constexpr auto automatic = TransportKind::automatic;
    add(automatic, asked.messages, asked.direct_run);
    add(automatic, asked.messages, asked.direct_run, true);
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

/// Of each plan that was tried: a larger one where it packs long runs that the first one reads, or
/// asks for memory ahead and the first one doesn't.
template <class Plans>
std::vector<double> margins_of(const Plans& plans, Direction direction) {
  const auto packs = [&](const auto& plan) {
    const Tuning& t = plan->tuning();
    return (direction == Direction::forward ? t.direct_run : t.adjoint_direct_run) == never;
  };
  const auto asks = [&](const auto& plan) {
    return direction == Direction::adjoint && plan->tuning().adjoint_asks_ahead;
  };
  std::vector<double> margins;
  for (const auto& plan : plans)
    margins.push_back(packs(plan) && !packs(plans.front()) ? packing_margin
                      : asks(plan) && !asks(plans.front()) ? asking_margin
                                                           : usual_margin);
  return margins;
}

/// Whether trial runs of the transpose leave the owned cells of these fields as they are.
bool can_try_transpose(const std::vector<FieldSpec>& fields) {
  return std::none_of(fields.begin(), fields.end(), [](const FieldSpec& field) {
    return field.move || field.renewal || field.part != HaloPart::all ||
           field.kind == ValueKind::opaque || field.kind == ValueKind::boolean;
  });
}

}  // namespace

/// Forward first; then, of what won, the transpose, where it may go one way or the other.
template <class Memory>
std::shared_ptr<Plan<Memory>> Plan<Memory>::make_measured(MeshState& mesh,
                                                          const std::vector<FieldSpec>& fields,
                                                          const Tuning& wanted,
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
  std::vector<std::shared_ptr<Plan>> plans;
  plans.push_back(make(mesh, fields, candidates(asked, fields, shares != 0, false, nccl).front()));
  std::array<int, 2> any{};  // messages, and such that leave a node
  auto& [messages, beyond] = any;
  if (shares != 0) {
    for (const PeerMessage& message : plans.front()->channel_->sends) {
      messages = 1;
      if (!message.shared) beyond = 1;
    }
    const Watched watched(for_others);
    await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, any.data(), 2, MPI_INT, MPI_MAX,
              mesh.comm());
  }
  const std::vector<Tuning> list = candidates(asked, fields, shares != 0, beyond != 0, nccl);
  for (auto tried = list.begin() + 1; tried != list.end(); ++tried)
    plans.push_back(make(mesh, fields, *tried));
  const Trials<Memory> trials(mesh, fields, addresses);
  const auto seconds         = trials.seconds(plans, Direction::forward);
  std::shared_ptr<Plan> best = plans[best_of(seconds, margins_of(plans, Direction::forward))];
  std::vector<Tried> all;
  for (std::size_t i = 0; i < plans.size(); ++i)
    all.push_back({plans[i]->tuning(), Direction::forward, median(seconds[i])});

  Tuning chosen = best->tuning();
  const bool shared =
      shares != 0 && (chosen.transport == TransportKind::automatic || messages == 0);
  if (shared && !asked.adjoint_direct_run && can_try_transpose(fields)) {
    // what packs faster forward is likely to do so here, where it is a smaller part of the time
    if (chosen.staged_packing != asked.staged_packing) {
      chosen.adjoint_staged_packing = chosen.staged_packing;
      best                          = make(mesh, fields, chosen);
    }
    plans                    = {best};
    Tuning other             = chosen;
    other.adjoint_clear_last = !chosen.adjoint_clear_last;
    plans.push_back(make(mesh, fields, other));
    other = chosen;
    if (other.adjoint_collect < most_collected) {
      other.adjoint_collect = most_collected;
      plans.push_back(make(mesh, fields, other));
    }
    other = chosen;
    // one of the two is what was chosen; which, may differ from rank to rank
    for (const std::size_t hold : {std::size_t{0}, never}) {
      if (hold == chosen.adjoint_hold) continue;
      other.adjoint_hold = hold;
      plans.push_back(make(mesh, fields, other));
    }
    other                    = chosen;
    other.adjoint_asks_ahead = !chosen.adjoint_asks_ahead;
    plans.push_back(make(mesh, fields, other));
    other                        = chosen;
    other.adjoint_staged_packing = !chosen.adjoint_staged_packing;
    plans.push_back(make(mesh, fields, other));
    other = chosen;
    for (const std::size_t run : taken) {
      if (run == asked.direct_run) continue;
      other.adjoint_direct_run = run;
      plans.push_back(make(mesh, fields, other));
    }
    const auto adjoint = trials.seconds(plans, Direction::adjoint);
    for (std::size_t i = 0; i < plans.size(); ++i)
      all.push_back({plans[i]->tuning(), Direction::adjoint, median(adjoint[i])});
    best = plans[best_of(adjoint, margins_of(plans, Direction::adjoint))];
    trials.run(*best, Direction::forward);
  }
  best->tried_ = std::move(all);
  return best;
}

template <class Memory>
std::string Plan<Memory>::report() const {
  std::string text = to_text(tuning());
  for (const Tried& t : tried_)
    text += "\n  " + std::to_string(t.seconds * 1e6) + " us  " +
            (t.direction == Direction::adjoint ? "transpose  " : "") + to_text(t.tuning);
  return text;
}

using Host = Kokkos::HostSpace;
template std::shared_ptr<Plan<Host>> Plan<Host>::make_measured(MeshState&,
                                                               const std::vector<FieldSpec>&,
                                                               const Tuning&,
                                                               const FieldAddresses&);
template std::string Plan<Host>::report() const;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
using Device = Kokkos::DefaultExecutionSpace::memory_space;
template std::shared_ptr<Plan<Device>> Plan<Device>::make_measured(MeshState&,
                                                                   const std::vector<FieldSpec>&,
                                                                   const Tuning&,
                                                                   const FieldAddresses&);
template std::string Plan<Device>::report() const;
#endif

}  // namespace shard::impl
