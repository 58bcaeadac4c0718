// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the ShardedView's halo is narrower than the layer needs
// expect: halo_is_wide_enough<
// expect: Needs<
#include <shard/shard.hpp>

struct Lat;

using Field = shard::ShardedView<float**, Kokkos::LayoutRight,
                                 shard::ShardDim<0, Lat, shard::Halo<1, 2>, shard::Clamp>>;

void use(const Kokkos::DefaultExecutionSpace& space, const Field& y, const Field& x) {
  shard::Stencil<shard::Offset<0, 0>, shard::Offset<-2, 0>>{{1.0, 2.0}}.apply(space, y, x);
}
