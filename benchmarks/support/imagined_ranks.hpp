// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SUPPORT_IMAGINED_RANKS_HPP
#define SHARD_BENCHMARKS_SUPPORT_IMAGINED_RANKS_HPP

/// One process that believes itself rank R of N, so that plans for any rank of any number of ranks
/// can be made: MPI's calls are answered by this library for MPI_COMM_SELF and what is duplicated
/// from it. Persistent requests are null there. Nothing can be sent.
namespace imagined {

/// From here on MPI_COMM_SELF has `ranks` ranks, of which this is `rank`.
void begin(int ranks, int rank);
/// MPI_COMM_SELF is itself again.
void end();
/// Nanoseconds in MPI's calls that a plan makes, since the last call of this function.
double time_in_mpi();

}  // namespace imagined

#endif
