// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: an offset has as many entries as a field has dimensions, 1 to 6
// expect: a stencil has at least one offset
// expect: a stencil's offsets have the same number of entries
// expect: a stencil's offsets have one entry per dimension of the field
// expect: a stencil multiplies and adds: it needs an arithmetic value type
// expect: a stencil's fields have the same layout
// expect: a star's dimensions are the field's
#include <shard/shard.hpp>

using namespace shard;

struct Lat;

using Field = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Lat, Halo<1>>>;
using Left  = ShardedView<double**, Kokkos::LayoutLeft, ShardDim<0, Lat, Halo<1>>>;
using Flags = ShardedView<bool**, Kokkos::LayoutRight, ShardDim<0, Lat, Halo<1>>>;

Offset<> nowhere;
Stencil<> empty;
StarStencil<2, 2> beyond{{1.0, 1.0, 1.0}};

void use(const Kokkos::DefaultExecutionSpace& space, const Field& t, const Left& left,
         const Flags& flags) {
  Stencil<Offset<0, 1>, Offset<1>>{{1.0, 1.0}}.apply(space, t, t);
  Stencil<Offset<0>>{{1.0}}.apply(space, t, t);
  Stencil<Offset<0, 0>>{{1.0}}.apply(space, flags, flags);
  Stencil<Offset<0, 0>>{{1.0}}.apply(space, left, t);
}
