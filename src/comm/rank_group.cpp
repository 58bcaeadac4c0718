// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/comm/impl/rank_group.hpp"

#include <Kokkos_Core.hpp>
#include <Kokkos_Profiling_ScopedRegion.hpp>

#include <algorithm>
#include <cstring>

#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard::impl {

std::shared_ptr<RankGroup> RankGroup::of(const Geometry& geometry, unsigned dims) {
  unsigned axes = 0;
  for (int d = 0; d < geometry.rank; ++d)
    if ((dims >> d & 1U) != 0) {
      const DimGeometry& dim = geometry.dims[Geometry::at(d)];
      for (int a = 0; a < dim.axis_count; ++a) axes |= 1U << dim.axes[static_cast<std::size_t>(a)];
    }
  const PlanKey key = PlanKey::of(KeyKind::rank_group, axes);
  MeshState& mesh   = *geometry.mesh;
  return mesh.one_of_its_kind(key, [&] { return std::make_shared<RankGroup>(mesh, axes); });
}

RankGroup::RankGroup(const MeshState& mesh, unsigned axes) : axes_(axes) {
  for (int a = mesh.axes() - 1; a >= 0; --a) {
    if ((axes >> a & 1U) == 0 || mesh.extent(a) == 1) continue;
    lines_.push_back({mesh.axis_comm(a), mesh.extent(a), mesh.coordinate(a), a});
    size_ *= mesh.extent(a);
  }
  if (lines_.size() > 1 && size_ == mesh.size()) lines_ = {{mesh.comm(), size_, mesh.rank(), -1}};
}

MPI_Comm RankGroup::make_comm(const MeshState& mesh) const {
  int colour = 0;
  for (int a = 0; a < mesh.axes(); ++a)
    if ((axes_ >> a & 1U) == 0) colour = colour * mesh.extent(a) + mesh.coordinate(a);
  MPI_Comm made = MPI_COMM_NULL;
  await_mpi("MPI_Comm_split", MPI_Comm_split, mesh.comm(), colour, mesh.rank(), &made);
  return made;
}

std::vector<int> RankGroup::mesh_ranks(const MeshState& mesh) const {
  std::vector<int> ranks, place = mesh.coordinates();
  for (int r = 0; r < size_; ++r) {
    int rest = r;
    for (int a = mesh.axes() - 1; a >= 0; --a)
      if ((axes_ >> a & 1U) != 0) {
        place[static_cast<std::size_t>(a)] = rest % mesh.extent(a);
        rest /= mesh.extent(a);
      }
    ranks.push_back(mesh.rank_at(place.data()));
  }
  return ranks;
}

void RankGroup::gather(const void* mine, int count, MPI_Datatype type, std::size_t bytes,
                       void* all) const {
  const Kokkos::Profiling::ScopedRegion region("shard::messages");
  const Watched watched({.what = "other ranks' values for a sum or a statistic"});
  auto* const values = static_cast<std::byte*>(all);
  std::size_t block  = static_cast<std::size_t>(count) * bytes;
  if (lines_.empty()) std::memcpy(values, mine, block);
  for (const Line& line : lines_) {
    if (&line == lines_.data()) {
      await_mpi("MPI_Allgather", MPI_Allgather, mine, count, type, all, count, type, line.comm);
    } else {
      std::memmove(values + static_cast<std::size_t>(line.place) * block, values, block);
      await_mpi("MPI_Allgather", MPI_Allgather, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, count,
                type, line.comm);
    }
    block *= static_cast<std::size_t>(line.size);
    count *= line.size;
  }
}

void RankGroup::gather(const double* mine, int count, double* all) const {
  gather(mine, count, MPI_DOUBLE, sizeof(double), all);
}

void RankGroup::gather_bytes(const void* mine, int bytes, void* all) const {
  gather(mine, bytes, MPI_BYTE, 1, all);
}

void RankGroup::sum_integers(index_t* values, int count) const {
  if (lines_.empty()) return;
  const Kokkos::Profiling::ScopedRegion region("shard::messages");
  const Watched watched({.what = "other ranks' values for a sum"});
  for (const Line& line : lines_)
    await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, values, count, MPI_UINT64_T, MPI_SUM,
              line.comm);
}

MPI_Request RankGroup::start_gather(const double* mine, int count, double* all, bool waits) const {
  MPI_Request request = MPI_REQUEST_NULL;
  if (waits || lines_.size() != 1)
    gather(mine, count, all);
  else
    check_mpi(
        MPI_Iallgather(mine, count, MPI_DOUBLE, all, count, MPI_DOUBLE, lines_[0].comm, &request),
        "MPI_Iallgather");
  return request;
}

MPI_Request RankGroup::start_sum_integers(index_t* values, int count, bool waits) const {
  MPI_Request request = MPI_REQUEST_NULL;
  if (waits || lines_.size() != 1)
    sum_integers(values, count);
  else
    check_mpi(MPI_Iallreduce(MPI_IN_PLACE, values, count, MPI_UINT64_T, MPI_SUM, lines_[0].comm,
                             &request),
              "MPI_Iallreduce");
  return request;
}

void RankGroup::sum_few(double* values, int count, double* scratch) const {
  if (size_ == 1) return;
  gather(values, count, scratch);
  std::copy_n(scratch, count, values);
  for (int r = 1; r < size_; ++r)
    for (int i = 0; i < count; ++i)
      values[i] += scratch[static_cast<std::ptrdiff_t>(r) * count + i];
}

std::vector<int> RankGroup::axes() const {
  std::vector<int> axes;
  for (const Line& line : lines_) axes.push_back(line.axis);
  return axes;
}

}  // namespace shard::impl
