// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a ShardedView has rank 1 to 6
#include <shard/shard.hpp>

struct X;
struct Y;

using Field = shard::ShardedView<double*******, Kokkos::LayoutRight, shard::ShardDim<0, X>>;

int rank() { return Field::rank; }
