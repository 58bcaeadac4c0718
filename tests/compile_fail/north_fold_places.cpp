// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the longitude of a NorthFold is Periodic, and no other fold turns it
// expect: a NorthFold is at the high end
// expect: a dimension with a NorthFold has a halo at its high end
#include <shard/shard.hpp>

struct X;
struct Y;

using North = shard::NorthFold<1, shard::Pivot::t_point>;
template <class OfY, class OfX, class H = shard::Halo<1>>
using Field = shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, Y, H, OfY>,
                                 shard::ShardDim<1, X, shard::Halo<1>, OfX>>;

int not_periodic() { return Field<shard::Sides<shard::Clamp, North>, shard::Clamp>::rank; }
int at_the_low_end() { return Field<shard::Sides<North, shard::Clamp>, shard::Periodic>::rank; }
int without_halo() {
  return Field<shard::Sides<shard::Clamp, North>, shard::Periodic, shard::Halo<1, 0>>::rank;
}
