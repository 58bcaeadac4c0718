// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_PLAN_CHOICE_HPP
#define SHARD_SRC_EXCHANGE_PLAN_CHOICE_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <vector>

namespace shard::impl {

/// A plan's seconds in each turn.
inline constexpr std::size_t trial_turns = 49;
using Seconds                            = std::array<double, trial_turns>;

inline double median(Seconds seconds) {
  std::nth_element(seconds.begin(), seconds.begin() + trial_turns / 2, seconds.end());
  return seconds[trial_turns / 2];
}

/// How much faster a plan must be to be chosen.
inline constexpr double usual_margin = 1.02;
/// The same for a plan that packs long runs which could be read in place: between trials its
/// buffers stay in the caches, from which a model's fields would evict them.
inline constexpr double packing_margin = 1.1;
/// Whether a plan is faster than another, and not by chance: its median is smaller by a margin, and
/// it wins two turns of three. Medians alone differ by more if the machine's speed changes.
inline bool is_faster(const Seconds& one, const Seconds& other, double margin) {
  std::size_t won = 0;
  for (std::size_t turn = 0; turn < trial_turns; ++turn) won += one[turn] < other[turn] ? 1 : 0;
  return 3 * won >= 2 * trial_turns && median(one) * margin < median(other);
}

/// The plan that no later one is faster than. Of equally fast plans it is the first, which is the
/// simplest. `margins`: of each plan; if empty, the usual margin.
inline std::size_t best_of(const std::vector<Seconds>& plans,
                           const std::vector<double>& margins = {}) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < plans.size(); ++i)
    if (is_faster(plans[i], plans[best], margins.empty() ? usual_margin : margins[i])) best = i;
  return best;
}

}  // namespace shard::impl

#endif
