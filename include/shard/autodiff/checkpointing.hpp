// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_AUTODIFF_CHECKPOINTING_HPP
#define SHARD_AUTODIFF_CHECKPOINTING_HPP

#include <mpi.h>

#include "shard/base/types.hpp"

namespace shard {

/// How much a loop on the tape may keep of its states. Either bound may be given; the tighter
/// holds. Two states in work and two adjoints come on top.
struct Checkpoints {
  index_t slots = 0;  ///< states, the first one included; 0: no bound
  index_t bytes = 0;  ///< of this rank, for the states; 0: no bound
};

namespace impl {

/// The number of ways to reverse: (s + r)! / (s! r!), the longest chain that s slots reverse with
/// no step advanced more than r times; held below 2^62.
index_t binomial_reach(index_t slots, index_t repeats);

/// The fewest steps that must be advanced to reverse `steps` steps with `slots` states (the first
/// one included), the steps that are reversed not counted: r l - reach(s + 1, r - 1).
index_t least_advances(index_t steps, index_t slots);

/// How far to advance from the first state of a chain of `steps` (two or more) before the next
/// state is stored, `slots` (two or more) being free or holding the first one.
index_t checkpoint_distance(index_t steps, index_t slots);

/// The slots that a bound allows for states of so many bytes: the same on every rank of `comm`
/// (MPI_COMM_NULL: of this rank), no more than there are steps. Throws ArgumentError, on every
/// rank, where not one state fits.
index_t allowed_slots(const Checkpoints& bound, index_t state_bytes, index_t steps, MPI_Comm comm);

}  // namespace impl
}  // namespace shard

#endif
