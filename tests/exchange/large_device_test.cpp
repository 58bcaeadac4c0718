// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// More cells on a device than 32 bits count: kernels over a region, an exchange, a sum.
#include <Kokkos_Core.hpp>
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>

#include "shard/shard.hpp"

namespace {

struct X;
struct Y;
using namespace shard;
using Space = Kokkos::DefaultExecutionSpace;
using Bytes = ShardedView<std::int8_t**, Kokkos::LayoutRight, ShardDim<0, Y, Halo<1>, Periodic>,
                          ShardDim<1, X, Halo<1>, Periodic>>;

KOKKOS_FUNCTION std::int8_t number(index_t row, index_t column) {
  return static_cast<std::int8_t>((row * 31 + column * 7) % 101);
}
struct Fill {
  Bytes f;
  KOKKOS_FUNCTION void operator()(int i, int j) const { f(i, j) = number(i, j); }
};
/// Sets a cell to one where a neighbour below and to the right isn't what was filled in, else zero.
struct Compare {
  Bytes wrong, f;
  index_t rows, columns;
  KOKKOS_FUNCTION void operator()(int i, int j) const {
    wrong(i, j) =
        f(i + 1, j) == number((i + 1) % rows, j) && f(i, j + 1) == number(i, (j + 1) % columns) ? 0
                                                                                                : 1;
  }
};

TEST(LargeDevice, MoreThan32BitsCount) {
  const Mesh<Y, X> mesh(MPI_COMM_WORLD, {0, 0});
  if (mesh.size() > 1) GTEST_SKIP() << "one rank has it all";
  const index_t n = 66000;  // n n > 2^32
  const Space space;
  const Bytes f("f", mesh, {n, n}), wrong = f.like("wrong");
  shard::parallel_for("fill", space, owned_region(f), Fill{f});
  exchange(space, f);
  shard::parallel_for("compare", space, owned_region(f), Compare{wrong, f, n, n});
  EXPECT_EQ(sum(space, wrong), 0);
}

}  // namespace
