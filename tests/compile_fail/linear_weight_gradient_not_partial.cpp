// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a Linear's tensor is sharded or Partial over other mesh axes than the arguments say;
// linear_result_t
#include <shard/shard.hpp>

struct Data;
struct Model;

using Right = Kokkos::LayoutRight;
using Space = Kokkos::DefaultExecutionSpace;

using X = shard::ShardedView<double**, Right, shard::ShardDim<0, Data>>;
using W = shard::ShardedView<double**, Right>;

void use(const W& dw, const X& dy, const X& x) {
  shard::linear_pullback_weight(Space(), dw, dy, x);
}
