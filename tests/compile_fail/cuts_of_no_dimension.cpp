// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a cut names a dimension that the model's fields do not have, or one that another cut
// names
// expect: a ShardDim that shards a model has no Halo and no boundary: its layers say which they
// need
#include <shard/shard.hpp>

struct Lat;
struct Lon;
struct Level;

using Layer = shard::Conv<shard::Kernel<3, 3>, shard::Padding<1, 1>>;
using Model = shard::Module<double, Kokkos::HostSpace, Layer>;
using Mesh  = shard::Mesh<Lat, Lon, Level>;

template <class... Cuts>
auto cut(const Model& model, const Mesh& mesh) {
  return shard::domain_parallel<Cuts...>(model, mesh);
}
auto beyond(const Model& model, const Mesh& mesh) {
  return cut<shard::ShardDim<4, Lat>>(model, mesh);  // [batch, channel, y, x]
}
auto three(const Model& model, const Mesh& mesh) { return cut<Lat, Lon, Level>(model, mesh); }
auto twice(const Model& model, const Mesh& mesh) {
  return cut<shard::ShardDim<-1, Lat>, shard::ShardDim<3, Lon>>(model, mesh);
}
auto with_halo(const Model& model, const Mesh& mesh) {
  return cut<shard::ShardDim<-1, Lat, shard::Halo<1>>>(model, mesh);
}
