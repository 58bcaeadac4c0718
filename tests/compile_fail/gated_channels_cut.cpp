// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a gated unit's channels can't be sharded: redistribute before it
// expect: values that are broadcast are sharded as x, or not at all, in each dimension
#include <shard/layers/pointwise/gated.hpp>
#include <shard/layers/pointwise/multiply.hpp>
#include <shard/shard.hpp>

struct Lat;

using Channels = shard::ShardedView<float***, Kokkos::LayoutRight, shard::ShardDim<1, Lat>>;
using Points   = shard::ShardedView<float***, Kokkos::LayoutRight, shard::ShardDim<2, Lat>>;

void use(const Kokkos::DefaultExecutionSpace& space, const Channels& x, const Points& gate) {
  shard::GLU{}.apply(space, x, x);
  shard::Multiply{}.apply(space, x, x, gate);
}
