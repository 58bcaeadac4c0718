// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the field has the tensor's rank, value type, layout and memory space
#include <shard/shard.hpp>

struct Lat;
using Tensor = shard::AnnotatedView<double**, Kokkos::LayoutRight>;
using Floats = shard::ShardedView<float**, Kokkos::LayoutRight, shard::ShardDim<0, Lat>>;

Floats give(const Tensor& t, const shard::Mesh<Lat>& mesh) {
  return shard::as_sharded<Floats>(t, mesh);
}
