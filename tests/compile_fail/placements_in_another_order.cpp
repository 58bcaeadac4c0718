// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: axes that shard one dimension in another order than the mesh's can't be given
// expect: the field names an axis that the mesh does not have
#include <shard/shard.hpp>

struct X;
struct Y;

using Field =
    shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, shard::Axes<Y, X>>>;

using Turned = shard::placements_of<Field, shard::Mesh<X, Y>>;
using Fewer  = shard::placements_of<Field, shard::Mesh<X>>;
