// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_IMPL_WINDOW_USE_HPP
#define SHARD_MODEL_IMPL_WINDOW_USE_HPP

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <tuple>

#include "shard/layers/sharding_rule.hpp"
#include "shard/layers/window/window.hpp"
#include "shard/view/partition.hpp"

namespace shard::impl {

/// A type's name as the compiler writes it, without `shard::`.
std::string clean_type_name(std::string_view function);
template <class T>
std::string layer_type_name() {
  return clean_type_name(__PRETTY_FUNCTION__);
}

/// A layer of a model as its function ran it, for the warnings of validate_sharding.
template <int Rank>
struct LayerUse {
  /// Of a window, along a spatial dimension; a stride of 0 if the layer has no windows.
  struct Side {
    int stride = 0;
    LowHigh required, aligned;
  };
  using Partitions = std::array<Partition, static_cast<std::size_t>(Rank)>;

  Partitions input, output;
  std::array<Side, static_cast<std::size_t>(Rank)> sides{};
  const void* weight    = nullptr;  ///< its first parameter, which has a name
  std::string (*type)() = nullptr;  ///< the layer's
};

template <class M, class Partitions>
auto layer_use(const M& module, const Partitions& input, const Partitions& output) {
  using Layer        = typename M::layer_type;
  constexpr int rank = static_cast<int>(std::tuple_size_v<Partitions>);
  LayerUse<rank> use;
  use.input  = input;
  use.output = output;
  if constexpr (requires { typename Layer::serial_type; })
    use.type = &layer_type_name<typename Layer::serial_type>;
  else
    use.type = &layer_type_name<Layer>;
  if constexpr (requires { module.parameters().weight; })
    use.weight = module.parameters().weight.data();
  else if constexpr (requires { module.parameters().values; })
    use.weight = module.parameters().values.data();
  if constexpr (requires {
                  Layer::window(0);
                  Layer::halo_bound(0);
                })
    for (int d = 0; d < std::min(rank - 2, Layer::dims); ++d)
      use.sides[static_cast<std::size_t>(d + 2)] = {
          is_transposed_v<Layer> ? 1 : Layer::window(d).stride, Layer::halo_bound(d),
          Layer::aligned_halo_bound(d)};
  return use;
}

}  // namespace shard::impl

#endif
