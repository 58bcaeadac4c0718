// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the layer's field is [batch, channel, one dimension for each of the kernel's]
// expect: the layer's field is [batch, channel, one for each spatial dimension]
// expect: partitions of [batch, channel, one dimension for each of the kernel's]
// expect: a layer's fields have the same rank
// expect: a layer's fields have the same value type
// expect: a layer's fields are sharded over the same mesh axes
// expect: the layers' kernels are compiled for float and double
#include <shard/shard.hpp>

using namespace shard;

struct Lat;
struct Lon;

using Line   = ShardedView<float***, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<1>>>;
using Plane  = ShardedView<float****, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<1>>,
                          ShardDim<3, Unsharded, Halo<1>>>;
using Double = ShardedView<double****, Kokkos::LayoutRight, ShardDim<2, Lat, Halo<1>>>;
using Counts = ShardedView<int****, Kokkos::LayoutRight, ShardDim<2, Lat>>;
using Turned = ShardedView<float****, Kokkos::LayoutRight, ShardDim<3, Lon>>;
using Layer  = Conv<Kernel<3, 3>, Padding<1, 1>>;

void use(const Kokkos::DefaultExecutionSpace& space, const Layer& layer,
         const Layer::Parameters<float>& parameters, const Line& line, const Plane& plane,
         const Double& wide, const Turned& turned, const Counts& counts) {
  layer.apply(space, parameters, line, line);
  layer.apply(space, parameters, line, plane);
  layer.apply(space, parameters, wide, plane);
  layer.apply(space, parameters, turned, plane);
  layer.output_partitions(line.partitions());
  Interpolate<2>{}.apply(space, line, line);
  add(space, counts, counts, counts);
}
