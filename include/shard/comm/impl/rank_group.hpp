// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COMM_IMPL_RANK_GROUP_HPP
#define SHARD_COMM_IMPL_RANK_GROUP_HPP

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "shard/mesh/impl/mesh_state.hpp"
#include "shard/view/impl/geometry.hpp"

namespace shard::impl {

/// The ranks over which some dimensions of a field are sharded: those that differ from this one
/// along the mesh axes that shard them, in the same order on all of them. Sums run in that order,
/// so they are bitwise the same on every rank and from run to run.
///
/// A group has no communicator of its own. If it is neither all ranks nor those of one axis it runs
/// over its axes one after the other.
class RankGroup : public CachedPlan {
 public:
  /// Cached in the mesh. Local. `dims` has a bit for each dimension of the field.
  static std::shared_ptr<RankGroup> of(const Geometry& geometry, unsigned dims);
  explicit RankGroup(const MeshState& mesh, unsigned axes);

  int size() const { return size_; }
  /// A communicator of the group's ranks, for the caller to free. Collective over the mesh.
  MPI_Comm make_comm(const MeshState& mesh) const;

  /// The ranks of the mesh that the group has, in its order.
  std::vector<int> mesh_ranks(const MeshState& mesh) const;

  /// Collective over the group: all ranks' `count` values, rank by rank.
  void gather(const double* mine, int count, double* all) const;
  /// The same for byte arrays.
  void gather_bytes(const void* mine, int bytes, void* all) const;
  /// Collective over the group: the sums of integers, modulo 2^64, in place.
  void sum_integers(index_t* values, int count) const;
  /// Collective over the group: start a gather or a sum, which are complete after MPI_Wait. They
  /// complete at once if `waits`, or if the group runs over several axes, and return
  /// MPI_REQUEST_NULL.
  MPI_Request start_gather(const double* mine, int count, double* all, bool waits) const;
  MPI_Request start_sum_integers(index_t* values, int count, bool waits) const;
  /// Collective over the group: the sum of all ranks' values, in rank order, in place. For a few
  /// values; `scratch` holds size() * count.
  void sum_few(double* values, int count, double* scratch) const;
  /// The axes that it runs over one after the other, -1 for all ranks of the mesh at once.
  std::vector<int> axes() const;

 private:
  /// The ranks along one axis, or all.
  struct Line {
    MPI_Comm comm;
    int size, place;
    int axis;  ///< -1: all ranks
  };
  void gather(const void* mine, int count, MPI_Datatype type, std::size_t bytes, void* all) const;
  std::vector<Line> lines_;  // the fastest axis first
  unsigned axes_ = 0;
  int size_      = 1;
};

}  // namespace shard::impl

#endif
