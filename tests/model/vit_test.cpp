// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The vision transformer of examples/models beside PyTorch.
#include "examples/models/vit.hpp"

#include "check_model.hpp"

namespace shard::testing {
namespace {

TEST(Models, VisionTransformer) {
  ModelFile file{"vit"};
  const auto net = model<double>(vit::ViT{});
  check_model(file, net, {2, 3, 20, 28});
  expect_row(file, net, "plain PyTorch");
}

}  // namespace
}  // namespace shard::testing
