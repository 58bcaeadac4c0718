// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a norm's channels can't be cut
#include <shard/shard.hpp>

struct X;

using Field = shard::ShardedView<double****, Kokkos::LayoutRight, shard::ShardDim<1, X>>;

void use(const Field& t) {
  const shard::GroupNorm norm{1, 4};
  auto state = norm.state(t);
  norm.apply(Kokkos::DefaultExecutionSpace(), state, shard::make_parameters<double>(norm, "norm"),
             t, t);
}
