// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the array on the root has the field's rank and value type
// expect: gather writes its array: it needs a value type that isn't const
// expect: distribute writes the field: it needs a value type that isn't const
#include <shard/shard.hpp>

struct X;

using Rows = shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, X>>;
using Seen = shard::ShardedView<const double**, Kokkos::LayoutRight, shard::ShardDim<0, X>>;
const Kokkos::DefaultExecutionSpace space;

void floats(const Rows& t, const Kokkos::View<float**>& a) { shard::distribute(space, t, a); }
void to_const(const Rows& t, const Kokkos::View<const double**>& a) { shard::gather(space, a, t); }
void to_seen(const Seen& t, const Kokkos::View<double**>& a) { shard::distribute(space, t, a); }
