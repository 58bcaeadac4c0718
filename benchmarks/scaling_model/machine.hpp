// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SCALING_MODEL_MACHINE_HPP
#define SHARD_BENCHMARKS_SCALING_MODEL_MACHINE_HPP

#include <string>

#include "curve.hpp"

namespace scaling {

/// Of boxes: by how many fields have them, bytes of a run that lies in one piece, bytes from run to
/// run, bytes of all.
using BoxCurves = Family<Family<Family<Curve>>>;

/// What was measured of one node instead of being described by latencies and bandwidths. All in
/// microseconds.
struct Curves {
  /// Messages to and from another rank, packed already: by how many each way, bytes of each.
  Family<Curve> messages;
  /// Packing boxes of all messages and unpacking as many.
  BoxCurves boxes;
  /// The same of copies within a field; of copies straight out of the other rank's field; and of
  /// packing into memory that both see and unpacking from there.
  BoxCurves copies, direct, window;

  bool empty() const { return messages.empty(); }
};

/// What the model knows of a machine: read from a file of `key = value` lines, with the sources in
/// its comments, or measured (calibrate.hpp) and kept in such a file.
struct Machine {
  int ranks_per_node = 1;
  double far_latency_us =
      0;  ///< of a message to another node, from the rank's memory to the other's
  double near_latency_us = 0;  ///< of a message within the node
  double message_us      = 0;  ///< for each further message
  double node_GBs        = 0;  ///< out of a node, all its ranks together
  double near_GBs        = 0;  ///< of one rank to another of its node
  double memory_GBs      = 0;  ///< of one rank's memory, reads and writes together
  double kernel_us       = 0;  ///< from the launch of a kernel until it could be waited for
  double shared_us = 0;  ///< with curves: of an exchange over shared memory, beyond its copies
  double box_us    = 0;  ///< of each box of it beyond two, and beyond its copies
  Curves curves;         ///< where there are some, near and memory are not asked for; nor is far
};

/// Throws std::runtime_error for a file that isn't there, a key that isn't known or one that is
/// missing. Curves are points: `messages COUNT BYTES = US`, and `boxes FIELDS RUN PITCH BYTES =
/// US`, the same of `copies`, `direct` and `window`; with them only ranks_per_node, kernel_us,
/// shared_us and box_us are needed.
Machine read_machine(const std::string& file);
/// Writes what was measured: read_machine reads it.
void write_machine(const std::string& file, const Machine& machine);

}  // namespace scaling

#endif
