// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/collectives/collectives.hpp"

#include <Kokkos_Core.hpp>
#include <string>
#include <vector>

#include "measure.hpp"
#include "shard/redistribute/redistribute.hpp"
#include "shard/train/gradient_sum.hpp"
#include "shard/view/sharded_view.hpp"

namespace {

struct Ranks;
using shard::index_t;
using Array = Kokkos::View<float*, Kokkos::LayoutRight, Kokkos::HostSpace>;

}  // namespace

void time_collectives(MPI_Comm comm, int values, int calls, std::vector<Result>& results) {
  using Cut =
      shard::ShardedView<float*, Kokkos::LayoutRight, shard::ShardDim<0, Ranks>, Kokkos::HostSpace>;
  using Whole = shard::ShardedView<float*, Kokkos::LayoutRight, Kokkos::HostSpace>;
  using Part  = shard::ShardedView<float*, Kokkos::LayoutRight, shard::Partial<Ranks, shard::Sum>,
                                  Kokkos::HostSpace>;
  const Kokkos::DefaultHostExecutionSpace space;
  const shard::Mesh<Ranks> mesh(comm, {0});
  const index_t all = static_cast<index_t>(values) * mesh.size();
  const Array x("x", static_cast<std::size_t>(values)), y("y", static_cast<std::size_t>(all)),
      z("z", static_cast<std::size_t>(values));
  const Cut field("field", mesh, {all});
  const shard::GradientSum<float, Kokkos::HostSpace> gradient_sum(field, values);
  const Whole whole("whole", mesh, {values});
  const Part part("part", mesh, {values});
  const double bytes = sizeof(float) * static_cast<double>(values);
  const auto beside  = [&](const char* name, const std::function<void()>& mpi,
                          const std::function<void()>& ours) {
    measure(comm, std::string("collective/") + name + "/" + std::to_string(values * 4), bytes,
             calls, {{"mpi", mpi}, {"shard", ours}}, results);
  };
  const auto reduce = [&](const float* from, float* to) {
    MPI_Allreduce(from, to, values, MPI_FLOAT, MPI_SUM, comm);
  };
  beside(
      "all_gather",
      [&] { MPI_Allgather(x.data(), values, MPI_FLOAT, y.data(), values, MPI_FLOAT, comm); },
      [&] { shard::all_gather<Ranks>(space, y, x, mesh, 0); });
  beside(
      "all_reduce", [&] { reduce(x.data(), z.data()); },
      [&] { shard::all_reduce<Ranks>(space, z, x, mesh); });
  beside(
      "broadcast", [&] { MPI_Bcast(x.data(), values, MPI_FLOAT, 0, comm); },
      [&] { shard::broadcast<Ranks>(space, x, x, mesh, 0); });
  beside(
      "gradient_sum",
      [&] { MPI_Allreduce(MPI_IN_PLACE, x.data(), values, MPI_FLOAT, MPI_SUM, comm); },
      [&] { gradient_sum(space, x); });
  beside(
      "partial_to_whole", [&] { reduce(part.view().data(), whole.view().data()); },
      [&] { shard::redistribute(space, whole, part); });
}
