// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a Linear's tensor is sharded or Partial over other mesh axes than the arguments say;
// linear_result_t
#include <shard/shard.hpp>

struct Data;
struct Model;

using Right = Kokkos::LayoutRight;
using Space = Kokkos::DefaultExecutionSpace;

using X = shard::ShardedView<double**, Right, shard::ShardDim<1, Model>>;
using Y = shard::ShardedView<double**, Right>;
using W = shard::ShardedView<double**, Right, shard::ShardDim<1, Model>>;

void use(const Y& y, const X& x, const W& w) { shard::linear(Space(), y, x, w); }
