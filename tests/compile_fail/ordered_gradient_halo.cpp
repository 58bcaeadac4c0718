// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the ShardedView's halo is narrower than the ordered gradient needs
// expect: halo_is_wide_enough<
// expect: Needs<
#include <shard/layers/window/conv.hpp>
#include <shard/shard.hpp>

struct Lat;

using Layer = shard::Conv<shard::Kernel<3, 3>, shard::Padding<1, 1>>;
using Input = shard::ShardedView<float****, Kokkos::LayoutRight,
                                 shard::ShardDim<2, Lat, shard::Halo<1>, shard::Clamp>,
                                 shard::ShardDim<3, shard::Unsharded, shard::Halo<1>>>;
using Output =
    shard::ShardedView<float****, Kokkos::LayoutRight, shard::ShardDim<2, Lat, shard::Halo<1, 0>>>;

void use(const Kokkos::DefaultExecutionSpace& space, const Layer& layer,
         const Layer::Parameters<float>& parameters, const Input& dx, const Output& dy) {
  layer.pullback_input<shard::Determinism::ordered>(space, parameters, dx, dy);
}
