// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_REDISTRIBUTE_MOVEMENT_PLAN_HPP
#define SHARD_SRC_REDISTRIBUTE_MOVEMENT_PLAN_HPP

#include <array>
#include <string>
#include <vector>

#include "shard/redistribute/movement.hpp"

namespace shard::impl {

/// A box of global indices; empty if an extent is 0.
struct GlobalBox {
  std::array<index_t, max_rank> begin{}, extent{};

  index_t cells(int rank) const;
  friend bool operator==(const GlobalBox&, const GlobalBox&) = default;
};
GlobalBox intersection(const GlobalBox& a, const GlobalBox& b, int rank);

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
  GlobalBox box(const MeshState& mesh, int rank_of_mesh, const int* coordinates) const;
};

/// Part of a message: a box of cells, and where it stands in the buffer.
struct MovedBox {
  GlobalBox box;
  index_t offset = 0;
};
struct MovedMessage {
  int peer       = 0;
  index_t offset = 0, bytes = 0;
  int box = 0;  ///< the pack, or unpack, that is all of it; -1 if it is combined
};
/// A box of cells whose contributions are combined: `count` entries of the plan's list of offsets.
struct CombinedBox {
  GlobalBox box;
  index_t first = 0;
  int count     = 0;
};

/// Messages that are under way at the same time.
struct MovementRound {
  std::vector<MovedBox> packs, unpacks, locals;
  std::vector<MovedMessage> sends, receives;
  std::vector<CombinedBox> combines;
  index_t buffer = 0;
};

/// The first phase, or the second, which gathers what the first has combined.
struct MovementPhase {
  std::vector<MovementRound> rounds;
  bool within_target = false;  ///< it reads what was written before
};

/// What this rank has to do.
struct MovementLayout {
  std::vector<MovementPhase> phases;
  std::vector<index_t> offsets;  ///< of contributions in the buffer; -1 for this rank's own
  GlobalBox source, target;
  bool clears           = false;  ///< the target's cells are set to zero: it contributes nothing
  bool packs_left       = false;  ///< dimension 0 is the fastest in messages
  bool only_sends_whole = true;   ///< every message holds all that this rank owns
  bool gathers          = false;  ///< some axis cuts what is read and replicates what is written
  RedistributionReport report;

  /// Local. `rounds`: for each phase, as many as are agreed about; 0: as many as this rank needs.
  MovementLayout(const Movement& movement, const std::array<int, 2>& rounds);
};

/// All that must be the same on every rank, in words.
std::string describe(const Movement& movement);
/// The key of its plan.
PlanKey key_of(const Movement& movement, bool on_host);

}  // namespace shard::impl

#endif
