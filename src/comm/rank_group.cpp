// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/comm/rank_group.hpp"

#include <Kokkos_Core.hpp>
#include <Kokkos_Profiling_ScopedRegion.hpp>

#include <algorithm>
#include <type_traits>

#include "shard/base/error.hpp"

namespace shard::impl {

std::shared_ptr<RankGroup> RankGroup::of(const Geometry& geometry, unsigned dims) {
  unsigned axes = 0;
  for (int d = 0; d < geometry.rank; ++d)
    if ((dims >> d & 1U) != 0) {
      const DimGeometry& dim = geometry.dims[Geometry::at(d)];
      for (int a = 0; a < dim.axis_count; ++a) axes |= 1U << dim.axes[static_cast<std::size_t>(a)];
    }
  const PlanKey key{0x72616e6b67726f75ULL, axes};
  MeshState& mesh = *geometry.mesh;
  if (auto found = std::static_pointer_cast<RankGroup>(mesh.find(key))) return found;
  auto made = std::make_shared<RankGroup>(mesh, axes);
  mesh.keep(key, made);
  return made;
}

RankGroup::RankGroup(MeshState& mesh, unsigned axes) {
  bool all   = true;
  int colour = 0;
  for (int a = 0; a < mesh.axes(); ++a)
    if ((axes >> a & 1U) == 0) {
      all    = all && mesh.extent(a) == 1;
      colour = colour * mesh.extent(a) + mesh.coordinate(a);
    }
  if (all) {
    comm_ = mesh.comm();
  } else {
    check_mpi(MPI_Comm_split(mesh.comm(), colour, mesh.rank(), &comm_), "MPI_Comm_split");
    owns_ = true;
  }
  check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
}

RankGroup::~RankGroup() {
  int finalized = 0;
  if (owns_ && MPI_Finalized(&finalized) == MPI_SUCCESS && finalized == 0) MPI_Comm_free(&comm_);
}

void RankGroup::gather(const double* mine, int count, double* all) const {
  const Kokkos::Profiling::ScopedRegion region("shard::messages");
  if (size_ == 1)
    std::copy_n(mine, count, all);
  else
    check_mpi(MPI_Allgather(mine, count, MPI_DOUBLE, all, count, MPI_DOUBLE, comm_),
              "MPI_Allgather");
}

void RankGroup::sum_few(double* values, int count, double* scratch) const {
  if (size_ == 1) return;
  gather(values, count, scratch);
  std::copy_n(scratch, count, values);
  for (int r = 1; r < size_; ++r)
    for (int i = 0; i < count; ++i)
      values[i] += scratch[static_cast<std::ptrdiff_t>(r) * count + i];
}

index_t RankGroup::scratch_size(index_t count) const {
  const index_t part = (count + size_ - 1) / size_;
  return size_ == 1 ? 0 : 2 * part * size_;
}

template <class T>
void RankGroup::sum(T* values, index_t count, T* scratch) const {
  if (size_ == 1 || count == 0) return;
  const Kokkos::Profiling::ScopedRegion region("shard::messages");
  const MPI_Datatype type = std::is_same_v<T, float> ? MPI_FLOAT : MPI_DOUBLE;
  const index_t part      = (count + size_ - 1) / size_;
  T* const whole          = scratch;
  T* const parts          = scratch + part * size_;
  std::copy_n(values, count, whole);
  std::fill(whole + count, whole + part * size_, T(0));
  check_mpi(
      MPI_Alltoall(whole, static_cast<int>(part), type, parts, static_cast<int>(part), type, comm_),
      "MPI_Alltoall");
  for (int r = 1; r < size_; ++r)
    for (index_t i = 0; i < part; ++i) parts[i] += parts[r * part + i];
  check_mpi(MPI_Allgather(parts, static_cast<int>(part), type, whole, static_cast<int>(part), type,
                          comm_),
            "MPI_Allgather");
  std::copy_n(whole, count, values);
}

template void RankGroup::sum<float>(float*, index_t, float*) const;
template void RankGroup::sum<double>(double*, index_t, double*) const;

}  // namespace shard::impl
