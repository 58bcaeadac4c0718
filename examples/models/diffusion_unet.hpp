// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXAMPLES_MODELS_DIFFUSION_UNET_HPP
#define SHARD_EXAMPLES_MODELS_DIFFUSION_UNET_HPP

#include <tuple>

#include "shard/shard.hpp"

/// \file
/// The U-Net of a diffusion model: the noise level of each sample [B, 1, 1, 1], a replicated value,
/// is embedded, and scales and shifts the norms.

namespace diffusion {

using Conv3  = shard::Conv<shard::Kernel<3, 3>, shard::Padding<1, 1>>;
using Halve  = shard::Conv<shard::Kernel<3, 3>, shard::Stride<2, 2>, shard::Padding<1, 1>>;
using Double = shard::ConvTranspose<shard::Kernel<4, 4>, shard::Stride<2, 2>, shard::Padding<1, 1>>;
using Linear = shard::Conv<shard::Kernel<1, 1>>;
using Waves  = shard::WaveEmbedding<>;

struct ResBlock {
  shard::GroupNorm norm1;
  Conv3 conv1;
  Linear emb;
  shard::Modulated<shard::GroupNorm> norm2;
  Conv3 conv2;
  Linear skip;
  shard::SiLU act{};
  shard::index_t channels = 1;
  auto operator()(auto& m, const auto& x, const auto& e) const {
    const auto scale_and_shift = m.run(shard::Split{1, {channels, channels}}, m.run(emb, e));
    auto h                     = m.run(conv1, m.run(act, m.run(norm1, x)));
    h = m.run(conv2, m.run(act, m.run(norm2, h, scale_and_shift[0], scale_and_shift[1])));
    return m.run(shard::Add{}, h, m.run(skip, x));
  }
  static ResBlock of(shard::index_t in, shard::index_t out, shard::index_t embedded) {
    return {{4, in}, {in, out}, {embedded, 2 * out}, {{4, out, 1e-5, false}}, {out, out}, {in, out},
            {},      out};
  }
};

struct SelfAttention {
  shard::GroupNorm norm;
  Linear q, k, v, proj;
  shard::WindowAttention<16, 16> attention{};  // one window has all points of the coarse level
  auto operator()(auto& m, const auto& x) const {
    const auto h = m.run(norm, x);
    const auto y = m.run(attention, m.run(q, h), m.run(k, h), m.run(v, h));
    return m.run(shard::Add{}, m.run(proj, y), x);
  }
};

struct UNet {
  Waves waves = Waves::sinusoidal(8, 10000.0, true);
  Linear embed1{8, 16}, embed2{16, 16};
  Conv3 enter{2, 8};
  ResBlock down1 = ResBlock::of(8, 8, 16);
  Halve halve{8, 8};
  ResBlock middle1 = ResBlock::of(8, 12, 16);
  SelfAttention attention{{4, 12}, {12, 12}, {12, 12}, {12, 12}, {12, 12}};
  ResBlock middle2 = ResBlock::of(12, 12, 16);
  Double twice{12, 8};
  ResBlock up1 = ResBlock::of(16, 8, 16);
  shard::GroupNorm norm{4, 8};
  Conv3 head{8, 2};
  shard::SiLU act{};
  auto operator()(auto& m, const auto& x, const auto& level) const {
    const auto e    = m.run(act, m.run(embed2, m.run(act, m.run(embed1, m.run(waves, level)))));
    const auto fine = m.run(down1, m.run(enter, x), e);
    auto low        = m.run(middle1, m.run(halve, fine), e);
    low             = m.run(middle2, m.run(attention, low), e);
    const auto both = std::tuple(m.run_like(fine, twice, low), fine);
    const auto h    = m.run(up1, m.run(shard::Concatenate{1}, both), e);
    return m.run(head, m.run(act, m.run(norm, h)));
  }
};

}  // namespace diffusion

#endif
