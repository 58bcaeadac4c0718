// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the ShardedView's boundary isn't the layer's padding mode
// expect: boundary_is_the_padding_mode<
#include <shard/shard.hpp>

struct Lat;

using Layer = shard::Conv<shard::Kernel<3>, shard::Padding<1>, shard::PaddingMode<shard::Reflect>>;
using Field = shard::ShardedView<float***, Kokkos::LayoutRight,
                                 shard::ShardDim<2, Lat, shard::Halo<1>, shard::Clamp>>;

void use(const Kokkos::DefaultExecutionSpace& space, const Layer& layer,
         const Layer::Parameters<float>& parameters, const Field& y, const Field& x) {
  layer.apply(space, parameters, y, x);
}
