// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// FuXi of examples/models beside the module of miles-credit.
#include "examples/models/fuxi.hpp"

#include "check_model.hpp"

namespace shard::testing {
namespace {

TEST(Models, FuXi) {
  ModelFile file{"fuxi"};
  file.rename    = {{"cube_embedding.proj.*", "embedding.*"},
                    {"cube_embedding.norm.*", "norm.*"},
                    {"u_transformer.layer.**", "**"},
                    {"u_transformer.**", "**"},
                    {"**.attn.cpb_mlp.**", "**.attn.windows.cpb_mlp.**"},
                    {"**.logit_scale", "**.q_norm.logit_scale"},
                    {"**.q_bias", "**.q.bias"},
                    {"**.v_bias", "**.v.bias"}};
  const auto net = model<double>(fuxi::FuXi{});
  check_model(file, net, {2, 12, 20, 20});
  expect_row(file, net, "miles-credit 2026.2.0");
}

}  // namespace
}  // namespace shard::testing
