// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_SHARDING_RULE_HPP
#define SHARD_LAYERS_SHARDING_RULE_HPP

#include <cstdint>

namespace shard {

/// The communication of a layer if a spatial dimension is sharded.
enum class LayerSharding : std::uint8_t {
  local,       ///< none: it is pointwise, or works only along unsharded dimensions
  window,      ///< a halo from its neighbours, see required_halo_t
  collective,  ///< sums over all points on all ranks
  moving,      ///< redistribution, or a ring
};

/// The rule of `Layer` for sharded spatial dimensions. A layer declares it as
/// `static constexpr LayerSharding sharding`. For a layer that can't be changed specialise this:
/// `value`, and `can_be_sharded(d)`, which returns whether spatial dimension `d` may be sharded.
template <class Layer>
struct sharding_rule {};

/// Layers that declare their rule. If only some dimensions may be sharded they also have
/// `static constexpr bool can_be_sharded(int d)`.
template <class Layer>
requires requires { Layer::sharding; }
struct sharding_rule<Layer> {
  /// The layer's rule.
  static constexpr LayerSharding value = Layer::sharding;
  /// Whether spatial dimension `d` may be sharded.
  static constexpr bool can_be_sharded(int d) {
    if constexpr (requires { Layer::can_be_sharded(d); })
      return Layer::can_be_sharded(d);
    else
      return true;
  }
};

/// Whether there is a rule for `Layer` with a sharded spatial dimension `Dim`.
template <class Layer, int Dim>
inline constexpr bool has_sharding_rule_v = requires {
  requires sharding_rule<Layer>::can_be_sharded(Dim);
};

}  // namespace shard

#endif
