// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: staggered() keeps the boundary, and a mirror or a fold is at another distance
#include <shard/shard.hpp>

struct Lat;

template <class Boundary>
using Field = shard::ShardedView<double**, Kokkos::LayoutRight,
                                 shard::ShardDim<0, Lat, shard::Halo<1>, Boundary>>;

auto edges(const Field<shard::Sides<shard::Clamp, shard::Symmetric>>& t) {
  return t.staggered<Lat>();
}
