// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_EXAMPLES_MODELS_SWIN3D_HPP
#define SHARD_EXAMPLES_MODELS_SWIN3D_HPP

#include <utility>

#include "shard/shard.hpp"

/// \file
/// Parts of Swin transformers of fields [batch, channel, level, latitude, longitude], which Aurora
/// and Pangu-Weather have in common.

namespace swin3d {

using shard::index_t;
using Linear = shard::Conv<shard::Kernel<1, 1, 1>>;
using Pad    = shard::Pad<shard::Zero, shard::Zero, shard::Zero>;
using Widths = shard::PerDim<index_t, 3>;
// levels aren't merged
using Unshuffle = shard::PixelUnshuffle<2, 3, shard::PixelOrder::points_first, 1>;
using Shuffle   = shard::PixelShuffle<2, 3, shard::PixelOrder::points_first, 1>;

/// The pads at the low and the high end of fields of these latitudes and longitudes, up to whole
/// windows.
template <class Windows>
std::pair<Widths, Widths> pads_of(index_t lats, index_t lons) {
  const auto lacks  = [](index_t n, index_t size) { return (size - n % size) % size; };
  const index_t lat = lacks(lats, Windows::sizes[1]), lon = lacks(lons, Windows::sizes[2]);
  return {Widths(0, lat / 2, lon / 2), Widths(0, lat - lat / 2, lon - lon / 2)};
}

struct MLP {
  Linear fc1, fc2;
  shard::GELU act{};
  auto operator()(auto& m, const auto& x) const { return m.run(fc2, m.run(act, m.run(fc1, x))); }
};

/// Merges patches of 2 x 2 points; odd extents are padded at the high end.
struct PatchMerging {
  Pad pad;
  Unshuffle merge{};
  shard::LayerNorm norm;
  Linear reduction;
  auto operator()(auto& m, const auto& x) const {
    return m.run(reduction, m.run(norm, m.run(merge, m.run(pad, x))));
  }
  static PatchMerging of(index_t dim, const Widths& high) {
    // shards begin with whole patches
    return {{.high = high, .multiple = {1, 2, 2}}, {}, {4 * dim}, {4 * dim, 2 * dim, 1, false}};
  }
};

/// The way back: splits patches, and removes the pads.
struct PatchSplitting {
  Linear lin1, lin2;
  Shuffle split{};
  shard::Unpad<3> crop;
  shard::LayerNorm norm;
  auto operator()(auto& m, const auto& x) const {
    return m.run(lin2, m.run(norm, m.run(crop, m.run(split, m.run(lin1, x)))));
  }
  static PatchSplitting of(index_t dim, const Widths& high) {
    return {{dim, 2 * dim, 1, false}, {dim / 2, dim / 2, 1, false}, {}, {.high = high}, {dim / 2}};
  }
};

}  // namespace swin3d

#endif
