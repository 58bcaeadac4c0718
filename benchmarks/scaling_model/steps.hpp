// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SCALING_MODEL_STEPS_HPP
#define SHARD_BENCHMARKS_SCALING_MODEL_STEPS_HPP

#include <vector>

#include "machine.hpp"
#include "support/imagined_ranks.hpp"

namespace scaling {

/// What a rank does in a step, as imagined::stop_recording returns it.
using Recorded = std::vector<imagined::Part>;

/// Seconds of a step, by where they go.
struct StepTime {
  double compute = 0;  ///< of the slowest node, in each part
  double total   = 0;
};

/// The time of a step of which all ranks' parts are known (`ranks`, by rank), or those of one rank
/// that all others are like (`ranks` has one, that of rank `only`). Ranks of a node are numbered
/// one after the other.
///
/// A part ends on all ranks together: an exchange with neighbours is taken for one with all. In a
/// part the ranks of a node compute one after the other on its cores; then their messages leave by
/// the node's link, one after the other, as the LogGP model has it (Alexandrov et al. 1995). Of a
/// message that is longer than `eager_kB` nothing moves while the ranks of its node compute. The
/// link lets pass `burst_kB` at `far_GBs`, and then `node_GBs`, as a token bucket does. Collective
/// calls take the messages of their usual algorithms: recursive doubling for short sums and
/// gathers, a ring for long sums, direct messages for long gathers and for all-to-alls.
StepTime time_of_step(const std::vector<Recorded>& ranks, int all_ranks, const Machine& machine,
                      int only = 0);

}  // namespace scaling

#endif
