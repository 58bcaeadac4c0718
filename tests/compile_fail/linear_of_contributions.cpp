// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: this needs the field's values, and a Partial field holds contributions to them:
// redistribute it first
#include <shard/shard.hpp>

struct Data;
struct Model;

using Right = Kokkos::LayoutRight;
using Space = Kokkos::DefaultExecutionSpace;

using X = shard::ShardedView<double**, Right, shard::Partial<Model, shard::Sum>>;
using W = shard::ShardedView<double**, Right>;

void use(const X& y, const X& x, const W& w) { shard::linear(Space(), y, x, w); }
