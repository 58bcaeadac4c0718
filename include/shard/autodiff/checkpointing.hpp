// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_AUTODIFF_CHECKPOINTING_HPP
#define SHARD_AUTODIFF_CHECKPOINTING_HPP

#include <mpi.h>

#include "shard/base/types.hpp"

namespace shard {

/// Limits on the stored states of a loop on the tape; the tighter one applies. Two working states
/// and two adjoints need additional memory.
struct Checkpoints {
  index_t slots = 0;  ///< states, the first one included; 0: no bound
  index_t bytes = 0;  ///< of this rank, for the states; 0: no bound
};

namespace impl {

/// (s + r)! / (s! r!): the longest chain that s slots can reverse with no step advanced more than r
/// times; clamped below 2^62.
index_t binomial_reach(index_t slots, index_t repeats);

/// The smallest number of advanced steps to reverse `steps` steps with `slots` states (the first
/// one included), without the reversed steps: r l - reach(s + 1, r - 1).
index_t least_advances(index_t steps, index_t slots);

/// How far to advance from the first state of a chain of `steps` (two or more) before the next
/// state is stored, `slots` (two or more) being free or having the first one.
index_t checkpoint_distance(index_t steps, index_t slots);

/// The number of slots for states of `state_bytes` bytes, at most `steps`, the same on every rank
/// of `comm` (MPI_COMM_NULL: local). Throws on every rank: AgreementError if `steps` differs among
/// them, ArgumentError if it is negative or not even one state fits.
index_t allowed_slots(const Checkpoints& bound, index_t state_bytes, index_t steps, MPI_Comm comm);

}  // namespace impl
}  // namespace shard

#endif
