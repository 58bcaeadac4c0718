// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: channels that are joined can't be sharded
// expect: channels that are split can't be sharded
#include <shard/layers/pointwise/pointwise.hpp>
#include <shard/shard.hpp>

struct Lat;

using Field = shard::ShardedView<float***, Kokkos::LayoutRight, shard::ShardDim<1, Lat>>;

void use(const Kokkos::DefaultExecutionSpace& space, const Field& all, const Field& a,
         const Field& b) {
  shard::concat_channels(space, all, a, b);
  shard::split_channels(space, all, a, b);
}
