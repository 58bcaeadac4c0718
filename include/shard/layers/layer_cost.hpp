// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_LAYER_COST_HPP
#define SHARD_LAYERS_LAYER_COST_HPP

#include <array>
#include <cstddef>

#include "shard/layers/window/window.hpp"

namespace shard {

/// The cost of a window on one rank, to compare partitions, at compile time too.
struct LayerCost {
  double operations  = 0.0;  ///< multiplications and additions, forward; backward takes twice that
  index_t halo_cells = 0;    ///< values that its neighbours send, all channels
  int neighbours     = 0;    ///< ranks that send them, if shards are wider than the halo
  index_t output_cells = 0;  ///< values that it computes, all channels
};

/// The cost of a Conv, a ConvTranspose or a pooling (per channel) on one rank in the interior of
/// the mesh that owns `owned` points [space...] of one batch entry. `cut` marks the sharded
/// dimensions. The halo is that of any partition (required_halo_t).
template <class Layer>
constexpr LayerCost layer_cost(
    const Layer& layer, const std::array<index_t, static_cast<std::size_t>(Layer::dims)>& owned,
    const std::array<bool, static_cast<std::size_t>(Layer::dims)>& cut, index_t channels = 1) {
  constexpr bool up = impl::is_transposed_v<Layer>;
  LayerCost cost;
  index_t cells = 1, haloed = 1, outputs = 1, taps = 1;
  int around = 1;
  for (int d = 0; d < Layer::dims; ++d) {
    const auto i       = static_cast<std::size_t>(d);
    const Window w     = Layer::window(d);
    const LowHigh halo = cut[i] ? Layer::halo_bound(d) : LowHigh{0, 0};
    cells *= owned[i];
    haloed *= owned[i] + halo.lo + halo.hi;
    outputs *= up ? owned[i] * w.stride : ceil_div(owned[i], w.stride);
    taps *= w.kernel;
    around *= 1 + (halo.lo > 0 ? 1 : 0) + (halo.hi > 0 ? 1 : 0);
  }
  index_t in = channels, out = channels, operations = taps * channels;
  if constexpr (requires { layer.groups; }) {
    in         = layer.in;
    out        = layer.out;
    operations = 2 * taps * (in * out / layer.groups);
  }
  cost.operations   = static_cast<double>(operations) * static_cast<double>(up ? cells : outputs);
  cost.halo_cells   = (haloed - cells) * in;
  cost.neighbours   = around - 1;
  cost.output_cells = outputs * out;
  return cost;
}

/// The natural output partition along the layer's spatial dimension `d`, at compile time: the
/// begins of the output's shards and its extent, from those of the input. As `output_partitions`
/// for Conv, ConvTranspose (without output padding) and poolings.
template <class Layer, std::size_t Begins>
constexpr std::array<index_t, Begins> output_begins(int d,
                                                    const std::array<index_t, Begins>& input) {
  const Window w  = Layer::window(d);
  const index_t m = Layer::output_extent(d, input[Begins - 1]);
  std::array<index_t, Begins> out{};
  for (std::size_t r = 1; r + 1 < Begins; ++r)
    out[r] = impl::is_transposed_v<Layer> ? conv_transpose_output_begin(w, input[r], m)
                                          : conv_output_begin(w, input[r], m);
  out[Begins - 1] = m;
  return out;
}

}  // namespace shard

#endif
