// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The U-Net of a diffusion model of examples/models beside PyTorch.
#include "examples/models/diffusion_unet.hpp"

#include "check_model.hpp"

namespace shard::testing {
namespace {

TEST(Models, DiffusionUNet) {
  ModelFile file{"diffusion_unet"};
  const auto net = model<double>(diffusion::UNet{});
  check_model<1>(file, net, {2, 2, 14, 12}, {{{"level", {2, 1, 1, 1}}}});
  expect_row(file, net, "plain PyTorch");
}

}  // namespace
}  // namespace shard::testing
