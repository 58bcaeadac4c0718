// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: elementwise parameters are sharded as the input's channels and points
// expect: a layer's field has one to three spatial dimensions
// expect: the layer's field is [batch, channel, one for each spatial dimension]
#include <shard/layers/norm/elementwise_layer_norm.hpp>
#include <shard/shard.hpp>

struct Lat;
struct Lon;

using Field = shard::ShardedView<double****, Kokkos::LayoutRight, shard::ShardDim<2, Lat>>;
using Other = shard::ShardedView<double***, Kokkos::LayoutRight, shard::ShardDim<1, Lon>>;

shard::ElementwiseLayerNorm<4> deep;

void use(const Field& x, const Other& weight) {
  const shard::ElementwiseLayerNorm<2> norm{{4, 8, 8}};
  auto state = norm.state(x);
  norm.apply(Kokkos::DefaultExecutionSpace(), state,
             shard::ElementwiseParameters<Other>{weight, weight}, x, x);
  shard::ElementwiseLayerNorm<1>().apply(Kokkos::DefaultExecutionSpace(), state, shard::not_wanted,
                                         x, x);
}
