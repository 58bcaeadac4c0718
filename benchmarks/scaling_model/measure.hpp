// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SCALING_MODEL_MEASURE_HPP
#define SHARD_BENCHMARKS_SCALING_MODEL_MEASURE_HPP

#include <functional>
#include <vector>

#include "peers/problem.hpp"
#include "support/handshake.hpp"

namespace scaling {

struct Timed {
  std::function<void()> call, before;  ///< `before` isn't timed
};

/// Microseconds of a call of each function, by turn: the slowest rank's.
struct Measured {
  std::vector<std::vector<double>> turns;
  bool apart = false;  ///< turns in which the cores shared no cache, for there were few others
};

/// Collective. Each function is called `calls` times, in turns, while the ranks' cores are near
/// each other.
Measured measure(const std::vector<Timed>& functions, int calls, support::Handshake& handshake);

double median(std::vector<double> values);

/// What a model does before an exchange: writes the owned cells that neighbours read.
void write_edges(const peers::Problem& problem);

}  // namespace scaling

#endif
