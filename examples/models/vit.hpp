// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXAMPLES_MODELS_VIT_HPP
#define SHARD_EXAMPLES_MODELS_VIT_HPP

#include <vector>

#include "shard/shard.hpp"

/// \file
/// A vision transformer: tokens are patches, with rotary embeddings along both dimensions, RMSNorm
/// and SwiGLU. Every token attends to all others.

namespace vit {

using Linear = shard::Conv<shard::Kernel<1, 1>>;

struct Attention {
  Linear q, k, v, proj;
  shard::WindowAttention<16, 16> attention;  // one window has all tokens
  shard::Rotary rows, columns;               // half of each head's features, and the other half
  auto operator()(auto& m, const auto& x) const {
    const auto turned = [&](const auto& h) { return m.run(columns, m.run(rows, h)); };
    const auto y      = m.run(attention, turned(m.run(q, x)), turned(m.run(k, x)), m.run(v, x));
    return m.run(proj, y);
  }
  static Attention of(shard::index_t dim, shard::index_t heads) {
    const shard::index_t half = dim / heads / 2;
    shard::Rotary rows{.heads = heads, .dim = 0, .first = 0, .count = half};
    shard::Rotary columns{.heads = heads, .dim = 1, .first = half, .count = half};
    return {{dim, dim}, {dim, dim}, {dim, dim}, {dim, dim}, {.heads = heads}, rows, columns};
  }
};

struct MLP {
  Linear w12, w3;
  shard::SwiGLU gate{.activates_first = true};
  auto operator()(auto& m, const auto& x) const { return m.run(w3, m.run(gate, m.run(w12, x))); }
};

struct Block {
  shard::RMSNorm norm1;
  Attention attn;
  shard::RMSNorm norm2;
  MLP mlp;
  auto operator()(auto& m, const auto& x) const {
    const auto h = m.run(shard::Add{}, x, m.run(attn, m.run(norm1, x)));
    return m.run(shard::Add{}, h, m.run(mlp, m.run(norm2, h)));
  }
  static Block of(shard::index_t dim, shard::index_t heads) {
    return {{dim, 1e-6}, Attention::of(dim, heads), {dim, 1e-6}, {{dim, 4 * dim}, {2 * dim, dim}}};
  }
};

struct ViT {
  shard::Conv<shard::Kernel<4, 4>, shard::Stride<4, 4>> patch_embed{3, 16};
  std::vector<Block> blocks{Block::of(16, 2), Block::of(16, 2)};
  shard::RMSNorm norm{16, 1e-6};
  Linear head{16, 48};
  shard::PixelShuffle<4> pixels{};
  auto operator()(auto& m, const auto& x) const {
    auto h = m.run(patch_embed, x);
    for (const auto& block : blocks) h = m.run(block, h);
    return m.run(pixels, m.run(head, m.run(norm, h)));
  }
};

}  // namespace vit

#endif
