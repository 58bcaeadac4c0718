// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a ShardedView's layout is LayoutRight or LayoutLeft
// expect: a ShardDim's options are one Halo and one boundary (Zero, Constant, Periodic, Reflect,
// expect: is_shard_dim_option<int>
// expect: the Sides of a dimension are two of Zero, Constant, Reflect, Symmetric, Odd,
// expect: is_boundary<Tiled>
// expect: a ShardDim has at most one Halo and one boundary
// expect: a Reach is made of Halos, one per dimension with a halo
// expect: deep_copy is between fields of the same rank
// expect: trim names a dimension that the View does not have
// expect: subview keeps at least one dimension
// expect: no dimension of the field is sharded over this mesh axis
// expect: give one extent for each dimension of the field, or each axis of the mesh
#include <shard/shard.hpp>

struct X;
struct Y;
struct Tiled;

using Right = Kokkos::LayoutRight;
template <class... Options>
using Line  = shard::ShardedView<double*, Right, shard::ShardDim<0, X, Options...>>;
using Plane = shard::ShardedView<double**, Right, shard::ShardDim<0, X>>;
const Kokkos::DefaultExecutionSpace space;

shard::index_t rows(const shard::ShardedView<double*, Tiled>& t) { return t.extent(0); }
shard::index_t rows(const Line<int>& t) { return t.extent(0); }
shard::index_t rows(const Line<shard::Sides<shard::Zero, Tiled>>& t) { return t.extent(0); }
shard::index_t rows(const Line<shard::Halo<1>, shard::Halo<2>>& t) { return t.extent(0); }
auto region(const Line<shard::Halo<1>>& t) { return shard::interior(t, shard::Reach<int>{}); }
void copy(const Line<>& to, const Plane& from) { shard::deep_copy(space, to, from); }
auto cells(const Kokkos::View<double*>& view) { return shard::trim<1>(view, 1, 1); }
auto cell(const shard::ShardedView<double*, Right>& t) { return shard::subview(t, 3); }
auto edges(const Plane& t) { return t.template staggered<Y>("edges"); }
Line<> too_many(const shard::Mesh<X>& mesh) { return {"t", mesh, {3, 4}}; }
