// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_WEIGHTS_WEIGHT_NORM_HPP
#define SHARD_LAYERS_WEIGHTS_WEIGHT_NORM_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "shard/layers/impl/transformed_weight.hpp"

namespace shard {

/// A layer whose weight has its size and its direction as parameters (Salimans and Kingma 2016), as
/// PyTorch's torch.nn.utils.weight_norm: `WeightNorm<Conv3>(Conv3{4, 32})`.
///
/// weight[i] = weight_g[i] weight_v[i] / |weight_v[i]| for each index i of the weight's first
/// dimension. Local besides the layer's messages.
template <class Layer>
struct WeightNorm : impl::TransformedWeight<WeightNorm<Layer>, Layer> {
  /// The layer with the computed weight.
  using Base = impl::TransformedWeight<WeightNorm, Layer>;
  using Base::layer;
  /// Whether the layer's bias is a parameter.
  static constexpr bool trains_bias = true;

  /// Of this layer.
  constexpr explicit WeightNorm(const Layer& layer_ = {}) : Base(layer_) {}

  /// "weight_g" [n, 1, ...], "weight_v" and the layer's bias.
  std::vector<ParameterShape> parameter_shapes() const {
    auto shapes         = layer.parameter_shapes();
    shapes.front().name = "weight_v";
    ParameterShape g{"weight_g", std::vector<index_t>(shapes.front().extents.size(), 1)};
    g.extents.front() = shapes.front().extents.front();
    shapes.insert(shapes.begin(), g);
    return shapes;
  }

  /// The state of one use of the layer, for fields like x. Local.
  template <class X>
  auto state(const X&) const {
    using State  = impl::WeightState<typename X::non_const_value_type, typename X::memory_space>;
    const auto m = matrix();
    State s;
    this->allocate(s, m.rows, 0);
    return s;
  }

  /// For the library's own use: the weight, from the parameters.
  template <class Space, class S, class P>
  void make_weight(const Space& space, S& state, const P& parameters) const {
    using Kernels       = impl::WeightKernels<Space, typename P::value_type>;
    const auto m        = matrix();
    const auto* const v = parameters.arrays[1].data();
    Kernels::row_dots(space, state.rows.data(), m, v, v, true);
    Kernels::scale_rows(space, state.weight.data(), m, v, parameters.arrays[0].data(),
                        state.rows.data());
  }
  /// For the library's own use: adds the gradient of the parameters.
  template <class Space, class S, class P, class G>
  void pull_weight(const Space& space, S& state, const P& parameters, const G& gradients) const {
    using Kernels       = impl::WeightKernels<Space, typename P::value_type>;
    const auto m        = matrix();
    const auto* const v = parameters.arrays[1].data();
    Kernels::row_dots(space, state.row_scratch.data(), m, state.slope.data(), v, false);
    Kernels::pull_rows(space, gradients.arrays[1].data(), gradients.arrays[0].data(), m,
                       state.slope.data(), state.row_scratch.data(), v, parameters.arrays[0].data(),
                       state.rows.data());
  }
  /// For the library's own use: the bias, or its gradient, which is a parameter.
  template <class S, class P>
  auto bias_of(const S&, const P& parameters) const {
    return parameters.arrays[2];
  }
  /// Those for which the weight and the bias are as those of the layer by itself.
  template <class Space, class P>
  void initialise_parameters(const Space& space, const P& parameters, std::uint64_t seed,
                             std::uint64_t stream) const {
    using T           = typename P::value_type;
    const auto shapes = parameter_shapes();
    for (std::size_t i = 1; i < shapes.size(); ++i)
      impl::fill_parameter(space, shapes[i], parameters.arrays[i].data(), seed, 2 * stream + i - 1);
    const auto m        = matrix();
    const auto& g       = parameters.arrays[0];
    const auto* const v = parameters.arrays[1].data();
    const Kokkos::View<double*, typename std::decay_t<decltype(g)>::memory_space> norms(
        "shard::weight norms", static_cast<std::size_t>(m.rows));
    impl::WeightKernels<Space, T>::row_dots(space, norms.data(), m, v, v, true);
    Kokkos::deep_copy(space, g, norms);
    space.fence("shard::WeightNorm: the norms may be freed");
  }

 private:
  impl::WeightMatrix matrix() const { return impl::WeightMatrix::of(this->weight_shape(), 0); }
};

}  // namespace shard

#endif
