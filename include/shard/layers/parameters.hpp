// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_PARAMETERS_HPP
#define SHARD_LAYERS_PARAMETERS_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "shard/base/impl/launch.hpp"
#include "shard/base/types.hpp"
#include "shard/view/impl/zeroed_view.hpp"

namespace shard {

/// One array of a layer's parameters: its name ("weight", "bias"; other names are documented), its
/// extents as in PyTorch, and how it is initialised: uniformly in [-bound, bound), or to `value` if
/// the bound is 0.
struct ParameterShape {
  std::string name;              ///< "weight", "bias", or as the layer says
  std::vector<index_t> extents;  ///< as in PyTorch
  double bound  = 0.0;           ///< initial values are in [-bound, bound)
  double value  = 0.0;           ///< the initial value if the bound is 0
  index_t first = 0;  ///< for a part of an array: the index of its first value in the whole
  /// True for [out, in, window...] of one group, which for a 1x1 window is equivalent to a Linear's
  /// [out, in].
  bool linear = false;

  /// Number of values.
  index_t count() const {
    index_t n = 1;
    for (index_t e : extents) n *= e;
    return n;
  }
};

/// The channels of a field [batch, channel, space...] that a rank owns. With sharded channels each
/// rank has the part of a layer's parameters for its channels of the layer's input. Gradients are
/// summed over the ranks that own the same channels.
struct OwnedChannels {
  index_t begin = 0;  ///< the first
  index_t count = 0;  ///< number of channels

  /// Those of a field.
  template <class X>
  static OwnedChannels of(const X& x) {
    return {x.begin(1), x.extent(1)};
  }
};

namespace impl {

/// The owned channels' part of parameters with one value per channel.
std::vector<ParameterShape> owned_shapes(std::vector<ParameterShape> shapes,
                                         const OwnedChannels& owned);

/// Weights with `Rank` dimensions and a bias, as Views that may be in memory owned by others; an
/// absent bias is an empty View. Gradients have the same type.
template <class T, int Rank, class Memory>
struct WeightAndBias {
  using value_type                 = T;
  static constexpr int weight_rank = Rank;
  Kokkos::View<typename Pointers<T, Rank>::type, Kokkos::LayoutRight, Memory> weight;
  Kokkos::View<T*, Kokkos::LayoutRight, Memory> bias;
};

/// Parameters of more than two arrays, one after the other.
template <class T, class Memory>
struct ParameterArrays {
  using value_type = T;
  Kokkos::View<T*, Kokkos::LayoutRight, Memory> values;
};

inline std::size_t count_of(const std::vector<ParameterShape>& shapes) {
  index_t count = 0;
  for (const ParameterShape& shape : shapes) count += shape.count();
  return static_cast<std::size_t>(count);
}

template <class View>
typename View::array_layout layout_of(const std::vector<index_t>& extents) {
  typename View::array_layout layout;
  for (std::size_t d = 0; d < extents.size(); ++d)
    layout.dimension[d] = static_cast<std::size_t>(extents[d]);
  return layout;
}

/// SplitMix64 (Steele, Lea, Flood 2014) of a counter: every rank and thread count gets the same
/// numbers.
KOKKOS_INLINE_FUNCTION std::uint64_t counter_hash(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t z = seed + 0x9e3779b97f4a7c15ULL * (index + 1);
  z               = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z               = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// Value `index` of the random stream `stream` under `seed`, uniform in [0, 1).
KOKKOS_INLINE_FUNCTION double counter_uniform(std::uint64_t seed, std::uint64_t stream,
                                              std::uint64_t index) {
  const std::uint64_t key = counter_hash(seed, stream);
  return static_cast<double>(counter_hash(key, index) >> 11) * 0x1.0p-53;
}

template <class T>
struct UniformKernel {
  T* values;
  std::uint64_t seed, stream;
  double bound;
  index_t first;

  KOKKOS_FUNCTION void operator()(index_t i) const {
    const auto index = static_cast<std::uint64_t>(first + i);
    values[i]        = static_cast<T>(bound * (2.0 * counter_uniform(seed, stream, index) - 1.0));
  }
};

template <class Space, class T>
void fill_parameter(const Space& space, const ParameterShape& shape, T* values, std::uint64_t seed,
                    std::uint64_t stream) {
  const index_t count = shape.count();
  if (count == 0 || values == nullptr) return;
  if (shape.bound > 0.0)
    launch("shard::uniform", space, count,
           UniformKernel<T>{values, seed, stream, shape.bound, shape.first});
  else
    Kokkos::deep_copy(
        space,
        Kokkos::View<T*, typename Space::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(
            values, static_cast<std::size_t>(count)),
        static_cast<T>(shape.value));
}

extern template void fill_parameter(const Kokkos::DefaultExecutionSpace&, const ParameterShape&,
                                    float*, std::uint64_t, std::uint64_t);
extern template void fill_parameter(const Kokkos::DefaultExecutionSpace&, const ParameterShape&,
                                    double*, std::uint64_t, std::uint64_t);

template <class Parameters>
Parameters allocate_parameters(const std::vector<ParameterShape>& shapes,
                               const std::string& label) {
  Parameters p;
  if constexpr (requires { p.values; }) {
    p.values = decltype(p.values)(label, count_of(shapes));
  } else {
    if (!shapes.empty())
      p.weight =
          decltype(p.weight)(label + ".weight", layout_of<decltype(p.weight)>(shapes[0].extents));
    if (shapes.size() > 1)
      p.bias = decltype(p.bias)(label + ".bias", static_cast<std::size_t>(shapes[1].count()));
  }
  return p;
}

template <class Space, class Parameters>
void fill_parameters(const Space& space, const std::vector<ParameterShape>& shapes,
                     const Parameters& parameters, std::uint64_t seed, std::uint64_t stream) {
  if constexpr (requires { parameters.values; }) {
    auto* values = parameters.values.data();
    // a stream for each array that no other layer has
    for (std::size_t a = 0; a < shapes.size(); values += shapes[a++].count())
      fill_parameter(space, shapes[a], values, seed, (std::uint64_t(a) << 32U) + 2 * stream);
  } else {
    if (!shapes.empty())
      fill_parameter(space, shapes[0], parameters.weight.data(), seed, 2 * stream);
    if (shapes.size() > 1)
      fill_parameter(space, shapes[1], parameters.bias.data(), seed, 2 * stream + 1);
  }
}

}  // namespace impl

/// Number of values of all parameters of a layer.
template <class Layer>
index_t parameter_count(const Layer& layer) {
  index_t count = 0;
  for (const ParameterShape& shape : layer.parameter_shapes()) count += shape.count();
  return count;
}

/// A layer's parameters in memory at `data`, which has parameter_count(layer) values: weight, then
/// bias.
template <class T, class Memory, class Layer>
auto wrap_parameters(const Layer& layer, T* data) {
  typename Layer::template Parameters<T, Memory> p;
  const std::vector<ParameterShape> shapes = layer.parameter_shapes();
  if constexpr (requires { p.values; }) {
    p.values = decltype(p.values)(data, impl::count_of(shapes));
  } else {
    if (!shapes.empty())
      p.weight = decltype(p.weight)(data, impl::layout_of<decltype(p.weight)>(shapes[0].extents));
    if (shapes.size() > 1)
      p.bias =
          decltype(p.bias)(data + shapes[0].count(), static_cast<std::size_t>(shapes[1].count()));
  }
  return p;
}

/// Allocates a layer's parameters, or their gradients, set to zero.
template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space, class Layer>
auto make_parameters(const Layer& layer, const std::string& label) {
  return impl::allocate_parameters<typename Layer::template Parameters<T, Memory>>(
      layer.parameter_shapes(), label);
}
/// Allocates a rank's parameters for the layer's input x: the owned channels' part if channels are
/// sharded, else all.
template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space, class Layer, class X>
auto make_parameters(const Layer& layer, const X& x, const std::string& label) {
  return impl::allocate_parameters<typename Layer::template Parameters<T, Memory>>(
      layer.parameter_shapes(OwnedChannels::of(x)), label);
}

/// Initialises a layer's parameters as PyTorch does by default (weights and bias of a window
/// uniform in +-1/sqrt(fan in); of a norm 1 and 0), from a counter: the same on every rank and for
/// every thread count. Use another `stream` for each layer. Local.
template <class Space, class Layer, class Parameters>
void initialise(const Space& space, const Layer& layer, const Parameters& parameters,
                std::uint64_t seed, std::uint64_t stream) {
  impl::fill_parameters(space, layer.parameter_shapes(), parameters, seed, stream);
}
/// The same for a rank's part for the layer's input x, with the same values as in the whole.
template <class Space, class Layer, class X, class Parameters>
void initialise(const Space& space, const Layer& layer, const X& x, const Parameters& parameters,
                std::uint64_t seed, std::uint64_t stream) {
  impl::fill_parameters(space, layer.parameter_shapes(OwnedChannels::of(x)), parameters, seed,
                        stream);
}

}  // namespace shard

#endif
