// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the model has no layer of this name
#include <shard/model/sequential.hpp>
#include <shard/shard.hpp>

const void* decoder() {
  const auto model = shard::sequential<float>(shard::named<"encoder">(shard::SiLU{}));
  return &model.get<"decoder">();
}
