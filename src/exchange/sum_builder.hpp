// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_SUM_BUILDER_HPP
#define SHARD_SRC_EXCHANGE_SUM_BUILDER_HPP

#include <vector>

#include "job_boxes.hpp"
#include "job_list.hpp"

namespace shard::impl {

/// A box of the field that is read, and the buffer or the peer's field that holds what is to be
/// added to it.
struct Contribution {
  const PlanBox* box = nullptr;
  BufferBox buffer;
  DirectBox direct;
  bool local = false;  ///< what stands in this rank's own halo
};

/// Cuts the cells that the contributions cover into disjoint jobs, each with its summands in the
/// order of `contributions`; for HaloPart::edges in that of their global indices. Lists that are
/// done in order have a job for each contribution instead, in the same order: fewer and longer
/// ones, with the same sums. Jobs whose summands are all this rank's own halo go to `local`, which
/// is done first.
void add_sums(const FieldSpec& spec, std::vector<Contribution> contributions, int from,
              SumJobList& jobs, SumJobList& local);

/// Has what is taken from neighbours' halos held in pieces if it is `most_held` bytes or less in
/// all, and what is taken from this rank's own likewise: that is for what lies in a core's near
/// caches, with what it is added to. 128^3 with four fields (1 MiB of halos) took 4 to 10 % longer
/// so, and 64^3 with eight, width 5 (2.5 MiB), a third. `asks_ahead`: whole pieces of neighbours'
/// halos are asked for ahead; 128^3 with four fields took 10 to 20 % longer so on a Zen 4, pieces
/// of 1.4 to 130 kB up to half as long again on a Zen 5.
void choose_order(SumJobList& jobs, std::size_t most_held, bool asks_ahead);

}  // namespace shard::impl

#endif
