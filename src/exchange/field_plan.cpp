// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Making a plan for fields, and what wraps it.
#include "shard/exchange/impl/field_plan.hpp"

#include <limits>
#include <string>
#include <utility>

#include "by_dimension.hpp"
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

  const auto strides = strides_of(fields);
  Tuning at_once     = tuning;
  std::vector<std::shared_ptr<Plan<Memory>>> forward;
  if (tuning.messages == MessageLayout::by_dimension) {
    const PhasedFields phased(fields);
    if (!phased.wrong().empty())
      log_once(mesh.comm(),
               "corners are sent at once and not dimension by dimension: " + phased.wrong());
    at_once.messages = MessageLayout::one_per_peer;
    Tuning of_phase  = at_once;
    for (int p = 0; p < phased.phases(); ++p) {
      // The last phase is finished with the exchange and may not wait until it was read: a
      // neighbour that starts another exchange first waits there for this rank.
      if (p + 1 == phased.phases()) of_phase.direct_run = std::numeric_limits<std::size_t>::max();
      forward.push_back(Plan<Memory>::make(mesh, phased.route(mesh, p), strides, of_phase,
                                           mesh.next_plan_number()));
    }
    if (forward.empty()) tuning = at_once;
  }
  const Route route = route_of(mesh, fields);
  std::shared_ptr<FieldPlan> plan(new FieldPlan(std::move(fields), tuning));
  plan->adjoint_ = Plan<Memory>::make(mesh, route, strides, at_once, number);
  if (forward.empty()) forward = {plan->adjoint_};
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
  const Route route  = route_of(adjoint_->channel().mesh, fields);
  const auto strides = strides_of(fields);
  std::shared_ptr<FieldPlan> plan(new FieldPlan(std::move(fields), tuning_));
  plan->adjoint_ = adjoint_->sibling(route, strides);
  plan->forward_ = {plan->adjoint_};
  return plan;
}

template <class Memory>
int FieldPlan<Memory>::sends() const {
  int count = 0;
  for (const auto& plan : forward_) count += static_cast<int>(plan->channel().sends.size());
  return count;
}

template <class Memory>
int FieldPlan<Memory>::receives() const {
  int count = 0;
  for (const auto& plan : forward_) count += static_cast<int>(plan->channel().receives.size());
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
  const auto of = [](const auto& plan) { return plan->table_bytes() + plan->channel().bytes(); };
  std::size_t bytes = forward_.size() > 1 ? of(adjoint_) : 0;
  for (const auto& plan : forward_) bytes += of(plan);
  return bytes;
}

template <class Memory>
bool FieldPlan<Memory>::may_end() {
  for (const auto& plan : forward_)
    if (!plan->channel().may_end()) return false;
  return adjoint_->channel().may_end();
}

template <class Memory>
std::optional<bool> FieldPlan<Memory>::wants_shared() const {
  if (!adjoint_->channel().pool) return std::nullopt;
  bool wants =
      adjoint_->read_directly(Direction::forward) || adjoint_->read_directly(Direction::adjoint);
  for (const auto& plan : forward_) wants = wants || plan->read_directly(Direction::forward);
  return wants;
}

template <class Memory>
template <class Space>
Flight FieldPlan<Memory>::start(const Space& space, const FieldAddresses& addresses,
                                Direction direction) {
  if (direction == Direction::adjoint) return adjoint_->start(space, addresses, direction);
  const PlanChannel<Memory>& channel = adjoint_->channel();
  std::string stale;
  if (channel.check) stale = stale_cell(space, fields_, addresses, channel.mesh.rank());
  for (std::size_t p = 0; p + 1 < forward_.size(); ++p)
    forward_[p]->finish(space, forward_[p]->start(space, addresses, direction));
  const Flight flight = forward_.back()->start(space, addresses, direction);
  if (channel.check) {
    const auto set = static_cast<std::size_t>(flight.set);
    if (stale_.size() <= set) stale_.resize(set + 1);
    stale_[set] = std::move(stale);
  }
  return flight;
}

template <class Memory>
template <class Space>
unsigned FieldPlan<Memory>::fill_local(const Space& space, const Flight& flight) {
  const unsigned sides = forward_.back()->fill_local(space, flight);
  // phases before the last are over; corners of the last go over sides of the others
  return forward_.size() == 1 || sides == 0 ? sides : all_sides;
}

template <class Memory>
template <class Space>
Progress FieldPlan<Memory>::advance(const Space& space, const Flight& flight) {
  const bool forward = flight.direction == Direction::forward;
  if (forward && forward_.size() > 1) return Progress::needs_finish;
  return adjoint_->advance(space, flight);
}

template <class Memory>
template <class Space>
void FieldPlan<Memory>::finish(const Space& space, const Flight& flight) {
  if (flight.direction == Direction::adjoint) return adjoint_->finish(space, flight);
  forward_.back()->finish(space, flight);
  const auto set = static_cast<std::size_t>(flight.set);
  if (set < stale_.size() && !stale_[set].empty())
    throw StaleHaloError(std::exchange(stale_[set], {}));
}

template class FieldPlan<Kokkos::HostSpace>;
#if defined(KOKKOS_ENABLE_SERIAL)
template Flight FieldPlan<Kokkos::HostSpace>::start(const Kokkos::Serial&, const FieldAddresses&,
                                                    Direction);
template void FieldPlan<Kokkos::HostSpace>::finish(const Kokkos::Serial&, const Flight&);
template unsigned FieldPlan<Kokkos::HostSpace>::fill_local(const Kokkos::Serial&, const Flight&);
template Progress FieldPlan<Kokkos::HostSpace>::advance(const Kokkos::Serial&, const Flight&);
#endif
#if defined(KOKKOS_ENABLE_OPENMP)
template Flight FieldPlan<Kokkos::HostSpace>::start(const Kokkos::OpenMP&, const FieldAddresses&,
                                                    Direction);
template void FieldPlan<Kokkos::HostSpace>::finish(const Kokkos::OpenMP&, const Flight&);
template unsigned FieldPlan<Kokkos::HostSpace>::fill_local(const Kokkos::OpenMP&, const Flight&);
template Progress FieldPlan<Kokkos::HostSpace>::advance(const Kokkos::OpenMP&, const Flight&);
#endif
#if defined(KOKKOS_ENABLE_THREADS)
template Flight FieldPlan<Kokkos::HostSpace>::start(const Kokkos::Threads&, const FieldAddresses&,
                                                    Direction);
template void FieldPlan<Kokkos::HostSpace>::finish(const Kokkos::Threads&, const Flight&);
template unsigned FieldPlan<Kokkos::HostSpace>::fill_local(const Kokkos::Threads&, const Flight&);
template Progress FieldPlan<Kokkos::HostSpace>::advance(const Kokkos::Threads&, const Flight&);
#endif
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
using DeviceSpace  = Kokkos::DefaultExecutionSpace;
using DeviceMemory = DeviceSpace::memory_space;
template class FieldPlan<DeviceMemory>;
template Flight FieldPlan<DeviceMemory>::start(const DeviceSpace&, const FieldAddresses&,
                                               Direction);
template void FieldPlan<DeviceMemory>::finish(const DeviceSpace&, const Flight&);
template unsigned FieldPlan<DeviceMemory>::fill_local(const DeviceSpace&, const Flight&);
template Progress FieldPlan<DeviceMemory>::advance(const DeviceSpace&, const Flight&);
#endif

}  // namespace shard::impl
