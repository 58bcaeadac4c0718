// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a model's channels can't be sharded
#include <shard/model/domain_parallel.hpp>
#include <shard/shard.hpp>

struct Lat;

auto cut(const shard::Mesh<Lat>& mesh) {
  return shard::domain_parallel<shard::ShardDim<1, Lat>>(
      shard::sequential<float>(shard::Conv<shard::Kernel<1, 1>>{2, 2}), mesh);
}
