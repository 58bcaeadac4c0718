// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: an ExpectedShard has the extents [batch, channel, space...] of a shard
// expect: merge_halos needs an ExpectedShard<batch, channels, space...> with all dimensions of
// the model
#include <shard/model/merge_halos.hpp>

struct Lat;

using Conv3 = shard::Conv<shard::Kernel<3, 3>, shard::Padding<1, 1>>;

auto model() { return shard::sequential<float>(Conv3{2, 2}, Conv3{2, 2}); }

auto told_nothing(const shard::Mesh<Lat>& mesh) {
  return shard::domain_parallel<Lat>(model(), mesh, shard::merge_halos<>());
}
auto one_dimension_of_two(const shard::Mesh<Lat>& mesh) {
  return shard::domain_parallel<Lat>(model(), mesh,
                                     shard::merge_halos<shard::ExpectedShard<1, 64, 90>>());
}
auto with_a_halo(const shard::Mesh<Lat>& mesh) {
  return shard::domain_parallel<Lat>(model(), mesh,
                                     shard::merge_halos<shard::MergeAlways, shard::Halo<1>>());
}
using NoChannels = decltype(shard::ExpectedShard<90, 180>{});
