// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the halo of each coefficient is at least N times the reach of a step
#include <shard/shard.hpp>

struct X;

template <int Width>
using Field =
    shard::ShardedView<double*, Kokkos::LayoutRight, shard::ShardDim<0, X, shard::Halo<Width>>>;

void loop(const Field<2>& t, const Field<1>& c) {
  shard::steps_per_exchange<2>(shard::Reach<shard::Halo<1>>{}, t)
      .fill(Kokkos::DefaultExecutionSpace(), c);
}
