// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: ShardedFrom has fewer placements than the mesh has axes
// expect: ShardedFrom has more placements than the mesh has axes
// expect: ShardedFrom takes a Shard, Replicate or Partial for each axis of the mesh
// expect: a Partial is at the position of its own mesh axis
// expect: a Shard names a dimension that the data type does not have
#include <shard/shard.hpp>

struct X;
struct Y;

using Grid = shard::Mesh<X, Y>;
template <class... P>
using From = shard::ShardedFrom<double**, Kokkos::LayoutRight, Grid, P...>;

using Fewer     = From<shard::Shard<0>>;
using More      = From<shard::Shard<0>, shard::Replicate, Kokkos::HostSpace, shard::Replicate>;
using Other     = From<shard::Shard<0>, int>;
using Misplaced = From<shard::Partial<Y, shard::Sum>, shard::Replicate>;
using Beyond    = From<shard::Shard<2>, shard::Replicate>;
