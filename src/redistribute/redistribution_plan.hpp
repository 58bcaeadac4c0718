// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_REDISTRIBUTE_REDISTRIBUTION_PLAN_HPP
#define SHARD_SRC_REDISTRIBUTE_REDISTRIBUTION_PLAN_HPP

#include <array>
#include <string>
#include <vector>

#include "../exchange/transfer.hpp"
#include "shard/redistribute/redistribution.hpp"

namespace shard::impl {

/// The source or the target of a redistribution, the same on all ranks.
struct Placed {
  enum class Role : std::uint8_t { replicated, cut, partial };

  bool array = false;  ///< one rank has all of it
  int root   = 0;
  int rank   = 0;
  std::array<Partition, max_rank> partition;
  std::array<std::array<int, max_axes>, max_rank> axes{};
  std::array<int, max_rank> axis_count{};
  std::array<Role, max_axes> role{};  ///< by mesh axis
  ReductionKind reduction = ReductionKind::sum;
  std::array<bool, max_axes>
      split{};  ///< axes that divide each rank's box further, along one dimension
  bool is_split = false;

  Placed(const Redistribution& redistribution, const RedistributionSide& side);
  /// What the rank at these coordinates owns.
  PieceBox box(const MeshState& mesh, int rank_of_mesh, const int* coordinates) const;
};

/// The steps of this rank: the rounds of the first phase, which bound the buffer, then those of the
/// second, which gathers the values that the first has combined. Field 0 is read from the source
/// and written to the target. Field 1, of the second phase, is read and written in the target.
struct RedistributionLayout {
  std::vector<TransferStep> steps;
  std::array<int, 2> rounds{};    ///< of each phase
  bool only_sends_whole = true;   ///< every message has all elements that this rank owns
  bool gathers          = false;  ///< some axis shards the source and replicates the target
  RedistributionReport report;

  /// Local. `agreed`: the rounds of each phase, as the ranks agreed; 0: as many as this rank needs.
  RedistributionLayout(const Redistribution& redistribution, const std::array<int, 2>& agreed);
};

/// Everything that must be the same on every rank, as text.
std::string describe(const Redistribution& redistribution);
/// The key of its plan.
PlanKey key_of(const Redistribution& redistribution, bool on_host);

}  // namespace shard::impl

#endif
