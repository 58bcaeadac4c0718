// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The Pangu-Weather of examples/models beside PyTorch.
#include "examples/models/pangu.hpp"

#include "check_model.hpp"

namespace shard::testing {
namespace {

TEST(Models, Pangu) {
  ModelFile file{"pangu"};
  file.rename    = {{"**.earth_specific_bias", "**.windows.earth_specific_bias"}};
  const auto net = model<double>(pangu::Pangu{});
  check_model<0, 5>(file, net, {2, 2, 7, 14, 16});
  expect_row(file, net, "plain PyTorch");
}

}  // namespace
}  // namespace shard::testing
