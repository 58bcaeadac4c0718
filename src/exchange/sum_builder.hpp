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
/// order of `contributions`; for HaloPart::edges in that of their global indices. Jobs whose
/// summands are all this rank's own halo go to `local`, which is done first.
void add_sums(const FieldSpec& spec, std::vector<Contribution> contributions, int from,
              SumJobList& jobs, SumJobList& local);

}  // namespace shard::impl

#endif
