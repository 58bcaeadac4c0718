// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: deep_copy is between fields of the same Partials; use redistribute
#include <shard/shard.hpp>

struct X;

using Part  = shard::ShardedView<double**, Kokkos::LayoutRight, shard::Partial<X, shard::Sum>>;
using Whole = shard::ShardedView<double**, Kokkos::LayoutRight>;

void use(const Whole& to, const Part& from) {
  shard::deep_copy(Kokkos::DefaultExecutionSpace(), to, from);
}
