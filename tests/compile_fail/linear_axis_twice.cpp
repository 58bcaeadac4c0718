// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a mesh axis that shards a Linear's input can't shard the weight's rows too
#include <shard/shard.hpp>

struct Data;
struct Model;

using Right = Kokkos::LayoutRight;
using Space = Kokkos::DefaultExecutionSpace;

using X = shard::ShardedView<double**, Right, shard::ShardDim<0, Data>>;
using W = shard::ShardedView<double**, Right, shard::ShardDim<0, Data>>;

void use(const X& y, const X& x, const W& w) { shard::linear(Space(), y, x, w); }
