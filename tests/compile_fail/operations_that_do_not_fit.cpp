// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a chain has at least one operation
// expect: a HaloExchange names the ShardDims that get a halo
// expect: a HaloExchange's ShardDims are sharded over the axes that shard the field
// expect: an external function's fields hold doubles
// expect: a tangent needs an operation with pushforward
#include <shard/shard.hpp>

using namespace shard;

struct Lat;
struct Lon;

using Field = ShardedView<float**, Kokkos::LayoutRight, ShardDim<0, Lat>>;

HaloExchange<> of_no_dimension;

auto turned(const Field& t) { return HaloExchange<ShardDim<0, Lon, Halo<1>>>{}.output(t); }
auto nothing(const Field& t) { return chain(t); }
struct NoTangent {
  template <class Space>
  void apply(const Space&, const Field&, const Field&) const {}
};
void tangent(const Kokkos::DefaultExecutionSpace& space, const Field& t) {
  chain(t, NoTangent{}).pushforward(space, t, t, t);
}

void called(const Kokkos::DefaultExecutionSpace& space, const Field& t, const double* in,
            double* out) {
  ExternalFunction<Kokkos::DefaultExecutionSpace, SiLU, Field, Field>(space, {}, t, t)
      .apply(in, out);
}
