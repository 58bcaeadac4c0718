// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_IMPL_MERGE_LAYER_HPP
#define SHARD_MODEL_IMPL_MERGE_LAYER_HPP

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "shard/layers/pointwise/activations.hpp"
#include "shard/layers/window/periodic_conv.hpp"
#include "shard/layers/resampling/pool.hpp"
#include "shard/model/domain_parallel.hpp"

namespace shard::impl {

/// How a layer runs in a chain.
enum class MergeKind : std::uint8_t { none, convolution, max_pool, average_pool, pointwise };

template <MergeKind Kind>
struct MergesAs {
  static constexpr MergeKind kind = Kind;
};
template <Activation F>
struct MergesAsActivation : MergesAs<MergeKind::pointwise> {
  template <class Layer>
  static Activation function(const Layer&) {
    return F;
  }
  template <class Layer>
  static double figure(const Layer&) {
    return 0.0;
  }
};

/// The MergeKind of layers that can run on any points; others end a chain.
template <class Layer>
struct Merging : MergesAs<MergeKind::none> {};
template <class Kernel, class... Options>
struct Merging<Conv<Kernel, Options...>> : MergesAs<MergeKind::convolution> {};
template <class Kernel, class... Options>
struct Merging<PeriodicConv<Kernel, Options...>> : MergesAs<MergeKind::convolution> {};
template <class Kernel, class... Options>
struct Merging<MaxPool<Kernel, Options...>> : MergesAs<MergeKind::max_pool> {};
template <class Kernel, class... Options>
struct Merging<AvgPool<Kernel, Options...>> : MergesAs<MergeKind::average_pool> {};
template <>
struct Merging<ReLU> : MergesAsActivation<Activation::relu> {};
template <>
struct Merging<LeakyReLU> : MergesAsActivation<Activation::leaky_relu> {
  static double figure(const LeakyReLU& layer) { return layer.slope; }
};
template <>
struct Merging<SiLU> : MergesAsActivation<Activation::silu> {};
template <>
struct Merging<GELU> : MergesAsActivation<Activation::gelu> {
  static Activation function(const GELU& layer) { return gelu_function(layer.form); }
};
template <>
struct Merging<Tanh> : MergesAsActivation<Activation::tanh> {};
template <>
struct Merging<Sigmoid> : MergesAsActivation<Activation::sigmoid> {};
template <class Layer, class... Cuts>
struct Merging<DomainParallel<Layer, Cuts...>> : Merging<Layer> {};

/// The window of a layer of a chain along one spatial dimension.
struct MergeDim {
  Window window;
  LowHigh halo{0, 0};  ///< needed if the dimension is sharded
  bool cut = false;
  BoundarySide low, high;  ///< outside the domain

  constexpr bool reaches() const { return halo.lo + halo.hi > 0; }
  constexpr bool periodic() const { return low.kind == BoundaryKind::periodic; }
};

/// A layer of a chain, for the cost model and the plan.
struct MergeLayer {
  MergeKind kind  = MergeKind::none;
  bool looks_past = false;  ///< it needs points outside its shard in a sharded dimension
  int dims        = 0;
  index_t in = 0, out = 0, groups = 1;  ///< of a convolution; 0 channels: the expected number
  std::array<MergeDim, 3> dim{};        ///< the first `dims`

  constexpr const MergeDim& at(int d) const { return dim[static_cast<std::size_t>(d)]; }
  /// Whether it reads points outside the domain that must be filled. Zeros and padding of a pooling
  /// are skipped by index.
  constexpr bool fills() const {
    bool any = false;
    for (int d = 0; d < dims; ++d)
      for (const BoundarySide& side : {at(d).low, at(d).high})
        any = any || (at(d).window.padding_lo + at(d).window.padding_hi > 0 &&
                      (side.kind != BoundaryKind::constant || !side.value.is_zero()));
    return any;
  }
};

template <class Layer, class Cuts>
constexpr MergeLayer merge_layer() {
  MergeLayer l;
  l.kind = Merging<Layer>::kind;
  l.dims = Cuts::dims;
  if (l.kind == MergeKind::none) return {};
  if constexpr (requires { Layer::window(0); }) {
    l.looks_past    = looks_past_any_shard_v<Layer, Cuts>;
    const auto read = [&]<int D>(std::integral_constant<int, D>) {
      MergeDim& dim     = l.dim[static_cast<std::size_t>(D)];
      dim.window        = Layer::window(D);
      dim.halo          = Layer::halo_bound(D);
      dim.low           = BoundaryTraits<typename BoundaryOfLayer<Layer, D>::type>::low;
      dim.high          = BoundaryTraits<typename BoundaryOfLayer<Layer, D>::type>::high;
      dim.cut           = Cuts::template is_cut<D>;
      const int padding = dim.window.padding_lo + dim.window.padding_hi;
      if (dim.window.stride != 1 || (dim.cut && padding > dim.window.reach()))
        l.kind = MergeKind::none;
    };
    [&]<int... D>(std::integer_sequence<int, D...>) {
      (read(std::integral_constant<int, D>{}), ...);
    }
    (std::make_integer_sequence<int, Cuts::dims>{});
  } else {
    [&]<int... D>(std::integer_sequence<int, D...>) {
      ((l.dim[static_cast<std::size_t>(D)].cut = Cuts::template is_cut<D>), ...);
    }
    (std::make_integer_sequence<int, Cuts::dims>{});
  }
  return l;
}

template <class Layer>
inline constexpr bool is_domain_parallel_v = false;
template <class Layer, class... Cuts>
inline constexpr bool is_domain_parallel_v<DomainParallel<Layer, Cuts...>> = true;

/// The MergeLayer of a module, before or (`Converted`) after domain_parallel. After it, a window
/// that needs points outside its shard and wasn't replaced belongs to a converter, and isn't
/// merged.
template <class Node, class Cuts, bool Converted>
struct MergeLayerOf {
  static constexpr MergeLayer value{};
};
template <class T, class Memory, class Layer, class Cuts, bool Converted>
struct MergeLayerOf<Module<T, Memory, Layer>, Cuts, Converted> {
  static constexpr MergeLayer value = [] {
    constexpr MergeLayer layer = merge_layer<Layer, Cuts>();
    return Converted && layer.looks_past && !is_domain_parallel_v<Layer> ? MergeLayer{} : layer;
  }();
};

}  // namespace shard::impl

#endif
