// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: subview fixes a dimension that is sharded or has a halo
#include <shard/shard.hpp>

struct X;
struct Y;

using Field = shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, X>>;

auto row(const Field& t) { return shard::subview(t, 0, Kokkos::ALL); }
