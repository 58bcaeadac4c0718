// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MESH_MESH_STATE_HPP
#define SHARD_MESH_MESH_STATE_HPP

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shard/base/types.hpp"
#include "shard/mesh/axis.hpp"
#include "shard/mesh/logical_mesh.hpp"
#include "shard/mesh/mesh_options.hpp"

namespace shard::impl {

/// Something that a mesh keeps for those who ask again: exchange plans. Ended with the mesh, and
/// before Kokkos if that goes first.
class CachedPlan {
 public:
  CachedPlan()                             = default;
  CachedPlan(const CachedPlan&)            = delete;
  CachedPlan& operator=(const CachedPlan&) = delete;
  virtual ~CachedPlan()                    = default;
};

/// Something large that a mesh owns for the rooms below: the memory that its ranks share, what
/// connects their devices.
class MeshResource {
 public:
  MeshResource()                               = default;
  MeshResource(const MeshResource&)            = delete;
  MeshResource& operator=(const MeshResource&) = delete;
  virtual ~MeshResource()                      = default;
  /// Gives back what nobody uses. Collective over the mesh.
  virtual void release() = 0;
};

/// A 128-bit key: what a cached plan was made for.
struct PlanKey {
  std::uint64_t a = 0, b = 0;
  friend bool operator==(const PlanKey&, const PlanKey&) = default;
};

/// What all copies of a mesh share: communicators, shape, this rank's place, and the plans made on
/// it. Axes are numbered as in Mesh<Axes...>; coordinates are row-major, the last axis the fastest.
class MeshState {
 public:
  /// Collective over `comm`, which is duplicated. See Mesh for the arguments and errors.
  static std::shared_ptr<MeshState> make(MPI_Comm comm, std::vector<int> shape,
                                         const MeshOptions& options);
  static std::shared_ptr<MeshState> bind(MPI_Comm comm, const LogicalMesh& mesh, int axes);
  static std::shared_ptr<MeshState> of_domains(MPI_Comm comm, const std::vector<int>& domain,
                                               const MeshOptions& options);
  ~MeshState();
  MeshState(const MeshState&)            = delete;
  MeshState& operator=(const MeshState&) = delete;

  MPI_Comm comm() const { return comm_; }
  MPI_Comm axis_comm(int axis) const { return axis_comms_[static_cast<std::size_t>(axis)]; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  int axes() const { return static_cast<int>(shape_.size()); }
  int extent(int axis) const { return shape_[static_cast<std::size_t>(axis)]; }
  int coordinate(int axis) const { return coordinates_[static_cast<std::size_t>(axis)]; }
  const std::vector<int>& coordinates() const { return coordinates_; }
  /// The rank in comm() at these coordinates (axes() of them).
  int rank_at(const int* coordinates) const;
  /// Shape and order as a value.
  LogicalMesh logical() const;

  /// Its axes' ids (see axis_id), in order.
  void name_axes(std::vector<AxisId> ids) { axis_ids_ = std::move(ids); }
  /// The axes' names, for messages: "Lat, Lon"; nothing where they have no types.
  std::string axis_names() const;
  /// The position of the axis with this id, or -1.
  int position_of(AxisId axis_id) const {
    for (std::size_t a = 0; a < axis_ids_.size(); ++a)
      if (axis_ids_[a] == axis_id) return static_cast<int>(a);
    return -1;
  }

  /// The plan kept under `key`, or null.
  std::shared_ptr<CachedPlan> find(const PlanKey& key) const;
  void keep(const PlanKey& key, std::shared_ptr<CachedPlan> plan);
  /// Forgets every plan.
  void drop_plans() { plans_.clear(); }
  /// A number for a new plan: the same on every rank, since making a plan is collective.
  std::uint32_t next_plan_number() { return plan_number_++; }
  /// What was set, or null.
  const std::shared_ptr<MeshResource>& resource() const { return resource_; }
  void set_resource(std::shared_ptr<MeshResource> resource) { resource_ = std::move(resource); }
  /// The same for what serves fields in device memory.
  const std::shared_ptr<MeshResource>& device_resource() const { return device_resource_; }
  void set_device_resource(std::shared_ptr<MeshResource> resource) {
    device_resource_ = std::move(resource);
  }
  /// Largest tag that this communicator's MPI takes.
  int tag_limit() const { return tag_limit_; }

 private:
  MeshState() = default;

  struct Entry {
    PlanKey key;
    std::shared_ptr<CachedPlan> plan;
  };

  MPI_Comm comm_ = MPI_COMM_NULL;
  std::vector<MPI_Comm> axis_comms_;
  std::vector<AxisId> axis_ids_;
  std::vector<int> shape_, coordinates_, order_;
  int rank_ = 0, size_ = 1, tag_limit_ = 32767;
  std::uint32_t plan_number_ = 0;
  std::shared_ptr<MeshResource> resource_, device_resource_;
  std::vector<Entry> plans_;
};

/// The numbers of ranks along so many axes. Throws ArgumentError if there are more or fewer.
std::vector<int> shape_of(const int* sizes, std::size_t count, int axes);
/// Throws ArgumentError: a mesh that was made by default was asked for what it has not.
[[noreturn]] void throw_no_mesh();

/// The number of ranks along each axis where `shape` has a 0: the factorisation of `ranks` by which
/// a grid with these extents moves the least halo (ties: the more even one, as MPI_Dims_create;
/// then the larger factors first). Throws ArgumentError if `shape` can't be met.
std::vector<int> choose_shape(int ranks, std::vector<int> shape, const std::vector<index_t>& grid);

}  // namespace shard::impl

#endif
