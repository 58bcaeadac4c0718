// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a model has at least one layer
// expect: the layers of a model have as many spatial dimensions as its cuts, or any
// expect: the path goes on below a layer that has no layers in it
#include <shard/shard.hpp>

struct Lat;

auto nothing() { return shard::sequential<float>(); }

auto mixed(const shard::Mesh<Lat>& mesh) {
  return shard::domain_parallel<Lat>(
      shard::sequential<float>(shard::Conv<shard::Kernel<1, 1>>{1, 1},
                               shard::Conv<shard::Kernel<1>>{1, 1}),
      mesh);
}

const void* below() {
  const auto model = shard::sequential<float>(shard::SiLU{});
  return &model.get<"0.1">();
}
