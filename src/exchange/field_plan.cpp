// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans for fields: agreement of the ranks, messages by dimension, stale halos.
#include "shard/exchange/impl/field_plan.hpp"

#include <limits>
#include <string>
#include <utility>

#include "by_dimension.hpp"
#include "for_each_space.hpp"
#include "plan.hpp"
#include "shard/base/impl/environment_variable.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/log.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/view/region.hpp"

namespace shard::impl {

namespace {

std::vector<FieldStrides> strides_of(const std::vector<FieldSpec>& fields) {
  std::vector<FieldStrides> strides;
  for (const FieldSpec& spec : fields) strides.push_back({spec.from_stride, spec.to_stride});
  return strides;
}

}  // namespace

template <class Memory>
std::shared_ptr<FieldPlan<Memory>> FieldPlan<Memory>::make(MeshState& mesh,
                                                           std::vector<FieldSpec> fields,
                                                           const Tuning& wanted) {
  Tuning tuning = wanted;
  const std::string wrong_variable =
      take_from_environment(tuning.transport, !std::is_same_v<Memory, Kokkos::HostSpace>);
  std::string description =
      to_text(tuning) + (environment_flag("SHARD_CHECK") ? ", checked" : ", not checked");
  if (!wrong_variable.empty()) description += ", " + wrong_variable;
  description += "; " + describe(fields);
  const std::uint32_t number = mesh.next_plan_number();
  const Watched watched({.what     = "the agreement about a new plan",
                         .rank     = mesh.rank(),
                         .plan     = number,
                         .sequence = 0,
                         .of       = &description,
                         .times    = false});
  require_agreement(mesh.comm(), "Exchange", description);
  if (!wrong_variable.empty()) throw_argument("Exchange", {wrong_variable});
  if (std::is_same_v<Memory, Kokkos::HostSpace> && tuning.transport == TransportKind::nccl)
    throw_argument("Exchange",
                   {"NCCL is requested, but field \"", fields.front().label,
                    "\" is in host memory; NCCL needs device memory: request automatic"});

  const auto strides = strides_of(fields);
  Tuning at_once     = tuning;
  std::vector<std::shared_ptr<Plan<Memory>>> forward;
  if (tuning.messages == MessageLayout::by_dimension) {
    const PhasedFields phased(fields);
    if (!phased.wrong().empty())
      log_once(mesh.comm(),
               "corners are sent directly, not dimension by dimension: " + phased.wrong());
    at_once.messages = MessageLayout::one_per_peer;
    Tuning of_phase  = at_once;
    for (int p = 0; p < phased.phases(); ++p) {
      // The last phase finishes with the exchange, so it must not wait until neighbours have read
      // fields in place: a neighbour may start another exchange first, and wait there for this
      // rank.
      if (p + 1 == phased.phases()) of_phase.direct_run = std::numeric_limits<std::size_t>::max();
      forward.push_back(Plan<Memory>::make(mesh, phased.route(mesh, p), strides, of_phase,
                                           mesh.next_plan_number()));
    }
    if (forward.empty()) tuning = at_once;
  }
  const Route route = route_of(mesh, fields);
  std::shared_ptr<FieldPlan> plan(new FieldPlan(std::move(fields), tuning));
  plan->at_once_ = Plan<Memory>::make(mesh, route, strides, at_once, number);
  if (forward.empty()) forward = {plan->at_once_};
  plan->forward_ = std::move(forward);
  return plan;
}

template <class Memory>
FieldPlan<Memory>::FieldPlan(std::vector<FieldSpec> fields, const Tuning& tuning)
    : fields_(std::move(fields)), tuning_(tuning) {}

template <class Memory>
FieldPlan<Memory>::~FieldPlan() {}  // NOLINT(modernize-use-equals-default)

template <class Memory>
std::shared_ptr<FieldPlan<Memory>> FieldPlan<Memory>::sibling(std::vector<FieldSpec> fields) const {
  const Route route  = route_of(at_once_->messages().mesh, fields);
  const auto strides = strides_of(fields);
  std::shared_ptr<FieldPlan> plan(new FieldPlan(std::move(fields), tuning_));
  plan->at_once_ = at_once_->sibling(route, strides);
  plan->forward_ = {plan->at_once_};
  return plan;
}

template <class Memory>
int FieldPlan<Memory>::sends() const {
  int count = 0;
  for (const auto& plan : forward_) count += static_cast<int>(plan->messages().sends.size());
  return count;
}

template <class Memory>
int FieldPlan<Memory>::receives() const {
  int count = 0;
  for (const auto& plan : forward_) count += static_cast<int>(plan->messages().receives.size());
  return count;
}

template <class Memory>
std::size_t FieldPlan<Memory>::bytes_sent() const {
  std::size_t bytes = 0;
  for (const auto& plan : forward_) bytes += plan->bytes_sent();
  return bytes;
}

template <class Memory>
std::size_t FieldPlan<Memory>::bytes() const {
  const auto of = [](const auto& plan) { return plan->table_bytes() + plan->messages().bytes(); };
  std::size_t bytes = forward_.size() > 1 ? of(at_once_) : 0;
  for (const auto& plan : forward_) bytes += of(plan);
  return bytes;
}

template <class Memory>
bool FieldPlan<Memory>::may_end() {
  for (const auto& plan : forward_)
    if (!plan->messages().may_end()) return false;
  return at_once_->messages().may_end();
}

template <class Memory>
std::optional<bool> FieldPlan<Memory>::wants_shared() const {
  if (!at_once_->messages().has_mapped()) return std::nullopt;
  bool wants =
      at_once_->read_directly(Direction::forward) || at_once_->read_directly(Direction::adjoint);
  for (const auto& plan : forward_) wants = wants || plan->read_directly(Direction::forward);
  return wants;
}

template <class Memory>
template <class Space>
StartedExchange FieldPlan<Memory>::start(const Space& space, const FieldAddresses& addresses,
                                         Direction direction) {
  if (direction == Direction::adjoint) return at_once_->start(space, addresses, direction);
  const PlanMessages<Memory>& messages = at_once_->messages();
  std::string stale;
  if (messages.check) stale = stale_cell(space, fields_, addresses, messages.mesh.rank());
  for (std::size_t p = 0; p + 1 < forward_.size(); ++p)
    forward_[p]->finish(space, forward_[p]->start(space, addresses, direction));
  const StartedExchange started = forward_.back()->start(space, addresses, direction);
  if (messages.check) {
    const auto set = static_cast<std::size_t>(started.set);
    if (stale_.size() <= set) stale_.resize(set + 1);
    stale_[set] = std::move(stale);
  }
  return started;
}

template <class Memory>
template <class Space>
unsigned FieldPlan<Memory>::fill_local(const Space& space, const StartedExchange& started) {
  const unsigned sides = forward_.back()->fill_local(space, started);
  // earlier phases are complete; corners of the last phase cross sides of the others
  return forward_.size() == 1 || sides == 0 ? sides : all_sides;
}

template <class Memory>
template <class Space>
Progress FieldPlan<Memory>::advance(const Space& space, const StartedExchange& started) {
  const bool forward = started.direction == Direction::forward;
  return (forward ? forward_.back() : at_once_)->advance(space, started);
}

template <class Memory>
template <class Space>
void FieldPlan<Memory>::finish(const Space& space, const StartedExchange& started) {
  if (started.direction == Direction::adjoint) return at_once_->finish(space, started);
  forward_.back()->finish(space, started);
  const auto set = static_cast<std::size_t>(started.set);
  if (set < stale_.size() && !stale_[set].empty())
    throw StaleHaloError(std::exchange(stale_[set], {}));
}

#define SHARD_PLAN(Memory) template class FieldPlan<Memory>;
SHARD_FOR_EACH_MEMORY(SHARD_PLAN)
#undef SHARD_PLAN
#define SHARD_PLAN(Memory, Space)                                                        \
  template StartedExchange FieldPlan<Memory>::start(const Space&, const FieldAddresses&, \
                                                    Direction);                          \
  template unsigned FieldPlan<Memory>::fill_local(const Space&, const StartedExchange&); \
  template Progress FieldPlan<Memory>::advance(const Space&, const StartedExchange&);    \
  template void FieldPlan<Memory>::finish(const Space&, const StartedExchange&);
SHARD_FOR_EACH_SPACE(SHARD_PLAN)
#undef SHARD_PLAN

}  // namespace shard::impl
