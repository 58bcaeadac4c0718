// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a halo's widths are not negative
#include <shard/shard.hpp>

struct X;
struct Y;

using Field =
    shard::ShardedView<double*, Kokkos::LayoutRight, shard::ShardDim<0, X, shard::Halo<1, -1>>>;

int rank() { return Field::rank; }
