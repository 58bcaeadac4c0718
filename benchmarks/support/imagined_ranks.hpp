// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_BENCHMARKS_SUPPORT_IMAGINED_RANKS_HPP
#define SHARD_BENCHMARKS_SUPPORT_IMAGINED_RANKS_HPP

#include <cstdint>
#include <vector>

/// One process that believes itself rank R of N, so that plans for any rank of any number of ranks
/// can be made: MPI's calls are answered by this library for MPI_COMM_SELF and what is duplicated
/// from it. Nothing is sent.
///
/// With a mesh's shape programs can run, too: messages to other ranks go nowhere, zeros are
/// received, and in a gather or an all-to-all the others say what this rank says. So a rank
/// does its own computation, and what it would send can be recorded.
namespace imagined {

/// From here on MPI_COMM_SELF has `ranks` ranks, of which this is `rank`. `mesh`: the shape of the
/// meshes that are made; without it persistent requests are null and nothing can be started.
void begin(int ranks, int rank, std::vector<int> mesh = {});
/// MPI_COMM_SELF is itself again.
void end();
/// Nanoseconds in MPI's calls that a plan makes, since the last call of this function.
double time_in_mpi();

/// What a rank gives to MPI before it waits.
enum class Kind : std::uint8_t { nothing, messages, sum, gather, all_to_all };
struct Message {
  int peer     = 0;  ///< a rank of the world where ranks are imagined, else of the communicator
  double bytes = 0;
};
struct Part {
  double seconds = 0;  ///< of computation before it, copies into and out of messages included
  Kind kind      = Kind::nothing;  ///< nothing: the end of the step
  std::vector<Message> sends{};    ///< of messages
  double bytes = 0;                ///< of a collective call: what one rank gives to one other
  int ranks    = 0;                ///< of a collective call
};

/// Records the calls of this rank, imagined or not, until stop_recording. Messages of plans that
/// were made before are recorded as well.
void start_recording();
std::vector<Part> stop_recording();

}  // namespace imagined

#endif
