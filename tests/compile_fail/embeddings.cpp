// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a PeriodicConv's kernel has two dimensions: latitude and longitude
// expect: a CrossEmbed's kernels are at least as wide as its stride
// expect: a CrossEmbed has at least one kernel
// expect: a CrossEmbed sums over all channels: they can't be sharded; redistribute before it
#include <shard/layers/window/cross_embed.hpp>
#include <shard/layers/window/periodic_conv.hpp>

using namespace shard;

struct Lat;

PeriodicConv<Kernel<3>, PaddingMode<Periodic>> one_dimension;
CrossEmbedBranch<Kernel<2, 2>, Stride<4, 4>> narrow;
CrossEmbed<Stride<2, 2>> empty;

using Halved = ShardedView<float****, Kokkos::LayoutRight, ShardDim<1, Lat>>;

void use(const Kokkos::DefaultExecutionSpace& space, const Halved& x) {
  const CrossEmbed<Stride<2, 2>, Kernel<2, 2>> embed;
  embed.apply(space, make_parameters<float>(embed, "embed"), x, x);
}
