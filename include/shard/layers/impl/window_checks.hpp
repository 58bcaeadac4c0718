// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_WINDOW_CHECKS_HPP
#define SHARD_LAYERS_IMPL_WINDOW_CHECKS_HPP

#include <type_traits>
#include <utility>

#include "shard/exchange/exchange_tangent.hpp"
#include "shard/layers/impl/layer_checks.hpp"
#include "shard/layers/window/window.hpp"
#include "shard/view/boundary.hpp"

namespace shard::impl {

/// Compile-time check of a field's boundary against a layer's padding mode in spatial dimension
/// `S`. A tangent may have Zero in place of a Constant.
template <class Layer, class Field, bool Tangent, int S>
constexpr bool require_padding_mode() {
  using Given = typename Layer::template boundary<S>;
  using Is    = typename Field::template boundary<S + 2>;
  using Mode =
      std::conditional_t<Tangent && std::is_same_v<Is, typename TangentBoundary<Given>::type>, Is,
                         Given>;
  static_assert(boundary_is_the_padding_mode<Layer, Dim<S + 2>, Mode, Is>::value,
                "the ShardedView's boundary isn't the layer's padding mode");
  return true;
}

template <class Layer, class Field, bool Tangent>
constexpr void require_padding_modes() {
  [[maybe_unused]] constexpr bool same = []<int... S>(std::integer_sequence<int, S...>) {
    return (require_padding_mode<Layer, Field, Tangent, S>() && ...);
  }
  (std::make_integer_sequence<int, Layer::dims>{});
}

/// Whether a layer could work on this type of field without a halo: with aligned shards, and
/// without padding in unsharded dimensions.
template <class Layer, class Field>
constexpr bool can_do_without_halo() {
  return []<int... S>(std::integer_sequence<int, S...>) {
    const auto none = [](LowHigh s) { return s.lo == 0 && s.hi == 0; };
    return (none(is_cut_v<Field, S + 2> ? Layer::aligned_halo_bound(S)
                 : Layer::zero_needs_no_halo && is_zero_beyond_v<Field, S + 2>
                     ? LowHigh{0, 0}
                     : Layer::unsharded_halo_bound(S)) &&
            ...);
  }
  (std::make_integer_sequence<int, Layer::dims>{});
}

/// Whether `coarse` is fine.coarsened(stride, coarse.size()), without constructing it.
bool is_coarsened(const Partition& coarse, const Partition& fine, index_t stride);
/// Whether `fine` is coarse.refined(factor, fine.size()), without constructing it.
bool is_refined(const Partition& fine, const Partition& coarse, index_t factor);

/// Whether on some part an output reads input points beyond those that the part owns. Points
/// outside the domain count only where `outside_domain` says so. The same on every rank.
bool reads_beyond(const Partition& inputs, const Partition& outputs, bool outside_domain,
                  Reads reads, const void* context);

}  // namespace shard::impl

#endif
