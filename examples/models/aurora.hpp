// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXAMPLES_MODELS_AURORA_HPP
#define SHARD_EXAMPLES_MODELS_AURORA_HPP

#include <tuple>
#include <vector>

#include "shard/shard.hpp"
#include "swin3d.hpp"

/// \file
/// Aurora (Bodnar et al. 2025) as microsoft-aurora has it, from embedded patches to the output of
/// the backbone: a Perceiver aggregates pressure levels to latent levels, then a U-Net of Swin
/// transformer blocks in three dimensions, whose norms are modulated by the lead time. Fields are
/// [batch, channel, level, latitude, longitude]; level 0 is the surface.

namespace aurora {

using shard::index_t;
using swin3d::Linear, swin3d::MLP, swin3d::Widths;
using Windows = shard::WindowAttention<2, 3, 4>;

// The encoder: along levels, at each point.

struct PerceiverAttention {
  Linear to_q, to_kv, to_out;
  shard::ColumnAttention columns;
  auto operator()(auto& m, const auto& latents, const auto& x) const {
    const index_t c = to_q.out;
    const auto kv   = m.run(shard::Split{1, {c, c}}, m.run(to_kv, x));
    return m.run(to_out, m.run(columns, m.run(to_q, latents), kv[0], kv[1]));
  }
};

struct PerceiverLayer {
  PerceiverAttention attn;
  MLP mlp;
  shard::LayerNorm ln1, ln2;
  auto operator()(auto& m, const auto& latents, const auto& x) const {
    const auto h = m.run(shard::Add{}, m.run(ln1, m.run(attn, latents, x)), latents);
    return m.run(shard::Add{}, m.run(ln2, m.run(mlp, h)), h);
  }
  static PerceiverLayer of(index_t dim, index_t heads) {
    return {{{dim, dim, 1, false}, {dim, 2 * dim, 1, false}, {dim, dim, 1, false}, {heads}},
            {{dim, 2 * dim}, {2 * dim, dim}},
            {dim},
            {dim}};
  }
};

/// To one surface level and `tokens` latent ones.
struct Encoder {
  shard::LearnedQueries surf_level_encoding;
  MLP surf_mlp;
  shard::LayerNorm surf_norm;
  shard::LearnedQueries atmos_latents;
  std::vector<PerceiverLayer> level_agg;
  Linear lead_time_embed;
  auto operator()(auto& m, const auto& x, const auto& lead) const {
    auto surface      = m.run(shard::Slice{2, 0, 1}, x);
    surface           = m.run(shard::Add{}, surface, m.run(surf_level_encoding, x));
    surface           = m.run(shard::Add{}, surface, m.run(surf_norm, m.run(surf_mlp, surface)));
    const auto levels = m.run(shard::Slice{2, 1}, x);
    auto latents      = m.run(atmos_latents, levels);
    for (const auto& layer : level_agg) latents = m.run(layer, latents, levels);
    const auto h = m.run(shard::Concatenate{2}, std::tuple(surface, latents));
    return m.run(shard::AddBroadcast{}, h, m.run(lead_time_embed, lead));
  }
};

// The backbone.

inline auto modulation_of(index_t context, index_t dim) {
  return shard::block(shard::SiLU{}, Linear{context, 2 * dim});
}
struct AdaptiveLayerNorm {
  decltype(modulation_of(1, 1)) ln_modulation;
  shard::Modulated<shard::LayerNorm> ln;
  auto operator()(auto& m, const auto& x, const auto& c) const {
    const index_t n  = ln.norm.channels;
    const auto parts = m.run(shard::Split{1, {n, n}}, m.run(ln_modulation, c));
    return m.run(ln, x, parts[1], parts[0]);  // scale and shift
  }
  static AdaptiveLayerNorm of(index_t dim, index_t context) {
    return {modulation_of(context, dim), {{dim, 1e-5, false}, 0.0}};
  }
};

/// In blocks that aren't shifted the field is padded to whole windows, and pads attend. In shifted
/// ones they don't, so windows at both ends are smaller.
struct WindowAttention {
  Linear qkv;
  Windows windows;
  Linear proj;
  swin3d::Pad pad;
  shard::Unpad<3> unpad;
  bool shifted;
  auto operator()(auto& m, const auto& x) const {
    const index_t c   = proj.in;
    const auto attend = [&](const auto& h) {
      const auto parts = m.run(shard::Split{1, {c, c, c}}, m.run(qkv, h));
      return m.run(windows, parts[0], parts[1], parts[2]);
    };
    return m.run(proj, shifted ? attend(x) : m.run(unpad, attend(m.run(pad, x))));
  }
  /// For fields of these latitudes and longitudes; levels are a multiple of the windows.
  static WindowAttention of(index_t dim, index_t heads, bool shifted, index_t lats, index_t lons) {
    const auto [low, high] = swin3d::pads_of<Windows>(lats, lons);
    Windows windows{.heads = heads};
    if (shifted) {
      windows.shift   = {1, 1, 2};
      windows.masked  = {true, true, false};  // longitude wraps round
      windows.centred = true;
    }
    return {
        {dim, 3 * dim}, windows, {dim, dim}, {.low = low, .high = high}, {.low = low, .high = high},
        shifted};
  }
};

struct Block {
  AdaptiveLayerNorm norm1;
  WindowAttention attn;
  AdaptiveLayerNorm norm2;
  MLP mlp;
  auto operator()(auto& m, const auto& x, const auto& c) const {
    const auto h = m.run(shard::Add{}, m.run(norm1, m.run(attn, x), c), x);
    return m.run(shard::Add{}, m.run(norm2, m.run(mlp, h), c), h);
  }
};

struct Blocks {
  std::vector<Block> blocks;
  auto operator()(auto& m, const auto& x, const auto& c) const {
    auto h = x;
    for (const auto& block : blocks) h = m.run(block, h, c);
    return h;
  }
  static Blocks of(int depth, index_t dim, index_t context, index_t heads, index_t lats,
                   index_t lons) {
    Blocks all;
    for (int i = 0; i < depth; ++i)
      all.blocks.push_back({AdaptiveLayerNorm::of(dim, context),
                            WindowAttention::of(dim, heads, i % 2 == 1, lats, lons),
                            AdaptiveLayerNorm::of(dim, context),
                            {{dim, 2 * dim}, {2 * dim, dim}}});
    return all;
  }
};

inline auto time_mlp_of(index_t dim) {
  return shard::block(Linear{dim, dim}, shard::SiLU{}, Linear{dim, dim});
}
/// Of two levels.
struct Backbone {
  decltype(time_mlp_of(1)) time_mlp;
  Blocks encoder0;
  swin3d::PatchMerging downsample;
  Blocks encoder1, decoder0;
  swin3d::PatchSplitting upsample;
  Blocks decoder1;
  auto operator()(auto& m, const auto& x, const auto& lead) const {
    const auto c    = m.run(time_mlp, lead);
    const auto skip = m.run(encoder0, x, c);
    auto h          = m.run(encoder1, m.run(downsample, skip), c);
    h               = m.run(upsample, m.run(decoder0, h, c));
    return m.run(shard::Concatenate{1}, std::tuple(m.run(decoder1, h, c), skip));
  }
  static Backbone of(index_t dim, index_t lats, index_t lons) {
    const Widths odd(0, lats % 2, lons % 2);
    const index_t half = (lats + 1) / 2, of_lons = (lons + 1) / 2;
    return {time_mlp_of(dim),
            Blocks::of(1, dim, dim, 2, lats, lons),
            swin3d::PatchMerging::of(dim, odd),
            Blocks::of(2, 2 * dim, dim, 4, half, of_lons),
            Blocks::of(1, 2 * dim, dim, 4, half, of_lons),
            swin3d::PatchSplitting::of(2 * dim, odd),
            Blocks::of(2, dim, dim, 2, lats, lons)};
  }
};

/// 8 channels, a surface and 3 latent levels; two heads of 4 channels.
struct Aurora {
  Encoder encoder{
      {1, 8}, {{8, 16}, {16, 8}}, {8}, {3, 8}, {PerceiverLayer::of(8, 2), PerceiverLayer::of(8, 2)},
      {8, 8}};
  Backbone backbone = Backbone::of(8, 7, 9);
  auto operator()(auto& m, const auto& x, const auto& lead) const {
    return m.run(backbone, m.run(encoder, x, lead), lead);
  }
};

}  // namespace aurora

#endif
