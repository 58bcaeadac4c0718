// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a Reach has one Halo per dimension of the field that has a halo
#include <shard/shard.hpp>

struct X;
struct Y;

using Field =
    shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, X, shard::Halo<1>>,
                       shard::ShardDim<1, Y, shard::Halo<1>>>;

auto region(const Field& t) { return shard::interior(t, shard::Reach<shard::Halo<1>>{}); }
