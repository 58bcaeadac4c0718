// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a ShardDim names a dimension that the ShardedView does not have
#include <shard/shard.hpp>

struct X;
struct Y;

using Field = shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<2, X>>;

int rank() { return Field::rank; }
