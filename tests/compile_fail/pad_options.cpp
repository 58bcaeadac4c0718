// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a Pad's options are boundaries, one for each of one to three spatial dimensions
// expect: is_boundary<shard::Halo<1
// expect: a PoleFold's longitude is another spatial dimension: 2 is the first
// expect: an Unpad is of one, two or three dimensions
// expect: a pad writes its first field: it needs a value type that isn't const
#include <shard/layers/window/pad.hpp>

shard::Pad<shard::Reflect, shard::Halo<1>> no_boundary;
shard::Pad<shard::PoleFold<2, shard::Pole::between_rows>, shard::Periodic> over_itself;
shard::Unpad<4> of_four;

struct Lat;
using Plane = shard::ShardedView<const double****, Kokkos::LayoutRight, shard::ShardDim<2, Lat>>;

void use(const Kokkos::DefaultExecutionSpace& space, const Plane& y, const Plane& x) {
  shard::MirrorPad{}.apply(space, y, x);
}
