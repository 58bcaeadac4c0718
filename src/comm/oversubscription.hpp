// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_COMM_OVERSUBSCRIPTION_HPP
#define SHARD_SRC_COMM_OVERSUBSCRIPTION_HPP

#include <mpi.h>

namespace shard::impl {

/// What the ranks of a communicator know of the machine that they are on.
struct NodeUse {
  int ranks    = 1;  ///< of the communicator
  int launched = 0;  ///< ranks here that the launcher speaks of, 0 where it is silent
  int cores    = 1;  ///< on which any of the communicator's ranks may run
  int given    = 0;  ///< cores that the launcher could deal out, 0 if it isn't known

  /// Whether some ranks have to share a core.
  bool is_oversubscribed() const;
};

/// Asks the launcher's variables and the kernel. Collective over `node`, ranks of one machine: the
/// same on each.
NodeUse use_of(MPI_Comm node);

}  // namespace shard::impl

#endif
