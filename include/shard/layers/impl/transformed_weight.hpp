// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_TRANSFORMED_WEIGHT_HPP
#define SHARD_LAYERS_IMPL_TRANSFORMED_WEIGHT_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "shard/base/wanted.hpp"
#include "shard/layers/impl/weight_kernels.hpp"
#include "shard/layers/sharding_rule.hpp"
#include "shard/layers/window/window.hpp"
#include "shard/view/partition.hpp"

namespace shard::impl {

/// The arrays of parameter_shapes(), in that order.
template <class T, class Memory>
struct TransformedParameters {
  using value_type = T;
  std::array<Kokkos::View<T*, Kokkos::LayoutRight, Memory>, 3> arrays;
};

/// What a layer with a window says about it, for a layer that has it as a member.
template <class Layer>
struct SameWindow {};
template <class Layer>
requires requires { Layer::halo_bound(0); }
struct SameWindow<Layer> {
  static constexpr int dims                = Layer::dims;
  static constexpr bool is_aligned         = Layer::is_aligned;
  static constexpr bool transposed         = Layer::transposed;
  static constexpr bool can_meet           = Layer::transposed;
  static constexpr bool zero_needs_no_halo = Layer::zero_needs_no_halo;
  using padding_mode                       = typename Layer::padding_mode;
  template <int D>
  using boundary = typename Layer::template boundary<D>;
  static constexpr Window window(int d) { return Layer::window(d); }
  static constexpr LowHigh halo_bound(int d) { return Layer::halo_bound(d); }
  static constexpr LowHigh aligned_halo_bound(int d) { return Layer::aligned_halo_bound(d); }
  static constexpr LowHigh unsharded_halo_bound(int d) { return Layer::unsharded_halo_bound(d); }
  static constexpr index_t output_extent(int d, index_t n) { return Layer::output_extent(d, n); }
};

/// The memory of one use of a layer with a transformed weight.
template <class T, class Memory>
struct WeightState {
  using Values  = Kokkos::View<T*, Kokkos::LayoutRight, Memory>;
  using Doubles = Kokkos::View<double*, Kokkos::LayoutRight, Memory>;
  Values weight, slope;            ///< of the last apply, and dJ/dweight
  Doubles rows, columns, scalars;  ///< what the pullback needs of it
  Doubles row_scratch;
};

/// Base of a layer `Self` that is `Layer` with a weight that it computes. `Self` has
/// make_weight(space, state, parameters), pull_weight(space, state, parameters, gradients),
/// bias_of(state, parameters) and trains_bias.
template <class Self, class Layer>
struct TransformedWeight : SameWindow<Layer> {
  static constexpr LayerSharding sharding      = Layer::sharding;
  static constexpr bool has_transformed_weight = true;

  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = TransformedParameters<T, Memory>;

  Layer layer;

  constexpr explicit TransformedWeight(const Layer& layer_) : layer(layer_) {}

  template <std::size_t Rank>
  std::array<Partition, Rank> output_partitions(const std::array<Partition, Rank>& input) const {
    if constexpr (requires { layer.output_partitions(input); })
      return layer.output_partitions(input);
    else
      return input;
  }

  /// Computes the weight, then y as the layer.
  template <class Space, class S, class P, class Y, class X>
  void apply(const Space& space, S& state, const P& parameters, const Y& y, const X& x) const {
    self().make_weight(space, state, parameters);
    layer.apply(space, weights(state, parameters, state.weight), y, x);
  }
  /// ty for the tangent tx of x and the weight of the last apply; parameters are constants.
  template <class Space, class S, class P, class TP, class TY, class TX, class X>
  void pushforward(const Space& space, S& state, const P& parameters, const TP&, const TY& ty,
                   const TX& tx, const X& x) const {
    static_assert(!is_wanted_v<TP>,
                  "the parameters of a layer with a transformed weight have no tangents");
    layer.pushforward(space, weights(state, parameters, state.weight), not_wanted, ty, tx, x);
  }
  /// As the layer's, for the weight of the last apply.
  template <class Space, class S, class P, class G, class DX, class DY, class X>
  void pullback(const Space& space, S& state, const P& parameters, const G& gradients, const DX& dx,
                const DY& dy, const X& x) const {
    const auto p = weights(state, parameters, state.weight);
    if constexpr (is_wanted_v<G>) {
      Kokkos::deep_copy(space, state.slope, 0);
      Layer pulled = layer;
      pulled.bias  = layer.bias && Self::trains_bias;
      pulled.pullback(space, p, weights(state, gradients, state.slope), dx, dy, x);
      self().pull_weight(space, state, parameters, gradients);
    } else {
      layer.pullback(space, p, not_wanted, dx, dy, x);
    }
  }

 protected:
  /// The shape of the layer's weight; its bias, if there is one, is the next of its shapes.
  ParameterShape weight_shape() const { return layer.parameter_shapes().front(); }
  /// Allocates what all states have.
  template <class State>
  void allocate(State& s, index_t rows, index_t columns) const {
    const auto count = static_cast<std::size_t>(weight_shape().count());
    s.weight         = decltype(s.weight)("shard::transformed weight", count);
    s.slope          = decltype(s.slope)("shard::transformed weight gradient", count);
    s.rows           = decltype(s.rows)("shard::weight rows", static_cast<std::size_t>(rows));
    s.columns     = decltype(s.columns)("shard::weight columns", static_cast<std::size_t>(columns));
    s.scalars     = decltype(s.scalars)("shard::weight scalars", 2);
    s.row_scratch = decltype(s.rows)("shard::weight scratch", static_cast<std::size_t>(rows));
  }

 private:
  const Self& self() const { return static_cast<const Self&>(*this); }

  /// The layer's own parameters or gradients: a computed weight, and the bias.
  template <class S, class P, class Values>
  auto weights(const S& state, const P& parameters, const Values& weight) const {
    using T      = typename P::value_type;
    using Memory = typename Values::memory_space;
    typename Layer::template Parameters<T, Memory> p;
    p.weight =
        decltype(p.weight)(weight.data(), layout_of<decltype(p.weight)>(weight_shape().extents));
    if (layer.bias) p.bias = self().bias_of(state, parameters);
    return p;
  }
};

template <class Layer>
concept HasTransformedWeight = requires {
  requires Layer::has_transformed_weight;
};

}  // namespace shard::impl

namespace shard {

/// The parameters of a layer with a transformed weight, in memory at `data`.
template <class T, class Memory, impl::HasTransformedWeight Layer>
auto wrap_parameters(const Layer& layer, T* data) {
  typename Layer::template Parameters<T, Memory> p;
  std::size_t i = 0;
  for (const ParameterShape& shape : layer.parameter_shapes()) {
    const auto count = static_cast<std::size_t>(shape.count());
    p.arrays[i++]    = Kokkos::View<T*, Kokkos::LayoutRight, Memory>(data, count);
    data += count;
  }
  return p;
}

/// Allocates such parameters, or their gradients, set to zero.
template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space,
          impl::HasTransformedWeight Layer>
auto make_parameters(const Layer& layer, const std::string& label) {
  typename Layer::template Parameters<T, Memory> p;
  std::size_t i = 0;
  for (const ParameterShape& shape : layer.parameter_shapes())
    p.arrays[i++] = Kokkos::View<T*, Kokkos::LayoutRight, Memory>(
        label + "." + shape.name, static_cast<std::size_t>(shape.count()));
  return p;
}

/// Initialises such parameters, so that the weight is as that of the layer by itself.
template <class Space, impl::HasTransformedWeight Layer, class Parameters>
void initialise(const Space& space, const Layer& layer, const Parameters& parameters,
                std::uint64_t seed, std::uint64_t stream) {
  layer.initialise_parameters(space, parameters, seed, stream);
}

}  // namespace shard

#endif
