// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a coefficient is Periodic in each dimension in which the fields that are stepped are
#include <shard/shard.hpp>

struct X;

template <class Boundary>
using Field = shard::ShardedView<double*, Kokkos::LayoutRight,
                                 shard::ShardDim<0, X, shard::Halo<2>, Boundary>>;

void loop(const Field<shard::Periodic>& t, const Field<shard::Clamp>& c) {
  shard::steps_per_exchange<2>(shard::Reach<shard::Halo<1>>{}, t)
      .fill(Kokkos::DefaultExecutionSpace(), c);
}
