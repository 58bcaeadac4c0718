// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXAMPLES_MODELS_PANGU_HPP
#define SHARD_EXAMPLES_MODELS_PANGU_HPP

#include <tuple>
#include <vector>

#include "shard/shard.hpp"
#include "swin3d.hpp"

/// \file
/// The 3D Earth-specific transformer of Pangu-Weather (Bi et al. 2023), small: patches of the
/// surface (level 0) and of the upper air, Swin transformer blocks in three dimensions with
/// earth-specific biases, one level down and up. Latitudes are padded to whole windows; longitude
/// wraps round.

namespace pangu {

using shard::index_t;
using swin3d::Linear, swin3d::MLP, swin3d::Widths;
using Windows = shard::WindowAttention<2, 3, 2>;

/// The extents of a level of the U-Net.
struct Extents {
  index_t levels, lats, lons;
};

struct EarthAttention {
  swin3d::Pad pad;
  Linear qkv, proj;
  shard::Biased<Windows, shard::EarthBias> windows;
  shard::Unpad<3> unpad;
  auto operator()(auto& m, const auto& x) const {
    const index_t c  = proj.in;
    const auto parts = m.run(shard::Split{1, {c, c, c}}, m.run(qkv, m.run(pad, x)));
    return m.run(proj, m.run(unpad, m.run(windows, parts[0], parts[1], parts[2])));
  }
  static EarthAttention of(index_t dim, index_t heads, bool shifted, const Extents& n) {
    const auto [low, high] = swin3d::pads_of<Windows>(n.lats, n.lons);
    Windows windows{.heads = heads};
    if (shifted) {
      windows.shift  = {1, 1, 1};
      windows.masked = {true, true, false};  // longitude wraps round
    }
    const index_t types =
        n.levels / Windows::sizes[0] * ((n.lats + low[1] + high[1]) / Windows::sizes[1]);
    return {{.low = low, .high = high},
            {dim, 3 * dim},
            {dim, dim},
            {windows, types},
            {.low = low, .high = high}};
  }
};

struct Block {
  EarthAttention attn;
  shard::LayerNorm norm1;
  MLP mlp;
  shard::LayerNorm norm2;
  auto operator()(auto& m, const auto& x) const {
    const auto h = m.run(shard::Add{}, m.run(norm1, m.run(attn, x)), x);
    return m.run(shard::Add{}, m.run(norm2, m.run(mlp, h)), h);
  }
};

inline std::vector<Block> blocks_of(index_t dim, index_t heads, const Extents& n) {
  std::vector<Block> blocks;
  for (const bool shifted : {false, true})
    blocks.push_back({EarthAttention::of(dim, heads, shifted, n),
                      {dim},
                      {{dim, 2 * dim}, {2 * dim, dim}},
                      {dim}});
  return blocks;
}

/// 2 variables at the surface and at 6 levels, 14 x 16 points: 4 x 7 x 8 patches.
struct Pangu {
  shard::Conv<shard::Kernel<1, 2, 2>, shard::Stride<1, 2, 2>> embed_surface{2, 8};
  shard::Conv<shard::Kernel<2, 2, 2>, shard::Stride<2, 2, 2>> embed_upper{2, 8};
  std::vector<Block> layer1       = blocks_of(8, 2, {4, 7, 8});
  swin3d::PatchMerging downsample = swin3d::PatchMerging::of(8, {0, 1, 0});
  std::vector<Block> layer2       = blocks_of(16, 4, {4, 4, 4});
  swin3d::PatchSplitting upsample = swin3d::PatchSplitting::of(16, {0, 1, 0});
  std::vector<Block> layer3       = blocks_of(8, 2, {4, 7, 8});
  shard::ConvTranspose<shard::Kernel<1, 2, 2>, shard::Stride<1, 2, 2>> recover_surface{16, 2};
  shard::ConvTranspose<shard::Kernel<2, 2, 2>, shard::Stride<2, 2, 2>> recover_upper{16, 2};
  auto operator()(auto& m, const auto& x) const {
    const auto through = [&](const std::vector<Block>& blocks, auto h) {
      for (const auto& block : blocks) h = m.run(block, h);
      return h;
    };
    const auto parts = [&](const auto& h) {
      return std::pair(m.run(shard::Slice{2, 0, 1}, h), m.run(shard::Slice{2, 1}, h));
    };
    const auto joined = [&](int dim, const auto& a, const auto& b) {
      return m.run(shard::Concatenate{dim}, std::tuple(a, b));
    };
    const auto [surface, upper] = parts(x);
    const auto patches = joined(2, m.run(embed_surface, surface), m.run(embed_upper, upper));
    const auto skip    = through(layer1, patches);
    const auto coarse  = through(layer2, m.run(downsample, skip));
    const auto fine    = through(layer3, m.run(upsample, coarse));
    const auto [of_surface, of_upper] = parts(joined(1, fine, skip));
    return joined(2, m.run(recover_surface, of_surface), m.run(recover_upper, of_upper));
  }
};

}  // namespace pangu

#endif
