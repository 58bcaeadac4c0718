// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the adjoint of an exchange adds: it needs arithmetic value types
#include <shard/shard.hpp>

struct X;
struct Y;

using Field = shard::ShardedView<bool*, Kokkos::LayoutRight, shard::ShardDim<0, X, shard::Halo<1>>>;

void adjoint(const Field& t) { shard::exchange_adjoint(Kokkos::DefaultExecutionSpace(), t); }
