// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <cstddef>
#include <vector>

#include "shard/base/impl/watchdog.hpp"
#include "shard/train/gradient_norm.hpp"

namespace shard::impl {

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
