// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_PLAN_PHASES_HPP
#define SHARD_SRC_EXCHANGE_PLAN_PHASES_HPP

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plan_channel.hpp"
#include "shard/base/error.hpp"
#include "shard/exchange/plan.hpp"
#include "shard/exchange/stale.hpp"

namespace shard::impl {

/// One dimension after the other: what of each field a phase exchanges.
///
/// A phase moves the halo along one dimension. Along dimensions of phases before it its boxes go
/// over the halo too, which is filled by then, so that corners travel in several hops; along those
/// still to come over the owned cells. So its peers stand where this rank does along all other
/// dimensions, but for folds, which turn a longitude too.
struct PhasedFields {
  /// By phase, then by field: what is exchanged, and where it begins, in bytes from the first owned
  /// cell. None where there is but one phase or no corner: the direct exchange is all that.
  std::vector<std::vector<FieldSpec>> specs;
  std::vector<std::vector<index_t>> shifts;
  /// Why these fields can't be exchanged so with the result of the direct exchange, if they can't.
  std::string wrong;

  explicit PhasedFields(const std::vector<FieldSpec>& fields);
};

/// The plans of the phases. They send messages of their own; the plan that has them serves the
/// transpose, whose sums have an order that the way of the messages must not change.
template <class Memory>
struct PlanPhases {
  std::vector<std::shared_ptr<Plan<Memory>>> plans;
  std::vector<std::vector<index_t>> shifts;
  std::vector<void*> places;       // of the fields of the phase that is started
  std::vector<std::string> stale;  // under SHARD_CHECK=1, by the last phase's sets: cells computed
                                   // from a halo that was out of date

  /// The sum of what count(plan) is for each phase.
  template <class Count>
  auto total(const Count& count) const {
    decltype(count(*plans.front())) sum = 0;
    for (const auto& plan : plans) sum += count(*plan);
    return sum;
  }

  /// Runs all phases but the last, and starts that.
  template <class Space>
  Flight start(const Space& space, const FieldAddresses& addresses) {
    Flight flight;
    for (std::size_t p = 0; p < plans.size(); ++p) {
      if (p > 0) plans[p - 1]->finish(space, flight);
      for (std::size_t f = 0; f < places.size(); ++f)
        places[f] = static_cast<std::byte*>(addresses.from[f]) + shifts[p][f];
      flight = plans[p]->start(space, {places.data(), places.data()}, Direction::forward);
    }
    return flight;
  }
};

template <class Memory>
template <class Space>
Flight Plan<Memory>::start_phases(const Space& space, const FieldAddresses& addresses) {
  std::string stale;
  if (channel_->check) stale = stale_cell(space, fields_, addresses, channel_->mesh.rank());
  const Flight flight = phases_->start(space, addresses);
  if (!stale.empty()) {
    const auto set = static_cast<std::size_t>(flight.set);
    if (phases_->stale.size() <= set) phases_->stale.resize(set + 1);
    phases_->stale[set] = std::move(stale);
  }
  return flight;
}

template <class Memory>
template <class Space>
void Plan<Memory>::finish_phases(const Space& space, const Flight& flight) {
  phases_->plans.back()->finish(space, flight);
  const auto set = static_cast<std::size_t>(flight.set);
  if (set < phases_->stale.size() && !phases_->stale[set].empty())
    throw StaleHaloError(std::exchange(phases_->stale[set], {}));
}

}  // namespace shard::impl

#endif
