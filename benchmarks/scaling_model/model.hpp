// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SCALING_MODEL_MODEL_HPP
#define SHARD_BENCHMARKS_SCALING_MODEL_MODEL_HPP

#include <array>
#include <cstdint>

#include "machine.hpp"
#include "shard/exchange/tuning.hpp"

namespace scaling {

using Triple = std::array<int, 3>;

/// A time loop over a periodic box of up to three dimensions: a stencil over some fields, then
/// their halos. A field of fewer dimensions has leading ones of one cell and no halo; a dimension
/// that isn't cut has one rank, and is its own neighbour where it has a halo.
struct Problem {
  Triple cells{};  ///< of one rank
  Triple mesh{};   ///< ranks along each dimension
  int fields = 1;
  Triple width{1, 1, 1};  ///< of the halo that one stencil needs
  int value_bytes        = 8;
  double rate            = 1e9;  ///< cells that one rank updates in a second, all fields of them
  int steps_per_exchange = 1;  ///< deep halos: one exchange of so many widths, cells updated again
  shard::MessageLayout messages = shard::MessageLayout::one_per_peer;  ///< not by_dimension
  bool faces                    = false;                               ///< no corners
  Triple tile{1, 1,
              1};     ///< ranks of a node along each dimension; 1 1 1: nodes as ranks are numbered
  bool left = false;  ///< dimension 0 is the fastest in memory, else the last
};

/// What one rank sends in an exchange: from its plan's boxes.
struct Traffic {
  int near_messages = 0, far_messages = 0;  ///< within the node, to other nodes
  double near_bytes = 0, far_bytes = 0;
};

/// Seconds of one step on the slowest of the ranks looked at.
struct Times {
  double compute    = 0;  ///< the stencil
  double pack       = 0;  ///< and unpack
  double messages   = 0;
  double step       = 0;  ///< one after the other
  double overlapped = 0;  ///< the interior while messages fly
  double hidden     = 0;  ///< share of the messages' time that the interior hides
  Traffic traffic;        ///< of that rank
};

/// Of the rank at this place; no field is allocated.
Traffic traffic_of(const Problem& problem, const Machine& machine, int rank);

/// The slowest of ranks spread over the mesh:
///   messages = max over {near, far} of latency + (messages - 1) message_us + bytes / bandwidth,
/// far bandwidth being this rank's share of its node's (LogGP, Alexandrov et al. 1995, with the
/// node as the bottleneck), pack and unpack a kernel and twice the bytes through memory.
Times predict(const Problem& problem, const Machine& machine);

/// Weak scaling: a step on one node over a step on all.
double weak_efficiency(const Problem& problem, const Machine& machine, const Triple& one_node,
                       bool overlap);

}  // namespace scaling

#endif
