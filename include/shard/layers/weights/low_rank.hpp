// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_WEIGHTS_LOW_RANK_HPP
#define SHARD_LAYERS_WEIGHTS_LOW_RANK_HPP

#include <Kokkos_Core.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/layers/impl/transformed_weight.hpp"

namespace shard {

/// Low-rank adaptation of a trained layer (LoRA: Hu et al. 2021):
/// weight = W + (alpha / rank) lora_B lora_A, for a Linear or a Conv of one group, for instance
/// `LowRank<Linear>(Linear{512, 512}, 8, 16.0)`.
///
/// W and the bias are constants, so they are buffers: "weight" and "bias", with the names of the
/// layer by itself. Parameters are lora_A [rank, rest of W's extents] and lora_B [out, rank], so
/// that the optimiser and the sum of the gradients have only these. lora_B begins with zeros. There
/// is no dropout.
template <class Layer>
struct LowRank : impl::TransformedWeight<LowRank<Layer>, Layer> {
  static_assert(!impl::is_transposed_v<Layer>, "a LowRank layer is a Linear or a Conv");
  /// The layer with the computed weight.
  using Base = impl::TransformedWeight<LowRank, Layer>;
  using Base::layer;
  /// Whether the layer's bias is a parameter.
  static constexpr bool trains_bias = false;
  index_t rank                      = 8;    ///< columns of lora_B
  double alpha                      = 8.0;  ///< rank times the factor of lora_B lora_A

  /// Throws ArgumentError for a rank below 1 or a layer with groups.
  explicit LowRank(const Layer& layer_ = {}, index_t rank_ = 8, double alpha_ = 8.0)
      : Base(layer_), rank(rank_), alpha(alpha_) {
    if (rank < 1)
      impl::throw_argument("LowRank", {"the rank is ", impl::text(rank), "; it is at least 1"});
    if constexpr (requires { layer.groups; })
      if (layer.groups != 1)
        impl::throw_argument(
            "LowRank", {"the layer has ", impl::text(layer.groups), " groups; it has to have one"});
  }

  /// "lora_A" and "lora_B".
  std::vector<ParameterShape> parameter_shapes() const {
    const ParameterShape w = this->weight_shape();
    ParameterShape a{"lora_A", w.extents};
    a.extents.front() = rank;
    const auto m      = matrix();
    a.bound           = m.columns > 0 ? 1.0 / std::sqrt(static_cast<double>(m.columns)) : 0.0;
    return {a, {"lora_B", {w.extents.front(), rank}}};
  }
  /// "weight" and "bias" of the layer.
  std::vector<ParameterShape> buffer_shapes() const { return layer.parameter_shapes(); }
  /// Sets them to the layer's default initialisation; a file has the trained ones.
  template <class Space, class Buffers>
  void initialise_buffers(const Space& space, const Buffers& buffers) const {
    double* to           = buffers.data();
    std::uint64_t stream = 0;
    for (const ParameterShape& shape : buffer_shapes()) {
      impl::fill_parameter(space, shape, to, 0, stream++);
      to += shape.count();
    }
  }

  /// The state of one use of the layer.
  template <class T, class Memory>
  struct State : impl::WeightState<T, Memory> {
    typename impl::WeightState<T, Memory>::Doubles buffers;  ///< weight, then bias
    typename impl::WeightState<T, Memory>::Values bias;      ///< in the type of the fields
  };
  /// The state for fields like x. Local.
  template <class X>
  auto state(const X&) const {
    using Memory = typename X::memory_space;
    using Made   = State<typename X::non_const_value_type, Memory>;
    Made s;
    this->allocate(s, 0, 0);
    index_t all = 0;
    for (const ParameterShape& shape : buffer_shapes()) all += shape.count();
    const auto biases = static_cast<std::size_t>(all - this->weight_shape().count());
    s.buffers         = decltype(s.buffers)("shard::low rank base", static_cast<std::size_t>(all));
    s.bias            = decltype(s.bias)("shard::low rank bias", biases);
    const typename Memory::execution_space space;
    initialise_buffers(space, s.buffers);
    space.fence("shard::LowRank: the weight is ready");
    return s;
  }
  /// Makes the state use a model's weight and bias.
  template <class S, class Buffers>
  void use_buffers(S& state, const Buffers& buffers) const {
    state.buffers = buffers;
  }

  /// Sets `weight`, of the layer by itself, to W + (alpha / rank) lora_B lora_A: with it the layer
  /// computes the same without lora_A and lora_B. Throws ArgumentError for another number of
  /// values.
  template <class Space, class P, class Buffers, class Weight>
  void merge(const Space& space, const P& parameters, const Buffers& buffers,
             const Weight& weight) const {
    const auto m = matrix();
    if (static_cast<index_t>(weight.size()) != m.rows * m.columns || !weight.span_is_contiguous())
      impl::throw_argument("LowRank::merge", {"the weight has ", impl::text(m.rows * m.columns),
                                              " values, contiguous; given ",
                                              impl::text(static_cast<index_t>(weight.size()))});
    merge_to(space, parameters, buffers, weight.data());
  }

  /// For the library's own use: the weight, from the parameters.
  template <class Space, class S, class P>
  void make_weight(const Space& space, S& state, const P& parameters) const {
    merge_to(space, parameters, state.buffers, state.weight.data());
    if (state.bias.extent(0) > 0) {
      const auto first = state.weight.extent(0);
      Kokkos::deep_copy(
          space, state.bias,
          Kokkos::subview(state.buffers, std::pair(first, first + state.bias.extent(0))));
    }
  }
  /// For the library's own use: adds the gradient of the parameters.
  template <class Space, class S, class P, class G>
  void pull_weight(const Space& space, S& state, const P& parameters, const G& gradients) const {
    impl::WeightKernels<Space, typename P::value_type>::pull_low_rank(
        space, gradients.arrays[0].data(), gradients.arrays[1].data(), matrix(), state.slope.data(),
        parameters.arrays[0].data(), parameters.arrays[1].data(), rank,
        alpha / static_cast<double>(rank));
  }
  /// For the library's own use: the bias, which is constant.
  template <class S, class P>
  auto bias_of(const S& state, const P&) const {
    return state.bias;
  }
  /// lora_A within 1 / sqrt(columns), as PyTorch's Linear; lora_B zero.
  template <class Space, class P>
  void initialise_parameters(const Space& space, const P& parameters, std::uint64_t seed,
                             std::uint64_t stream) const {
    const auto shapes = parameter_shapes();
    for (std::size_t i = 0; i < shapes.size(); ++i)
      impl::fill_parameter(space, shapes[i], parameters.arrays[i].data(), seed, 2 * stream + i);
  }

 private:
  impl::WeightMatrix matrix() const { return impl::WeightMatrix::of(this->weight_shape(), 0); }
  template <class Space, class P, class Buffers, class T>
  void merge_to(const Space& space, const P& parameters, const Buffers& buffers, T* weight) const {
    impl::WeightKernels<Space, T>::low_rank(
        space, weight, matrix(), buffers.data(), parameters.arrays[0].data(),
        parameters.arrays[1].data(), rank, alpha / static_cast<double>(rank));
  }
};

}  // namespace shard

#endif
