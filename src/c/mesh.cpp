// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/mesh/impl/mesh_state.hpp"

#include <memory>
#include <string>
#include <vector>

#include "handles.hpp"
#include "shard/mesh/mesh_options.hpp"
#include "shard/view/partition.hpp"

namespace {

using shard::c::guarded;
using shard::c::require;
using shard::impl::text;
using shard::impl::throw_argument;

int checked_axis(const char* function, const shard::impl::MeshState& mesh, int axis) {
  if (axis < 0 || axis >= mesh.axes())
    throw_argument(function,
                   {"there is no axis ", text(axis), "; the mesh has ", text(mesh.axes())});
  return axis;
}

}  // namespace

int shard_mesh_create(MPI_Comm comm, int axes, const int* sizes, shard_mesh* mesh) {
  return guarded([&] {
    shard_mesh& made = require(mesh, "the mesh to be made");
    shard::impl::require_communicator(comm, "mesh_create");
    std::string wrong;
    if (axes < 1 || axes > shard::impl::max_axes)
      wrong = text(axes) + " axes; a mesh has 1 to " + text(shard::impl::max_axes);
    else if (sizes == nullptr)
      wrong = "the list of sizes is null";
    shard::impl::require_no_error(comm, "mesh_create", wrong);
    auto handle   = std::make_unique<shard_mesh_s>();
    handle->state = shard::impl::MeshState::make(comm, std::vector<int>(sizes, sizes + axes), {});
    made          = handle.release();
  });
}
int shard_mesh_create_f(MPI_Fint comm, int axes, const int* sizes, shard_mesh* mesh) {
  return shard_mesh_create(MPI_Comm_f2c(comm), axes, sizes, mesh);
}
int shard_mesh_retain(shard_mesh mesh) { return shard::c::retain(mesh, "the mesh"); }
int shard_mesh_release(shard_mesh* mesh) { return shard::c::release(mesh, "the mesh"); }

int shard_mesh_axis(shard_mesh mesh, int axis, int* size, int* coordinate) {
  return guarded([&] {
    const auto& state = *require(mesh, "the mesh").state;
    checked_axis("mesh_axis", state, axis);
    if (size != nullptr) *size = state.extent(axis);
    if (coordinate != nullptr) *coordinate = state.coordinate(axis);
  });
}

int shard_mesh_neighbour(shard_mesh mesh, int axis, int step, int* rank) {
  return guarded([&] {
    const auto& state = *require(mesh, "the mesh").state;
    auto place        = state.coordinates();
    int& there = place[static_cast<std::size_t>(checked_axis("mesh_neighbour", state, axis))];
    there += step;
    require(rank, "the rank") =
        there < 0 || there >= state.extent(axis) ? -1 : state.rank_at(place.data());
  });
}

int shard_mesh_owned(shard_mesh mesh, int axis, int64_t n, int64_t* first, int64_t* count) {
  return guarded([&] {
    const auto& state = *require(mesh, "the mesh").state;
    checked_axis("mesh_owned", state, axis);
    const auto cut = shard::Partition::balanced(n, state.extent(axis));
    if (first != nullptr) *first = cut.begin(state.coordinate(axis));
    if (count != nullptr) *count = cut.count(state.coordinate(axis));
  });
}
