// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_COMM_OVERSUBSCRIPTION_HPP
#define SHARD_SRC_COMM_OVERSUBSCRIPTION_HPP

#include <mpi.h>

namespace shard::impl {

/// The use of a machine by the ranks of a communicator.
struct NodeUse {
  int ranks    = 1;  ///< of the communicator
  int launched = 0;  ///< ranks on this machine according to the launcher, 0 if unknown
  int cores    = 1;  ///< cores on which any of the communicator's ranks may run
  int given    = 0;  ///< cores available to the launcher, 0 if unknown
  int threads  = 1;  ///< of all the communicator's ranks

  /// Whether some ranks, or their threads, have to share a core.
  bool is_oversubscribed() const;
};

/// Reads the launcher's variables and asks the kernel. `threads` are those that this rank's kernels
/// run on. Collective over `node`, the ranks of one machine; the same result on each.
NodeUse use_of(MPI_Comm node, int threads = 1);

/// Whether the environment says how OpenMP's threads wait.
bool has_wait_policy();

}  // namespace shard::impl

#endif
