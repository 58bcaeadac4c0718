// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a field over blocks has one dimension with Blocks, and one each with LinkedY and
// expect: the dimension that counts blocks has no halo: Blocks is the only option
// expect: LinkedY and LinkedX are the boundaries of both sides
#include <shard/shard.hpp>

struct Ranks;
struct Grid;

using One =
    shard::ShardedView<double***, Kokkos::LayoutRight,
                       shard::ShardDim<0, Ranks, shard::Blocks<Grid>>,
                       shard::ShardDim<1, shard::Unsharded, shard::Halo<1>, shard::LinkedY>>;
using Two   = shard::ShardDim<0, Ranks, shard::Blocks<Grid>, shard::Halo<1>>;
using Three = shard::ShardedView<double*, Kokkos::LayoutRight,
                                 shard::ShardDim<0, shard::Unsharded, shard::Halo<1>,
                                                 shard::Sides<shard::LinkedY, shard::Clamp>>>;

int rank() { return One::rank + Two::dim + Three::rank; }
