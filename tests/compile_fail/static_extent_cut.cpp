// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a dimension with a compile-time extent can't be sharded and has no halo
#include <shard/shard.hpp>

struct X;
struct Y;

using Field = shard::ShardedView<double* [4], Kokkos::LayoutRight, shard::ShardDim<1, X>>;

int rank() { return Field::rank; }
