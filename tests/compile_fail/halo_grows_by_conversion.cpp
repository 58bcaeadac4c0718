// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: could not convert
#include <shard/shard.hpp>

struct X;
struct Y;

using Narrow =
    shard::ShardedView<double*, Kokkos::LayoutRight, shard::ShardDim<0, X, shard::Halo<1>>>;
using Wide =
    shard::ShardedView<double*, Kokkos::LayoutRight, shard::ShardDim<0, X, shard::Halo<2>>>;

Wide widen(const Narrow& t) { return t; }
