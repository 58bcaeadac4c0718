// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: this needs the field's values, and a Partial field holds contributions to them:
// redistribute it first
#include <shard/shard.hpp>

struct X;
struct Y;

using Field =
    shard::ShardedView<double****, Kokkos::LayoutRight, shard::ShardDim<2, Y, shard::Halo<1>>,
                       shard::Partial<X, shard::Sum>>;

void use(const Field& t) { shard::sum(Kokkos::DefaultExecutionSpace(), t); }
