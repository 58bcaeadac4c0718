// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_COMM_SPIN_HPP
#define SHARD_SRC_COMM_SPIN_HPP

#include <mpi.h>

#include "shard/base/error.hpp"
#include "shard/base/impl/patience.hpp"
#include "shard/comm/impl/in_flight.hpp"

namespace shard::impl {

/// Waits until done() is true. It progresses other exchanges meanwhile, and MPI's messages in
/// `comm`: a neighbour may wait for messages that MPI progresses only inside calls of this rank.
template <class Done>
void spin(MPI_Comm comm, Patience patience, const Done& done) {
  constexpr int turns_between_calls = 64;
  for (int turn = 1; !done(); patience.turn()) {
    if (!patience.has_spun()) continue;
    InFlight::progress_all();
    int found = 0;
    if (patience.has_slept() || turn++ % turns_between_calls == 0)
      check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &found, MPI_STATUS_IGNORE),
                "MPI_Iprobe");
  }
}

}  // namespace shard::impl

#endif
