// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a mesh has one to five axes
// expect: Axes<...> names at least one mesh axis
// expect: extents are at least 1
// expect: a sequence has no negative number of chunks
#include <shard/shard.hpp>

struct A;
struct B;
struct C;
struct D;
struct E;
struct F;

int ranks(const shard::Mesh<A, B, C, D, E, F>& mesh) { return mesh.size(); }
using Uncut = shard::ShardedView<double*, Kokkos::LayoutRight, shard::ShardDim<0, shard::Axes<>>>;
shard::index_t rows(const Uncut& t) { return t.extent(0); }
int of_no_axis(const shard::Axes<>& axes) { return sizeof(axes); }
constexpr auto empty = shard::StaticMesh<4, 0>();
constexpr auto order = shard::zigzag_order<-1>();
