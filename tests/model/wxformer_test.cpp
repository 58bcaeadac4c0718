// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// WXFormer of examples/models beside the module of miles-credit.
#include "examples/models/wxformer.hpp"

#include "check_model.hpp"

namespace shard::testing {
namespace {

TEST(Models, WXFormer) {
  ModelFile file{"wxformer"};
  file.rename = {{"**.g", "**.weight"}, {"**.b", "**.bias"}, {"**.convs.*.1.*", "**.convs.*.*"}};
  for (const std::string stage : {"0", "1", "2", "3"}) {
    file.rename.emplace_back("layers." + stage + ".0.**", "stage" + stage + ".embed.**");
    const char* const parts[] = {"short_attn", "short_ff", "long_attn", "long_ff"};
    for (int p = 0; p < 4; ++p)
      file.rename.emplace_back("layers." + stage + ".1.layers.*." + std::to_string(p) + ".**",
                               "stage" + stage + ".layers.*." + parts[p] + ".**");
  }
  const auto net = model<double>(wxformer::WXFormer{});
  check_model(file, net, {2, 6, 24, 12});
  expect_row(file, net, "miles-credit 2026.2.0");
}

}  // namespace
}  // namespace shard::testing
