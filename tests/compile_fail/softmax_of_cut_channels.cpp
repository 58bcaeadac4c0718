// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a Softmax's channels can't be sharded
#include <shard/layers/pointwise/softmax.hpp>

struct X;

using Field = shard::ShardedView<double****, Kokkos::LayoutRight, shard::ShardDim<1, X>>;

void use(const Field& t) { shard::Softmax().apply(Kokkos::DefaultExecutionSpace(), t, t); }
