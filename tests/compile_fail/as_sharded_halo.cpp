// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: as_sharded hands over the same memory, which has no halo
// expect: a field becomes an AnnotatedView if it has no halo
#include <shard/shard.hpp>

struct Lat;
using Tensor = shard::AnnotatedView<double**, Kokkos::LayoutRight>;
using Haloed =
    shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, Lat, shard::Halo<1>>>;

Haloed give(const Tensor& t, const shard::Mesh<Lat>& mesh) {
  return shard::as_sharded<Haloed>(t, mesh);
}
auto take(const Haloed& t) { return shard::wrap_as_sharded(t); }
