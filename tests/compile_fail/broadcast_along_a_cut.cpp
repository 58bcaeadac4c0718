// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: broadcast is along an axis that neither shards the field nor is Partial
#include <shard/shard.hpp>

struct X;

using Rows = shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, X>>;

void use(const Rows& t) { shard::broadcast<X>(Kokkos::DefaultExecutionSpace(), t); }
