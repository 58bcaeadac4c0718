// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Aurora of examples/models beside the modules of microsoft-aurora.
#include "examples/models/aurora.hpp"

#include "check_model.hpp"

namespace shard::testing {
namespace {

TEST(Models, Aurora) {
  ModelFile file{"aurora"};
  file.rename    = {{"encoder.atmos_latents", "encoder.atmos_latents.weight"},
                    {"encoder.surf_level_encoding", "encoder.surf_level_encoding.weight"},
                    {"encoder.surf_mlp.net.0.*", "encoder.surf_mlp.fc1.*"},
                    {"encoder.surf_mlp.net.2.*", "encoder.surf_mlp.fc2.*"},
                    {"encoder.level_agg.layers.*.0.**", "encoder.level_agg.*.attn.**"},
                    {"encoder.level_agg.layers.*.1.net.0.*", "encoder.level_agg.*.mlp.fc1.*"},
                    {"encoder.level_agg.layers.*.1.net.2.*", "encoder.level_agg.*.mlp.fc2.*"},
                    {"encoder.level_agg.layers.*.2.*", "encoder.level_agg.*.ln1.*"},
                    {"encoder.level_agg.layers.*.3.*", "encoder.level_agg.*.ln2.*"},
                    {"backbone.encoder_layers.0.downsample.**", "backbone.downsample.**"},
                    {"backbone.decoder_layers.0.upsample.**", "backbone.upsample.**"},
                    {"backbone.encoder_layers.0.**", "backbone.encoder0.**"},
                    {"backbone.encoder_layers.1.**", "backbone.encoder1.**"},
                    {"backbone.decoder_layers.0.**", "backbone.decoder0.**"},
                    {"backbone.decoder_layers.1.**", "backbone.decoder1.**"}};
  const auto net = model<double>(aurora::Aurora{});
  check_model<1, 5>(file, net, {2, 8, 5, 7, 9}, {{{"lead", {2, 8, 1, 1, 1}}}});
  expect_row(file, net, "microsoft-aurora 2.0.1");
}

}  // namespace
}  // namespace shard::testing
