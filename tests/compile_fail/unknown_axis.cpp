// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the mesh has no such axis
// expect: mesh_has_axis<Y, shard::Mesh<X>
// expect: mesh_has_axis<Z, shard::Mesh<X, Y>
// expect: no dimension of the field is sharded over this mesh axis
// expect: only names an axis along which no field of the exchange has a halo
// expect: has_halo_along<Y,
// expect: has_halo_along<shard::Unsharded,
// expect: only names the axes along which halos are filled
// expect: a width of 0 on both sides fills nothing
// expect: width asks for more than the halo of any field of the exchange
// expect: allocate names a field by its number among those of the exchange, from 0
// expect: the field has no such dimension
#include <shard/shard.hpp>

struct X;
struct Y;
struct Z;

using Field = shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, Y>>;
using Rows =
    shard::ShardedView<double**, Kokkos::LayoutRight,
                       shard::ShardDim<0, X, shard::Halo<1>, shard::Clamp>, shard::ShardDim<1, Y>>;

Field make(const shard::Mesh<X>& mesh) { return Field("t", mesh, {4, 4}); }
int ranks(const shard::Mesh<X, Y>& mesh) { return mesh.size<Z>(); }
auto edges(const Rows& t) { return t.staggered<Z>(); }
auto no_halo(const shard::Exchange<Rows>& halos) { return halos.only<X, Y>(); }
auto no_unsharded_halo(const shard::Exchange<Rows>& halos) {
  return halos.only<shard::Unsharded>();
}
auto no_axis(const shard::Exchange<Rows>& halos) { return halos.only<>(); }
auto no_width(const shard::Exchange<Rows>& halos) { return halos.width<shard::Halo<0>>(); }
auto too_wide(const shard::Exchange<Rows>& halos) { return halos.width<shard::Halo<1, 2>>(); }
auto second(const shard::Exchange<Rows>& halos) { return halos.allocate<1>("second"); }
constexpr int width = Rows::halo<2>::lo;
