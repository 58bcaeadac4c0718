// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Somebody else's program: a periodic row of cells cut over all ranks, one exchange, and a look
// into the halo.
#include <shard/c/shard.h>

#include <shard/shard.hpp>

#include <cstdio>

struct Along;

using Row = shard::ShardedView<int*, Kokkos::LayoutRight,
                               shard::ShardDim<0, Along, shard::Halo<1>, shard::Periodic>>;

struct Number {  // each cell holds its global index
  Row row;
  KOKKOS_FUNCTION void operator()(int i) const { row(i) = static_cast<int>(row.to_global(0, i)); }
};

int main(int argc, char** argv) {
  shard::Environment environment(argc, argv);
  shard::Mesh<Along> mesh(environment.world(), {0});
  constexpr int cells = 11;
  Row row("row", mesh, {cells});

  Kokkos::DefaultExecutionSpace space;
  shard::parallel_for("number", space, shard::owned_region(row), Number{row});
  shard::exchange(space, row);

  if (shard_fence() != shard_ok) return 1;  // of the C interface's library

  const auto host = create_mirror_view(row);
  shard::deep_copy(space, host, row);
  space.fence();
  const int begin = static_cast<int>(row.begin(0)), count = static_cast<int>(row.extent(0));
  const bool right =
      host(-1) == (begin + cells - 1) % cells && host(count) == (begin + count) % cells;
  std::printf("rank %d of %d: %s\n", environment.rank(), environment.size(),
              right ? "the halo is right" : "the halo is WRONG");
  return right && environment.size() == 2 ? 0 : 1;
}
