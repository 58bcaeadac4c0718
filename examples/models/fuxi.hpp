// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXAMPLES_MODELS_FUXI_HPP
#define SHARD_EXAMPLES_MODELS_FUXI_HPP

#include <tuple>
#include <vector>

#include "shard/shard.hpp"

/// \file
/// FuXi (Chen et al. 2023) as miles-credit has it: patches, one level down, Swin transformer blocks
/// (version 2, timm's), one level up. The coarse level is padded with zeros to whole windows, and
/// these points attend like others.

namespace fuxi {

using shard::index_t;
using Linear  = shard::Conv<shard::Kernel<1, 1>>;
using Conv3   = shard::Conv<shard::Kernel<3, 3>, shard::Padding<1, 1>>;
using Halve   = shard::Conv<shard::Kernel<3, 3>, shard::Stride<2, 2>, shard::Padding<1, 1>>;
using Double  = shard::ConvTranspose<shard::Kernel<2, 2>, shard::Stride<2, 2>>;
using Windows = shard::Biased<shard::WindowAttention<4, 4>, shard::ContinuousBias>;

struct Attention {
  Linear q, k, v, proj;
  shard::CosineNorm q_norm, k_norm;
  Windows windows;
  auto operator()(auto& m, const auto& x) const {
    const auto y =
        m.run(windows, m.run(q_norm, m.run(q, x)), m.run(k_norm, m.run(k, x)), m.run(v, x));
    return m.run(proj, y);
  }
  static Attention of(index_t dim, index_t heads, index_t shift) {
    const shard::WindowAttention<4, 4> windows{
        .heads = heads, .scale = 1.0, .shift = {shift, shift}, .masked = {true, true}};
    return {{dim, dim}, {dim, dim, 1, false}, {dim, dim},
            {dim, dim}, {.heads = heads},     {.heads = heads, .scaled = false},
            {windows}};
  }
};

struct MLP {
  Linear fc1, fc2;
  shard::GELU act{};
  auto operator()(auto& m, const auto& x) const { return m.run(fc2, m.run(act, m.run(fc1, x))); }
};

struct Block {
  Attention attn;
  shard::LayerNorm norm1;
  MLP mlp;
  shard::LayerNorm norm2;
  auto operator()(auto& m, const auto& x) const {
    const auto h = m.run(shard::Add{}, m.run(norm1, m.run(attn, x)), x);
    return m.run(shard::Add{}, m.run(norm2, m.run(mlp, h)), h);
  }
  static Block of(index_t dim, index_t heads, index_t shift) {
    return {Attention::of(dim, heads, shift), {dim}, {{dim, 4 * dim}, {4 * dim, dim}}, {dim}};
  }
};

inline auto convolutions_of(index_t groups, index_t dim) {
  return shard::block(Conv3{dim, dim}, shard::GroupNorm{groups, dim}, shard::SiLU{},
                      Conv3{dim, dim}, shard::GroupNorm{groups, dim}, shard::SiLU{});
}
template <class Sampling>
struct Resampled {
  Sampling conv;
  decltype(convolutions_of(1, 1)) b;
  auto operator()(auto& m, const auto& x) const {
    const auto h = m.run(conv, x);
    return m.run(shard::Add{}, m.run(b, h), h);
  }
};

/// Of 2 x 2 patches; 5 x 5 points of the coarse level, in 2 x 2 windows of 4 x 4.
struct FuXi {
  shard::Conv<shard::Kernel<2, 2>, shard::Stride<2, 2>> embedding{12,
                                                                  8};  // two times of 6 variables
  shard::LayerNorm norm{8};
  Resampled<Halve> down{{8, 8}, convolutions_of(4, 8)};
  shard::Pad<shard::Zero, shard::Zero> pad{.low = {1, 1}, .high = {2, 2}};
  std::vector<Block> blocks{Block::of(8, 2, 0), Block::of(8, 2, 2)};
  shard::Unpad<2> unpad{.low = {1, 1}, .high = {2, 2}};
  Resampled<Double> up{{16, 8}, convolutions_of(4, 8)};
  Linear fc{8, 20};
  shard::PixelShuffle<2, 2, shard::PixelOrder::points_first> pixels{};
  auto operator()(auto& m, const auto& x) const {
    const auto coarse = m.run(down, m.run(norm, m.run(embedding, x)));
    auto h            = m.run(pad, coarse);
    for (const auto& block : blocks) h = m.run(block, h);
    h = m.run(shard::Concatenate{1}, std::tuple(coarse, m.run(unpad, h)));
    return m.run(pixels, m.run(fc, m.run(up, h)));
  }
};

}  // namespace fuxi

#endif
