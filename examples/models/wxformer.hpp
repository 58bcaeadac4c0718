// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXAMPLES_MODELS_WXFORMER_HPP
#define SHARD_EXAMPLES_MODELS_WXFORMER_HPP

#include <tuple>
#include <vector>

#include "shard/shard.hpp"

/// \file
/// WXFormer of miles-credit (Schreck et al. 2024): four stages of cross-scale embeddings and of
/// attention within windows and within grids, and a decoder of pixel shuffles. The field is padded
/// across the poles and round the globe first; layers pad the larger field with zeros.

namespace wxformer {

using shard::index_t;
using Linear    = shard::Conv<shard::Kernel<1, 1>>;
using Conv3     = shard::Conv<shard::Kernel<3, 3>, shard::Padding<1, 1>>;
using Embedding = shard::CrossEmbed<shard::Stride<2, 2>, shard::Kernel<2, 2>, shard::Kernel<4, 4>>;

template <class Groups>
struct Attention {
  shard::LayerNorm norm;
  Linear to_qkv;
  shard::Biased<Groups, shard::DynamicBias> dpb;
  Linear to_out;
  auto operator()(auto& m, const auto& x) const {
    const index_t c = norm.channels;
    const auto qkv  = m.run(shard::Split{1, {c, c, c}}, m.run(to_qkv, m.run(norm, x)));
    return m.run(shard::Add{}, m.run(to_out, m.run(dpb, qkv[0], qkv[1], qkv[2])), x);
  }
  static Attention of(index_t dim, index_t dim_head) {
    Groups groups;
    groups.heads = dim / dim_head;
    return {{dim}, {dim, 3 * dim, 1, false}, {groups, {dim / 4}}, {dim, dim}};
  }
};

inline auto layers_of(index_t dim) {
  return shard::block(shard::LayerNorm{dim}, Linear{dim, 4 * dim}, shard::GELU{},
                      shard::Dropout{0.0}, Linear{4 * dim, dim});
}
struct FeedForward {
  decltype(layers_of(1)) layers;
  auto operator()(auto& m, const auto& x) const { return m.run(shard::Add{}, m.run(layers, x), x); }
};

/// Windows of `Local` x `Local` points and grids of `Global` x `Global` points.
template <int Local, int Global>
struct Layer {
  Attention<shard::WindowAttention<Local, Local>> short_attn;
  FeedForward short_ff;
  Attention<shard::GridAttention<Global, Global>> long_attn;
  FeedForward long_ff;
  auto operator()(auto& m, const auto& x) const {
    const auto h = m.run(short_ff, m.run(short_attn, x));
    return m.run(long_ff, m.run(long_attn, h));
  }
};

template <int Local, int Global>
struct Stage {
  Embedding embed;
  std::vector<Layer<Local, Global>> layers;
  auto operator()(auto& m, const auto& x) const {
    auto h = m.run(embed, x);
    for (const auto& layer : layers) h = m.run(layer, h);
    return h;
  }
  static Stage of(index_t in, index_t dim, index_t depth, index_t dim_head) {
    using One   = Layer<Local, Global>;
    using Short = Attention<shard::WindowAttention<Local, Local>>;
    using Long  = Attention<shard::GridAttention<Global, Global>>;
    return {{in, {dim / 2, dim - dim / 2}},
            std::vector<One>(static_cast<std::size_t>(depth), One{Short::of(dim, dim_head),
                                                                  {layers_of(dim)},
                                                                  Long::of(dim, dim_head),
                                                                  {layers_of(dim)}})};
  }
};

inline auto convolutions_of(index_t groups, index_t channels) {
  return shard::block(Conv3{channels, channels}, shard::GroupNorm{groups, channels}, shard::SiLU{},
                      Conv3{channels, channels}, shard::GroupNorm{groups, channels}, shard::SiLU{});
}
struct UpBlock {
  Conv3 conv, sharp;
  shard::PixelShuffle<2> ps;
  decltype(convolutions_of(1, 1)) b;
  auto operator()(auto& m, const auto& x) const {
    const auto fine    = m.run(ps, m.run(conv, x));
    const auto sharper = m.run(shard::Add{}, m.run(sharp, fine), fine);
    return m.run(shard::Add{}, m.run(b, sharper), sharper);
  }
  static UpBlock of(index_t in, index_t out, index_t groups) {
    return {{in, 4 * out}, {out, out}, {}, convolutions_of(groups, out)};
  }
};

inline auto last_of(index_t in, index_t out) {
  return shard::block(Conv3{in, 4 * out}, shard::PixelShuffle<2>{}, Conv3{out, out});
}

/// 6 input channels, 5 output channels, dim = (4, 8, 16, 32), one layer at each stage.
struct WXFormer {
  shard::EarthPad pad{.low = {4, 2}, .high = {4, 2}};
  Stage<4, 4> stage0 = Stage<4, 4>::of(6, 4, 1, 4);
  Stage<2, 2> stage1 = Stage<2, 2>::of(4, 8, 1, 4);
  Stage<2, 1> stage2 = Stage<2, 1>::of(8, 16, 1, 4);
  Stage<1, 1> stage3 = Stage<1, 1>::of(16, 32, 1, 4);
  UpBlock up_block1 = UpBlock::of(32, 16, 4), up_block2 = UpBlock::of(32, 8, 4),
          up_block3                 = UpBlock::of(16, 4, 4);
  decltype(last_of(1, 1)) up_block4 = last_of(8, 5);
  shard::Unpad<2> unpad{.low = {4, 2}, .high = {4, 2}};
  auto operator()(auto& m, const auto& x) const {
    const auto joined = [&](const auto& h, const auto& skip) {
      return m.run(shard::Concatenate{1}, std::tuple(h, skip));
    };
    const auto e0 = m.run(stage0, m.run(pad, x)), e1 = m.run(stage1, e0), e2 = m.run(stage2, e1);
    auto h = joined(m.run(up_block1, m.run(stage3, e2)), e2);
    h      = joined(m.run(up_block2, h), e1);
    h      = joined(m.run(up_block3, h), e0);
    return m.run(unpad, m.run(up_block4, h));
  }
};

}  // namespace wxformer

#endif
