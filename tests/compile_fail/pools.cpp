// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a pooling ignores cells outside the domain: it has no padding mode
// expect: a pooling's padding is at most half of its window
// expect: an AvgPool has no dilation
// expect: a MaxPool counts no cells: ExcludePadding is for an AvgPool
// expect: pixels are shuffled by a factor of at least one, in one to three dimensions
// expect: pixels are shuffled in at least one dimension
// expect: a field of pixels is [batch, channel, as many dimensions as are shuffled]
#include <shard/layers/resampling/pixel_shuffle.hpp>
#include <shard/layers/resampling/pool.hpp>
#include <shard/shard.hpp>

using namespace shard;

struct Lat;

MaxPool<Kernel<3>, Padding<1>, PaddingMode<Reflect>> padded;
MaxPool<Kernel<3>, Padding<2>> wide;
AvgPool<Kernel<3>, Dilation<2>> dilated;
MaxPool<Kernel<3>, ExcludePadding> counted;

using Line = ShardedView<float***, Kokkos::LayoutRight, ShardDim<2, Lat>>;

void use(const Kokkos::DefaultExecutionSpace& space, const Line& line) {
  PixelShuffle<2, 4>{}.apply(space, line, line);
  PixelShuffle<2, 2>{}.apply(space, line, line);
  PixelShuffle<2, 1, PixelOrder::channels_first, 1>{}.apply(space, line, line);
}
