// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDISTRIBUTE_MOVEMENT_HPP
#define SHARD_REDISTRIBUTE_MOVEMENT_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "shard/base/types.hpp"
#include "shard/exchange/impl/value_kind.hpp"
#include "shard/view/impl/geometry.hpp"
#include "shard/view/partial.hpp"

namespace shard {

/// What a redistribution is, as collectives are called.
enum class MovementKind : std::uint8_t {
  local,       ///< no rank sends anything: cells that are here are copied, or cut from a replica
  all_to_all,  ///< shards to other shards
  all_gather,  ///< whole shards to replicas
  reduce_scatter,  ///< contributions to shards
  all_reduce,      ///< contributions to replicas: a reduce-scatter, then an all-gather
  scatter,         ///< one rank's array to shards or replicas
  gather           ///< a field to one rank's array
};

/// What a redistribution costs this rank, besides the two fields. Sizes in bytes.
struct RedistributionReport {
  MovementKind kind    = MovementKind::local;  ///< the same on every rank
  int messages         = 0;  ///< sent; one for each pair of ranks, phase and round
  index_t sent         = 0;  ///< in these
  index_t received     = 0;  ///< in those of other ranks
  index_t source       = 0;  ///< owned cells that are read
  index_t target       = 0;  ///< owned cells that are written
  index_t buffer       = 0;  ///< the one buffer that messages are built and received in
  index_t buffer_limit = 0;  ///< what it may be: the larger of source and target, or 1 MiB
  int rounds           = 1;  ///< in which messages go, so that the buffer is no larger

  /// In words: "all-to-all, 3 messages of 9216 bytes, ..."
  std::string text() const;
};

namespace impl {

/// One side of a movement: a field, or an array on one rank.
struct MovementSide {
  const Geometry* geometry = nullptr;  ///< null for an array, whose extents are the other side's
  std::byte* data          = nullptr;  ///< the first owned cell
  std::array<index_t, max_rank> stride{};  ///< in bytes
  bool left = false;                       ///< dimension 0 is the fastest
};

/// A redistribution without types.
struct Movement {
  const char* function = "redistribute";
  MeshState* mesh      = nullptr;
  MovementSide to, from;
  int root       = 0;  ///< the rank in the mesh's communicator that has the array, if a side is one
  int rank       = 0;  ///< dimensions
  int value_size = 0;  ///< bytes
  ValueKind kind = ValueKind::opaque;
  ReductionKind op = ReductionKind::sum;  ///< of contributions that are read
  bool adds        = false;               ///< what comes is added to what is there
  int pinned_axis  = -1;                  ///< cells are read from the ranks with this
  int pinned_to    = 0;                   ///< coordinate along this axis, which replicates them
};

/// Runs movements. `Space` is an enabled execution space that reaches both sides.
template <class Space>
struct Movements {
  /// Collective over the mesh. The plan is kept in the mesh; what it needs of other ranks is asked
  /// when it is made. Ends with a fence.
  static void run(const Space& space, const Movement& movement);
  /// Collective where the plan has to be made: what it costs.
  static RedistributionReport report(const Movement& movement);
};

/// Whether this rank's contribution to a field is its values and not zero: where a Partial sum is
/// written the ranks at coordinate 0 have them.
bool holds_values(const Geometry& geometry);

/// Throws ArgumentError unless the axis has such a coordinate.
void require_coordinate(const char* function, const MeshState& mesh, int axis, int coordinate);

/// Throws unless both fields are on one mesh and have the same global extents.
void require_same_cells(const char* function, const Geometry& to, const Geometry& from);

/// Throws ArgumentError on every rank unless the root's array has these extents. Collective.
void require_array(const char* function, const Geometry& field, int root, const index_t* extents);

/// The positions of axes among a mesh's, by their ids; throws ArgumentError where it lacks one.
void require_axes(const char* function, const MeshState& mesh, const AxisId* ids, int count,
                  int* positions);

}  // namespace impl
}  // namespace shard

#endif
