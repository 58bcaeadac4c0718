// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the ShardedView's halo is narrower than the layer needs
// expect: halo_is_wide_enough<
// expect: Needs<
#include <shard/layers/window/conv.hpp>
#include <shard/shard.hpp>

struct Lat;

using Layer = shard::Conv<shard::Kernel<5, 5>, shard::Padding<2, 2>>;
using Field = shard::ShardedView<float****, Kokkos::LayoutRight,
                                 shard::ShardDim<2, Lat, shard::Halo<1>, shard::Clamp>,
                                 shard::ShardDim<3, shard::Unsharded, shard::Halo<2>>>;

void use(const Kokkos::DefaultExecutionSpace& space, const Layer& layer,
         const Layer::Parameters<float>& parameters, const Field& y, const Field& x) {
  layer.apply(space, parameters, y, x);
}
