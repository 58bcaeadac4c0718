// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a HaloExchange's ShardDims are sharded over the axes that shard the field
#include <shard/shard.hpp>

struct Lat;
struct Lon;

using Field = shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, Lat>>;

auto other(const Field& x) {
  return shard::HaloExchange<shard::ShardDim<0, Lon, shard::Halo<1>>>().output(x);
}
