// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a dimension has at most one ShardDim
#include <shard/shard.hpp>

struct X;
struct Y;

using Field =
    shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, X>, shard::ShardDim<0, Y>>;

int rank() { return Field::rank; }
