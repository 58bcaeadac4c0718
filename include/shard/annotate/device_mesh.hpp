// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_ANNOTATE_DEVICE_MESH_HPP
#define SHARD_ANNOTATE_DEVICE_MESH_HPP

#include <mpi.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "shard/mesh/logical_mesh.hpp"
#include "shard/mesh/mesh.hpp"
#include "shard/mesh/impl/mesh_state.hpp"

namespace shard {

/// A LogicalMesh bound to a communicator at run time: device i is rank i. Annotations use it; a
/// `Mesh<Axes...>` converts to it. A handle: copies share the communicator and cached shardings.
class DeviceMesh {
 public:
  /// Collective over `comm`, which is duplicated. Throws on every rank: AgreementError if the ranks
  /// give different meshes, ArgumentError unless the mesh has as many devices as there are ranks.
  /// ArgumentError on a rank that passes MPI_COMM_NULL or an intercommunicator.
  DeviceMesh(MPI_Comm comm, const LogicalMesh& mesh);
  /// From the mesh of fields, with its axes in order and optional names for specs. Local. Throws
  /// ArgumentError as LogicalMesh does for names that don't fit.
  template <class... Axes>
  DeviceMesh(const Mesh<Axes...>& mesh, std::vector<std::string> axis_names = {})
      : DeviceMesh(mesh.state(), std::move(axis_names)) {}
  /// The global mesh (set_global_mesh) on MPI_COMM_WORLD. Collective over that; cached until
  /// another mesh is set. Throws ArgumentError on every rank if there is none.
  static DeviceMesh global();

  /// The mesh as a value.
  const LogicalMesh& logical() const { return logical_; }
  /// Number of ranks.
  int size() const { return state_->size(); }
  /// This rank, which is its device id.
  int rank() const { return state_->rank(); }
  /// The mesh's own communicator.
  MPI_Comm communicator() const { return state_->comm(); }
  /// Whether both have the same ranks in the same order, on any communicator. Local.
  bool same_ranks(const DeviceMesh& other) const;

  /// For the library's own use: the state that meshes of the same communicator share.
  const std::shared_ptr<impl::MeshState>& state() const { return state_; }
  /// For the library's own use: from a field's mesh state.
  DeviceMesh(std::shared_ptr<impl::MeshState> state, std::vector<std::string> axis_names);

 private:
  std::shared_ptr<impl::MeshState> state_;
  LogicalMesh logical_;
};

}  // namespace shard

#endif
