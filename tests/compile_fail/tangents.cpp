// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a tangent is that of the input, of the parameters or of both
#include <shard/shard.hpp>

struct Lat;

using Layer = shard::Conv<shard::Kernel<3>, shard::Padding<1>>;
using Field =
    shard::ShardedView<float***, Kokkos::LayoutRight, shard::ShardDim<2, Lat, shard::Halo<1>>>;

void use(const Kokkos::DefaultExecutionSpace& space, const Layer& layer,
         const Layer::Parameters<float>& parameters, const Field& y, const Field& x) {
  layer.pushforward(space, parameters, shard::not_wanted, y, shard::not_wanted, x);
}
