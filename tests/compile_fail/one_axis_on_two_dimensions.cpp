// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a mesh axis shards at most one dimension
#include <shard/shard.hpp>

struct X;
struct Y;

using Field = shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, X>,
                                 shard::ShardDim<1, shard::Axes<Y, X>>>;

int rank() { return Field::rank; }
