// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_WEIGHTS_JOINED_WEIGHT_HPP
#define SHARD_LAYERS_WEIGHTS_JOINED_WEIGHT_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/layers/impl/transformed_weight.hpp"

namespace shard {

/// A part of a JoinedWeight: the parameter for some of the layer's input channels.
struct WeightPart {
  std::string name;      ///< of the parameter: "weights.2t"
  index_t channels = 1;  ///< of the input
};

/// A Linear or a Conv whose weight is several parameters one after the other along the input
/// channels, one for each variable for instance (as the patch embeddings of Aurora: Bodnar et al.
/// 2024): `JoinedWeight<Conv4>(Conv4{5, 16}, {{"weights.2t", 2}, {"weights.msl", 3}})`. So a model
/// of other variables can load the parameters of those that it shares.
template <class Layer>
struct JoinedWeight : impl::TransformedWeight<JoinedWeight<Layer>, Layer> {
  static_assert(!impl::is_transposed_v<Layer>, "a JoinedWeight's layer is a Linear or a Conv");
  /// The layer with the joined weight.
  using Base = impl::TransformedWeight<JoinedWeight, Layer>;
  using Base::layer;
  /// Whether the layer's bias is a parameter.
  static constexpr bool trains_bias = true;
  /// Its parameters are one after the other, as many as there are parts.
  static constexpr bool has_transformed_weight = false;
  /// The parts and the bias.
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = impl::ParameterArrays<T, Memory>;
  std::vector<WeightPart> parts;  ///< in the order of the channels

  /// Without parts it is one, "weight". Throws ArgumentError unless the parts have as many channels
  /// as the layer's input, for a layer with groups, and for two parts of one name.
  explicit JoinedWeight(const Layer& layer_ = {}, std::vector<WeightPart> parts_ = {})
      : Base(layer_), parts(std::move(parts_)) {
    const index_t wanted = this->weight_shape().extents[1];
    if (parts.empty()) parts.push_back({"weight", wanted});
    index_t channels = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      channels += parts[i].channels;
      for (std::size_t j = 0; j < i; ++j)
        if (parts[i].name == parts[j].name)
          impl::throw_argument("JoinedWeight", {"two parts have the name \"", parts[i].name, "\""});
    }
    if (channels != wanted)
      impl::throw_argument("JoinedWeight",
                           {"the parts have ", impl::text(channels),
                            " channels, and the layer's input ", impl::text(wanted)});
    if constexpr (requires { layer.groups; })
      if (layer.groups != 1)
        impl::throw_argument("JoinedWeight", {"the layer has ", impl::text(layer.groups),
                                              " groups; it has to have one"});
  }

  /// The parts, then the layer's bias.
  std::vector<ParameterShape> parameter_shapes() const {
    const auto all = layer.parameter_shapes();
    std::vector<ParameterShape> shapes;
    for (const WeightPart& part : parts) {
      shapes.push_back(all.front());
      shapes.back().name       = part.name;
      shapes.back().extents[1] = part.channels;
    }
    shapes.insert(shapes.end(), all.begin() + 1, all.end());
    return shapes;
  }
  /// The state of one use of the layer, for fields like x. Local.
  template <class X>
  auto state(const X&) const {
    impl::WeightState<typename X::non_const_value_type, typename X::memory_space> s;
    this->allocate(s, 0, 0);
    return s;
  }

  /// For the library's own use: the weight, from the parameters.
  template <class Space, class S, class P>
  void make_weight(const Space& space, S& state, const P& parameters) const {
    each(parameters, [&](auto* part, index_t first, const impl::WeightMatrix& of) {
      impl::WeightKernels<Space, typename P::value_type>::place_rows(space, state.weight.data(),
                                                                     whole(), first, part, of);
    });
  }
  /// For the library's own use: adds the gradient of the parameters.
  template <class Space, class S, class P, class G>
  void pull_weight(const Space& space, S& state, const P&, const G& gradients) const {
    each(gradients, [&](auto* part, index_t first, const impl::WeightMatrix& of) {
      impl::WeightKernels<Space, typename P::value_type>::add_rows(
          space, part, of, state.slope.data(), whole(), first);
    });
  }
  /// For the library's own use: the bias, or its gradient.
  template <class S, class P>
  auto bias_of(const S&, const P& parameters) const {
    const auto weights = static_cast<std::size_t>(this->weight_shape().count());
    return decltype(parameters.values)(parameters.values.data() + weights,
                                       parameters.values.extent(0) - weights);
  }

 private:
  impl::WeightMatrix whole() const { return impl::WeightMatrix::of(this->weight_shape(), 1); }
  /// Calls use(values, first channel, matrix) for the parts.
  template <class P, class Use>
  void each(const P& parameters, const Use& use) const {
    auto* values  = parameters.values.data();
    index_t first = 0;
    for (const WeightPart& part : parts) {
      auto shape       = this->weight_shape();
      shape.extents[1] = part.channels;
      use(values, first, impl::WeightMatrix::of(shape, 1));
      values += shape.count();
      first += part.channels;
    }
  }
};

}  // namespace shard

#endif
