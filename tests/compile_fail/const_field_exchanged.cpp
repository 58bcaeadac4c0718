// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: it needs fields of a value type that isn't const
#include <shard/shard.hpp>

struct X;
struct Y;

using Field =
    shard::ShardedView<const double*, Kokkos::LayoutRight, shard::ShardDim<0, X, shard::Halo<1>>>;

void exchange(const Field& t) { shard::exchange(Kokkos::DefaultExecutionSpace(), t); }
