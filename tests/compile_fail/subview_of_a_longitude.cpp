// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: subview fixes a dimension that a fold or ByIndex names
#include <shard/shard.hpp>

struct X;
struct Y;

using Field = shard::ShardedView<
    double**, Kokkos::LayoutRight,
    shard::ShardDim<0, X, shard::Halo<1>, shard::PoleFold<1, shard::Pole::on_row>>>;

auto column(const Field& t) { return shard::subview(t, Kokkos::ALL, 0); }
