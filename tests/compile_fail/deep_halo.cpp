// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the halo of each field that is stepped is at least N times the reach of a step
#include <shard/shard.hpp>

struct X;

using Field =
    shard::ShardedView<double*, Kokkos::LayoutRight, shard::ShardDim<0, X, shard::Halo<3, 2>>>;

auto loop(const Field& t) {
  return shard::steps_per_exchange<3>(shard::Reach<shard::Halo<1>>{}, t);
}
