// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a PoleFold names another dimension of the field as its longitude
#include <shard/shard.hpp>

struct X;
struct Y;

using Field = shard::ShardedView<
    double**, Kokkos::LayoutRight,
    shard::ShardDim<0, X, shard::Halo<1>, shard::PoleFold<0, shard::Pole::on_row>>>;

int rank() { return Field::rank; }
