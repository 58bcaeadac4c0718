// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a cotangent may be a Partial sum, not a Partial maximum or minimum
// expect: the adjoint of redistribute adds: it needs an arithmetic value type
// expect: the adjoint of redistribute adds to its first field
#include <shard/shard.hpp>

struct X;

using Rows    = shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, X>>;
using Largest = shard::ShardedView<double**, Kokkos::LayoutRight, shard::Partial<X, shard::Max>>;
using Flags   = shard::ShardedView<bool**, Kokkos::LayoutRight>;
using Seen    = shard::ShardedView<const double**, Kokkos::LayoutRight>;
const Kokkos::DefaultExecutionSpace space;

void of_maxima(const Rows& dx, const Largest& dy) { shard::redistribute_adjoint(space, dx, dy); }
void of_flags(const Flags& dx) { shard::redistribute_adjoint(space, dx, dx); }
void to_const(const Seen& dx, const Rows& dy) { shard::redistribute_adjoint(space, dx, dy); }
