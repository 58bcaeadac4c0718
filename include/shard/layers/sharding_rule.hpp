// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_SHARDING_RULE_HPP
#define SHARD_LAYERS_SHARDING_RULE_HPP

#include <cstdint>

namespace shard {

/// What a layer asks of other ranks where a dimension in space is cut.
enum class LayerSharding : std::uint8_t {
  local,       ///< nothing: it works cell by cell, or only along dimensions that aren't cut
  window,      ///< cells of its neighbours: required_halo_t says how many
  collective,  ///< sums over all cells of the world
  moving,      ///< cells change their owners on the way: redistribution, or a ring
};

/// How `Layer` works on cut dimensions in space: a layer says it by `static constexpr LayerSharding
/// sharding`. For a layer that can't be changed specialise this: `value`, and `can_be_sharded(d)`
/// that says whether its dimension `d` in space may be cut.
template <class Layer>
struct sharding_rule {};

/// Layers that say it themselves. Those that can be cut in some dimensions only have `static
/// constexpr bool can_be_sharded(int d)` too.
template <class Layer>
requires requires { Layer::sharding; }
struct sharding_rule<Layer> {
  /// What the layer says.
  static constexpr LayerSharding value = Layer::sharding;
  /// Whether dimension `d` in space may be cut.
  static constexpr bool can_be_sharded(int d) {
    if constexpr (requires { Layer::can_be_sharded(d); })
      return Layer::can_be_sharded(d);
    else
      return true;
  }
};

/// Whether there is a rule by which `Layer` works where its dimension `Dim` in space is cut.
template <class Layer, int Dim>
inline constexpr bool has_sharding_rule_v = requires {
  requires sharding_rule<Layer>::can_be_sharded(Dim);
};

}  // namespace shard

#endif
