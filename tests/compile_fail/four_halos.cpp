// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a ShardedView has halos on at most three dimensions
#include <shard/shard.hpp>

struct X;
struct Y;

template <int D>
using Haloed = shard::ShardDim<D, shard::Unsharded, shard::Halo<1>>;
using Field =
    shard::ShardedView<double****, Kokkos::LayoutRight, Haloed<0>, Haloed<1>, Haloed<2>, Haloed<3>>;

int rank() { return Field::rank; }
