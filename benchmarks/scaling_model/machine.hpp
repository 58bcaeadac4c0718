// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SCALING_MODEL_MACHINE_HPP
#define SHARD_BENCHMARKS_SCALING_MODEL_MACHINE_HPP

#include <string>

namespace scaling {

/// What the model knows of a machine: read from a file of `key = value` lines, with the sources in
/// its comments.
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
  // these may be missing in a file
  int cores_per_node = 0;  ///< 0: one for each rank; with fewer, ranks share them
  double far_GBs  = 0;  ///< of the first burst_kB out of a node, whose rate is limited; 0: node_GBs
  double burst_kB = 0;
  double eager_kB = 0;  ///< a longer message to another node moves only while both ranks are in
                        ///< MPI, after a request and an answer; 0: none
  double long_GBs = 0;  ///< the rate of such messages that follow one another; 0: node_GBs
  double quiet_us = 0;  ///< after a pause of so long a long message leaves at node_GBs, too
};

/// Throws std::runtime_error for a file that isn't there, a key that isn't known or one that is
/// missing.
Machine read_machine(const std::string& file);

}  // namespace scaling

#endif
