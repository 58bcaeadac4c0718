// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: an odd boundary changes the sign: it needs an arithmetic value type
#include <shard/shard.hpp>

struct X;
struct Y;

struct Wind {
  double u, v;
};
using Field = shard::ShardedView<
    Wind**, Kokkos::LayoutRight,
    shard::ShardDim<0, X, shard::Halo<1>,
                    shard::PoleFold<1, shard::Pole::on_row, shard::Parity::odd>>>;

void exchange(const Field& t) { shard::exchange(Kokkos::DefaultExecutionSpace(), t); }
