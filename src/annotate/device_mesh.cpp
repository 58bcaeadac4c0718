// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/annotate/device_mesh.hpp"

#include <mutex>
#include <optional>

#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard {

namespace {

LogicalMesh named(const LogicalMesh& mesh, std::vector<std::string> axis_names) {
  if (axis_names.empty()) return mesh;
  return {mesh.device_ids(), mesh.mesh_shape(), std::move(axis_names)};
}

/// The bound global mesh, cached because binding splits communicators.
struct BoundGlobalMesh {
  std::mutex mutex;
  std::unique_ptr<DeviceMesh> mesh;
};

}  // namespace

DeviceMesh::DeviceMesh(MPI_Comm comm, const LogicalMesh& mesh)
    : state_(
          impl::MeshState::bind(impl::require_communicator(comm, "DeviceMesh"), mesh, mesh.rank())),
      logical_(mesh) {}

DeviceMesh::DeviceMesh(std::shared_ptr<impl::MeshState> state, std::vector<std::string> axis_names)
    : state_(std::move(state)), logical_(named(state_->logical(), std::move(axis_names))) {}

DeviceMesh DeviceMesh::global() {
  static BoundGlobalMesh bound;
  const std::optional<LogicalMesh> mesh = get_global_mesh();
  impl::require_communicator(MPI_COMM_WORLD, "DeviceMesh::global");
  int rank = 0;
  impl::check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  const impl::Watched watched({.what = "other ranks to use the global mesh", .rank = rank});
  // all ranks agree whether the mesh is bound already
  impl::require_agreement(MPI_COMM_WORLD, "DeviceMesh::global", mesh ? mesh->text() : "no mesh");
  if (!mesh)
    impl::throw_argument("DeviceMesh::global",
                         {"there is no global mesh; give a mesh, or call set_global_mesh"});
  const std::lock_guard lock(bound.mutex);
  if (!bound.mesh || !(bound.mesh->logical() == *mesh))
    bound.mesh = std::make_unique<DeviceMesh>(MPI_COMM_WORLD, *mesh);
  return *bound.mesh;
}

bool DeviceMesh::same_ranks(const DeviceMesh& other) const {
  if (state_ == other.state_) return true;
  int result = MPI_UNEQUAL;
  impl::check_mpi(MPI_Comm_compare(communicator(), other.communicator(), &result),
                  "MPI_Comm_compare");
  return result == MPI_IDENT || result == MPI_CONGRUENT;
}

}  // namespace shard
