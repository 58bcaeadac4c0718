// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Manual mode: the shards of a tensor as plain local Views, with your own kernel and a collective.
// Each row of a matrix is divided by its sum. The columns are sharded over the ranks, so a row's
// sum needs an all_reduce.
#include <shard/shard.hpp>

#include <cstdio>

struct Model;
using Matrix = Kokkos::View<double**, Kokkos::LayoutRight>;

struct RowSumsKernel {
  Matrix a, sums;
  KOKKOS_FUNCTION void operator()(int i) const {
    for (int j = 0; j < static_cast<int>(a.extent(1)); ++j) sums(i, 0) += a(i, j);
  }
};
struct DivideKernel {
  Matrix a, sums;
  KOKKOS_FUNCTION void operator()(int i) const {
    for (int j = 0; j < static_cast<int>(a.extent(1)); ++j) a(i, j) /= sums(i, 0);
  }
};

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  const Kokkos::DefaultExecutionSpace space;
  const shard::Mesh<Model> mesh(environment.world(), {0});
  const shard::PartitionSpec spec{shard::none, 0};

  const int rows = 4, columns = 10;
  const Matrix all("all", rows, columns);  // the whole matrix on every rank
  Kokkos::deep_copy(space, all, 0.5);

  const Matrix mine = shard::enable_manual_sharding(space, all, spec, mesh);
  std::printf("rank %d has %d x %d, padding and all\n", mesh.rank(), int(mine.extent(0)),
              int(mine.extent(1)));
  const Matrix sums("sums", mine.extent(0), 1);
  const Kokkos::RangePolicy each(space, 0, static_cast<int>(mine.extent(0)));
  Kokkos::parallel_for("row sums", each, RowSumsKernel{mine, sums});  // padding is zero
  shard::all_reduce<Model>(space, sums, sums, mesh);
  Kokkos::parallel_for("divide", each, DivideKernel{mine, sums});
  const auto scaled = shard::disable_manual_sharding(space, mine, spec, {rows, columns}, mesh);

  const auto whole = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), scaled.gather(space));
  if (mesh.rank() == 0)
    std::printf("%s: each of %d cells of a row is %g\n", scaled.sharding_text().c_str(), columns,
                whole(rows - 1, columns - 1));
  return whole(rows - 1, columns - 1) == 0.1 ? 0 : 1;
}
