// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_LAYER_COST_HPP
#define SHARD_LAYERS_LAYER_COST_HPP

#include <array>
#include <cstddef>

#include "shard/layers/window.hpp"

namespace shard {

/// What a window costs one rank: to be weighed against another cut, at compile time too.
struct LayerCost {
  double operations  = 0.0;  ///< multiplications and additions, forward; backward takes twice that
  index_t halo_cells = 0;    ///< values that its neighbours send, all channels
  int neighbours     = 0;    ///< ranks that send them, where shards are wider than the halo
  index_t output_cells = 0;  ///< values that it computes, all channels
};

/// The cost of a Conv or ConvTranspose on one rank that owns `owned` cells [space...] of one batch
/// entry, in the middle of the world, where the dimensions that `cut` marks are cut. The halo is
/// that of any partition (required_halo_t).
template <class Layer>
constexpr LayerCost layer_cost(
    const Layer& layer, const std::array<index_t, static_cast<std::size_t>(Layer::dims)>& owned,
    const std::array<bool, static_cast<std::size_t>(Layer::dims)>& cut) {
  constexpr bool up = impl::is_transposed_v<Layer>;
  LayerCost cost;
  index_t cells = 1, haloed = 1, outputs = 1, taps = 1;
  int around = 1;
  for (int d = 0; d < Layer::dims; ++d) {
    const auto i            = static_cast<std::size_t>(d);
    const Window w          = Layer::window(d);
    const PaddingSides halo = cut[i] ? Layer::halo_bound(d) : PaddingSides{0, 0};
    cells *= owned[i];
    haloed *= owned[i] + halo.lo + halo.hi;
    outputs *= up ? owned[i] * w.stride : ceil_div(owned[i], w.stride);
    taps *= w.kernel;
    around *= 1 + (halo.lo > 0 ? 1 : 0) + (halo.hi > 0 ? 1 : 0);
  }
  const index_t joined = layer.in * layer.out / layer.groups;
  cost.operations =
      2.0 * static_cast<double>(taps * joined) * static_cast<double>(up ? cells : outputs);
  cost.halo_cells   = (haloed - cells) * layer.in;
  cost.neighbours   = around - 1;
  cost.output_cells = outputs * layer.out;
  return cost;
}

}  // namespace shard

#endif
