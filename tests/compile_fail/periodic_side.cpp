// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a Periodic dimension has no sides
#include <shard/shard.hpp>

struct X;
struct Y;

using Field = shard::ShardedView<
    double*, Kokkos::LayoutRight,
    shard::ShardDim<0, X, shard::Halo<1>, shard::Sides<shard::Periodic, shard::Clamp>>>;

int rank() { return Field::rank; }
