// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <cstddef>
#include <vector>

#include "shard/base/impl/watchdog.hpp"
#include "shard/train/gradient_norm.hpp"
#include "shard/train/gradient_sum.hpp"

namespace shard::impl {

ValueRange share_of(const ValueRange& range, const MeshState& mesh, int axis) {
  const index_t parts = axis < 0 ? mesh.size() : mesh.extent(axis),
                part  = axis < 0 ? mesh.rank() : mesh.coordinate(axis);
  const index_t first = range.count * part / parts, last = range.count * (part + 1) / parts;
  return {range.begin + first, last - first};
}

ParameterPart part_of(index_t count, const MeshState& mesh, const RankGroup& group) {
  const std::vector<int> axes = group.axes();
  ValueRange mine{0, count};
  for (const int axis : axes) mine = share_of(mine, mesh, axis);
  bool is_first = true;  // along the axes that the group doesn't have
  for (int a = 0; a < mesh.axes(); ++a)
    if (group.size() < mesh.size() && std::find(axes.begin(), axes.end(), a) == axes.end())
      is_first = is_first && mesh.coordinate(a) == 0;
  return {mine.begin, mine.count, count, mesh.size() / group.size(), is_first};
}

double sum_in_rank_order(MPI_Comm comm, double mine) {
  int size = 1;
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  std::vector<double> all(static_cast<std::size_t>(size));
  const Watched watched({.what = "other ranks' part of a norm of gradients"});
  await_mpi("MPI_Allgather", MPI_Allgather, &mine, 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, comm);
  double sum = 0.0;
  for (const double value : all) sum += value;
  return sum;
}

bool holds_everywhere(MPI_Comm comm, bool flag) {
  int mine = flag ? 1 : 0, all = 0;
  const Watched watched({.what = "other ranks to say whether their gradients are finite"});
  await_mpi("MPI_Allreduce", MPI_Allreduce, &mine, &all, 1, MPI_INT, MPI_MIN, comm);
  return all != 0;
}

}  // namespace shard::impl
