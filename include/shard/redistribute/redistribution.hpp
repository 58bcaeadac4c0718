// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDISTRIBUTE_REDISTRIBUTION_HPP
#define SHARD_REDISTRIBUTE_REDISTRIBUTION_HPP

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

/// The kind of a redistribution, by the name of the collective.
enum class RedistributionKind : std::uint8_t {
  local,           ///< no messages: a local copy or a slice of a replica
  all_to_all,      ///< shards to other shards
  all_gather,      ///< whole shards to replicas
  reduce_scatter,  ///< contributions to shards
  all_reduce,      ///< contributions to replicas: a reduce-scatter, then an all-gather
  scatter,         ///< one rank's array to shards or replicas
  gather           ///< a field to one rank's array
};

/// The cost of a redistribution on this rank. Sizes in bytes.
struct RedistributionReport {
  RedistributionKind kind = RedistributionKind::local;  ///< the same on every rank
  int messages            = 0;  ///< sent; one for each pair of ranks, phase and round
  index_t sent            = 0;  ///< bytes sent
  index_t received        = 0;  ///< bytes received
  index_t source          = 0;  ///< owned points that are read
  index_t target          = 0;  ///< owned points that are written
  index_t buffer          = 0;  ///< size of the message buffer
  index_t buffer_limit    = 0;  ///< its limit: the larger of source and target, or 1 MiB
  int rounds              = 1;  ///< number of rounds, so that the buffer is within its limit

  /// As text: "all-to-all, 3 messages of 9216 bytes, ..."
  std::string text() const;
};

namespace impl {

/// One side of a redistribution: a field, or an array on one rank.
struct RedistributionSide {
  const Geometry* geometry = nullptr;  ///< null for an array, whose extents are the other side's
  std::byte* data          = nullptr;  ///< the first owned point
  std::array<index_t, max_rank> stride{};  ///< in bytes
  bool left = false;                       ///< dimension 0 is the fastest
};

/// A type-erased redistribution.
struct Redistribution {
  const char* function = "redistribute";
  MeshState* mesh      = nullptr;
  RedistributionSide to, from;
  int root       = 0;  ///< the rank in the mesh's communicator that has the array, if a side is one
  int rank       = 0;  ///< dimensions
  int value_size = 0;  ///< bytes
  ValueKind kind = ValueKind::opaque;
  ReductionKind op = ReductionKind::sum;  ///< reduction of contributions
  bool adds        = false;               ///< adds to the target
  int pinned_axis  = -1;  ///< broadcast: points are read from the ranks with coordinate
  int pinned_to    = 0;   ///< pinned_to along this axis, which replicates them
};

/// Runs redistributions. `Space` is an enabled execution space that can access both sides.
template <class Space>
struct Redistributions {
  /// Collective over the mesh, which caches the plan. Ends with a fence.
  static void run(const Space& space, const Redistribution& redistribution);
  /// The cost. Collective if the plan has to be made.
  static RedistributionReport report(const Redistribution& redistribution);
};

/// Whether this rank writes values to a field, not zeros: in a Partial sum only ranks at coordinate
/// 0 do.
bool holds_values(const Geometry& geometry);

/// Throws ArgumentError unless the axis has such a coordinate.
void require_coordinate(const char* function, const MeshState& mesh, int axis, int coordinate);

/// Throws unless both fields are on one mesh and have the same global extents.
void require_same_cells(const char* function, const Geometry& to, const Geometry& from);
/// Whether a dimension is of one index space in `to`, and of another one in `from`.
bool is_between_index_spaces(const Geometry& to, const Geometry& from);

/// Throws ArgumentError on every rank unless the root's array has these extents. Collective.
void require_array(const char* function, const Geometry& field, int root, const index_t* extents);

/// The positions of axes among a mesh's, by their ids; throws ArgumentError if it lacks one.
void require_axes(const char* function, const MeshState& mesh, const AxisId* ids, int count,
                  int* positions);

}  // namespace impl
}  // namespace shard

#endif
