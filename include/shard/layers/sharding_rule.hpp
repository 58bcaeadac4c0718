// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_SHARDING_RULE_HPP
#define SHARD_LAYERS_SHARDING_RULE_HPP

#include <cstdint>

namespace shard {

/// What a layer asks of other ranks where a spatial dimension is sharded.
enum class LayerSharding : std::uint8_t {
  local,       ///< nothing: it works cell by cell, or only along dimensions that aren't sharded
  window,      ///< cells of its neighbours: required_halo_t says how many
  collective,  ///< sums over all cells on all ranks
  moving,      ///< cells change their owners on the way: redistribution, or a ring
};

/// How `Layer` works on cut spatial dimensions: a layer says it by
/// `static constexpr LayerSharding sharding`. For a layer that can't be changed specialise this:
/// `value`, and `cuts(d)` that says whether its spatial dimension `d` may be sharded.
template <class Layer>
struct sharding_rule {};

/// Layers that say it themselves. Those that can be sharded in some dimensions only have
/// `static constexpr bool can_be_cut(int d)` too.
template <class Layer>
requires requires { Layer::sharding; }
struct sharding_rule<Layer> {
  /// What the layer says.
  static constexpr LayerSharding value = Layer::sharding;
  /// Whether spatial dimension `d` may be sharded.
  static constexpr bool cuts(int d) {
    if constexpr (requires { Layer::can_be_cut(d); })
      return Layer::can_be_cut(d);
    else
      return true;
  }
};

/// Whether there is a rule by which `Layer` works where its spatial dimension `Dim` is sharded.
template <class Layer, int Dim>
inline constexpr bool has_sharding_rule_v = requires {
  requires sharding_rule<Layer>::cuts(Dim);
};

}  // namespace shard

#endif
