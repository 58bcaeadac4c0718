// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a PeriodicConv's kernel has two dimensions: latitude and longitude
// expect: a CrossEmbed's kernels are at least as wide as its stride
// expect: a CrossEmbed has at least one kernel
#include <shard/layers/cross_embed.hpp>
#include <shard/layers/periodic_conv.hpp>

using namespace shard;

PeriodicConv<Kernel<3>, PaddingMode<Periodic>> one_dimension;
CrossEmbedBranch<Kernel<2, 2>, Stride<4, 4>> narrow;
CrossEmbed<Stride<2, 2>> empty;
