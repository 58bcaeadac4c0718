// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_REDISTRIBUTE_MOVEMENT_PLAN_HPP
#define SHARD_SRC_REDISTRIBUTE_MOVEMENT_PLAN_HPP

#include <array>
#include <string>
#include <vector>

#include "../exchange/transfer.hpp"
#include "shard/redistribute/movement.hpp"

namespace shard::impl {

/// One side of a movement as all ranks know it.
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
      split{};  ///< axes that cut each rank's box further, along one dimension
  bool is_split = false;

  Placed(const Movement& movement, const MovementSide& side);
  /// What the rank at these coordinates owns.
  PieceBox box(const MeshState& mesh, int rank_of_mesh, const int* coordinates) const;
};

/// What this rank has to do: the steps of the first phase in rounds, so that the buffer is bounded,
/// then those of the second, which gathers what the first has combined. Field 0 is read from the
/// one side and written to the other, field 1 of the second phase is both read and written there.
struct MovementLayout {
  std::vector<TransferStep> steps;
  std::array<int, 2> rounds{};    ///< of each phase
  bool only_sends_whole = true;   ///< every message holds all that this rank owns
  bool gathers          = false;  ///< some axis cuts what is read and replicates what is written
  RedistributionReport report;

  /// Local. `told`: rounds for each phase, as many as are agreed about; 0: as many as this rank
  /// needs.
  MovementLayout(const Movement& movement, const std::array<int, 2>& told);
};

/// All that must be the same on every rank, in words.
std::string describe(const Movement& movement);
/// The key of its plan.
PlanKey key_of(const Movement& movement, bool on_host);

}  // namespace shard::impl

#endif
