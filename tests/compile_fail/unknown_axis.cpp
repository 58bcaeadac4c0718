// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the mesh has no such axis
#include <shard/shard.hpp>

struct X;
struct Y;

using Field = shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, Y>>;

Field make(const shard::Mesh<X>& mesh) { return Field("t", mesh, {4, 4}); }
