// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COMM_RANK_GROUP_HPP
#define SHARD_COMM_RANK_GROUP_HPP

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "shard/mesh/mesh_state.hpp"
#include "shard/view/geometry.hpp"

namespace shard::impl {

/// The ranks over which some dimensions of a field are cut: those that differ from this one along
/// the mesh axes that cut them, ordered by rank. What they sum is summed in that order, so that
/// every rank has the same bits, from run to run. Kept in the mesh.
class RankGroup : public CachedPlan {
 public:
  /// Collective over the mesh the first time. `dims` has a bit for each dimension of the field.
  static std::shared_ptr<RankGroup> of(const Geometry& geometry, unsigned dims);
  explicit RankGroup(MeshState& mesh, unsigned axes);
  ~RankGroup() override;

  int size() const { return size_; }
  int rank() const { return rank_; }
  MPI_Comm comm() const { return comm_; }

  /// Collective over the group: all ranks' `count` values, rank by rank.
  void gather(const double* mine, int count, double* all) const;
  /// Collective over the group: the sum of all ranks' values, in rank order, in place. For a few
  /// values; `scratch` holds size() * count.
  void sum_few(double* values, int count, double* scratch) const;
  /// Collective over the group: the same for many values: each rank sums a part of them, in rank
  /// order. `scratch` holds scratch_size(count).
  template <class T>
  void sum(T* values, index_t count, T* scratch) const;
  index_t scratch_size(index_t count) const;

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  bool owns_     = false;
  int size_ = 1, rank_ = 0;
};

}  // namespace shard::impl

#endif
