// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a ShardedView's options are ShardDims, Partials and at most one space or device
#include <shard/shard.hpp>

struct X;
struct Y;

using Field = shard::ShardedView<double*, Kokkos::LayoutRight, shard::ShardDim<0, X>,
                                 Kokkos::HostSpace, Kokkos::DefaultHostExecutionSpace>;

int rank() { return Field::rank; }
