// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a Linear sums over x's last dimension: the same mesh axes shard it and the weight's
// columns, or none shards either
#include <shard/shard.hpp>

struct Data;
struct Model;

using Right = Kokkos::LayoutRight;
using Space = Kokkos::DefaultExecutionSpace;

using X = shard::ShardedView<double**, Right, shard::ShardDim<1, Model>>;
using Y = shard::ShardedView<double**, Right, shard::Partial<Model, shard::Sum>>;
using W = shard::ShardedView<double**, Right>;

void use(const Y& y, const X& x, const W& w) { shard::linear(Space(), y, x, w); }
