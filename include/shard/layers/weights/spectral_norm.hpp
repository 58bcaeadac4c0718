// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_WEIGHTS_SPECTRAL_NORM_HPP
#define SHARD_LAYERS_WEIGHTS_SPECTRAL_NORM_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/layers/impl/transformed_weight.hpp"

namespace shard {

/// A layer whose weight is divided by its largest singular value (Miyato, Kataoka, Koyama, Yoshida
/// 2018), as PyTorch's torch.nn.utils.spectral_norm: `SpectralNorm<Conv3>(Conv3{4, 32})`.
///
/// The parameter is weight_orig, W as a matrix [out, rest]; weight_u and weight_v are buffers. Each
/// apply in training makes one power step, v = W' u / |W' u|, u = W v / |W v|. Then sigma = u . W v
/// and weight = W / sigma. In evaluation u and v stay. The gradient takes u and v as constants:
/// dW = (dweight - <dweight, weight> u v') / sigma.
///
/// Every rank computes the same numbers from the same weights, so the number of power steps doesn't
/// depend on the mesh. A step of a roll-out that a tape repeats has the u and v that it had at
/// first, if it is among the last `remembered` ones.
template <class Layer>
struct SpectralNorm : impl::TransformedWeight<SpectralNorm<Layer>, Layer> {
  /// The layer with the computed weight.
  using Base = impl::TransformedWeight<SpectralNorm, Layer>;
  using Base::layer;
  /// Whether the layer's bias is a parameter.
  static constexpr bool trains_bias = true;
  double eps                        = 1e-12;  ///< the least norm that u and v are divided by
  index_t remembered                = 64;     ///< applies that can be repeated
  bool training                     = true;   ///< whether an apply makes a power step

  /// With PyTorch's default for eps.
  constexpr explicit SpectralNorm(const Layer& layer_ = {}, double eps_ = 1e-12,
                                  index_t remembered_ = 64)
      : Base(layer_), eps(eps_), remembered(remembered_) {}

  /// "weight_orig" and the layer's bias.
  std::vector<ParameterShape> parameter_shapes() const {
    auto shapes         = layer.parameter_shapes();
    shapes.front().name = "weight_orig";
    return shapes;
  }
  /// "weight_u" [out] and "weight_v" [rest].
  std::vector<ParameterShape> buffer_shapes() const {
    const auto m = matrix();
    return {{"weight_u", {m.rows}}, {"weight_v", {m.columns}}};
  }
  /// Sets u and v to random unit vectors, the same on every rank.
  template <class Space, class Buffers>
  void initialise_buffers(const Space& space, const Buffers& buffers) const {
    const auto m      = matrix();
    double* const u   = buffers.data();
    const auto random = [&](double* to, index_t count, std::uint64_t stream) {
      impl::fill_parameter(space, {"", {count}, 1.0}, to, 0, stream);
      impl::WeightKernels<Space, double>::normalise(space, to, count, eps);
    };
    random(u, m.rows, 0);
    random(u + m.rows, m.columns, 1);
  }

  /// The state of one use of the layer.
  template <class T, class Memory>
  struct State : impl::WeightState<T, Memory> {
    using Doubles = typename impl::WeightState<T, Memory>::Doubles;  ///< vectors
    Doubles buffers;                                                 ///< weight_u, then weight_v
    Kokkos::View<double**, Kokkos::LayoutRight, Memory> before;      ///< u before the last applies
    std::vector<std::uint64_t> steps;  ///< the steps of these applies, plus 1
    std::uint64_t step = 0;            ///< of the next apply
    bool again         = false;        ///< whether that is a repetition
  };
  /// The state for fields like x. Local.
  template <class X>
  auto state(const X&) const {
    using Memory = typename X::memory_space;
    using Made   = State<typename X::non_const_value_type, Memory>;
    if (remembered < 1)
      impl::throw_argument("SpectralNorm", {"remembered is ", impl::text(remembered),
                                            "; at least the last apply is remembered"});
    const auto m = matrix();
    Made s;
    this->allocate(s, m.rows, m.columns);
    const auto size = static_cast<std::size_t>(remembered);
    s.buffers       = typename Made::Doubles("shard::spectral norm",
                                             static_cast<std::size_t>(m.rows + m.columns));
    s.before =
        decltype(s.before)("shard::spectral norm before", size, static_cast<std::size_t>(m.rows));
    s.steps.assign(size, 0);
    const typename Memory::execution_space space;
    initialise_buffers(space, s.buffers);
    space.fence("shard::SpectralNorm: the vectors are ready");
    return s;
  }
  /// Makes the state use a model's vectors.
  template <class S, class Buffers>
  void use_buffers(S& state, const Buffers& buffers) const {
    state.buffers = buffers;
  }
  /// Sets the step of the next apply, and whether it is a repetition, for models.
  template <class S>
  void take_up(S& state, std::uint64_t step, bool again) const {
    state.step  = step;
    state.again = again;
  }

  /// For the library's own use: the weight, from the parameters.
  template <class Space, class S, class P>
  void make_weight(const Space& space, S& state, const P& parameters) const {
    using T         = typename P::value_type;
    using Kernels   = impl::WeightKernels<Space, T>;
    const auto m    = matrix();
    const T* w      = parameters.arrays[0].data();
    double *const u = state.rows.data(), *const v = state.columns.data();
    const auto kept_u = Kokkos::subview(state.buffers, std::pair(index_t{0}, m.rows)),
               kept_v = Kokkos::subview(state.buffers, std::pair(m.rows, m.rows + m.columns));
    if (!training) {
      Kokkos::deep_copy(space, state.rows, kept_u);
      Kokkos::deep_copy(space, state.columns, kept_v);
    } else {
      const auto slot   = static_cast<std::size_t>(state.step % state.steps.size());
      const auto before = Kokkos::subview(state.before, slot, Kokkos::ALL);
      if (!state.again) {
        Kokkos::deep_copy(space, before, kept_u);
        state.steps[slot] = state.step + 1;
      } else if (state.steps[slot] != state.step + 1) {
        impl::throw_argument("SpectralNorm",
                             {"the apply to repeat isn't among the last ", impl::text(remembered),
                              "; give the layer a larger `remembered`"});
      }
      Kokkos::deep_copy(space, state.rows, before);
      Kernels::transposed_times(space, v, m, w, u);
      Kernels::normalise(space, v, m.columns, eps);
      Kernels::times(space, u, m, w, v);
      Kernels::normalise(space, u, m.rows, eps);
      if (!state.again) {
        Kokkos::deep_copy(space, kept_u, state.rows);
        Kokkos::deep_copy(space, kept_v, state.columns);
      }
      ++state.step;
    }
    Kernels::times(space, state.row_scratch.data(), m, w, v);
    Kernels::dot(space, state.scalars.data(), u, state.row_scratch.data(), m.rows);
    Kernels::spectral(space, state.weight.data(), m, w, state.scalars.data());
  }
  /// For the library's own use: adds the gradient of the parameters.
  template <class Space, class S, class P, class G>
  void pull_weight(const Space& space, S& state, const P&, const G& gradients) const {
    using Kernels       = impl::WeightKernels<Space, typename P::value_type>;
    const auto m        = matrix();
    double* const along = state.scalars.data() + 1;
    Kernels::row_dots(space, state.row_scratch.data(), m, state.slope.data(), state.weight.data(),
                      false);
    Kernels::dot(space, along, state.row_scratch.data(), nullptr, m.rows);
    Kernels::pull_spectral(space, gradients.arrays[0].data(), m, state.slope.data(), along,
                           state.rows.data(), state.columns.data(), state.scalars.data());
  }
  /// For the library's own use: the bias, or its gradient, which is a parameter.
  template <class S, class P>
  auto bias_of(const S&, const P& parameters) const {
    return parameters.arrays[1];
  }
  /// Those of the layer by itself.
  template <class Space, class P>
  void initialise_parameters(const Space& space, const P& parameters, std::uint64_t seed,
                             std::uint64_t stream) const {
    const auto shapes = parameter_shapes();
    for (std::size_t i = 0; i < shapes.size(); ++i)
      impl::fill_parameter(space, shapes[i], parameters.arrays[i].data(), seed, 2 * stream + i);
  }

 private:
  impl::WeightMatrix matrix() const {
    constexpr bool transposed = impl::is_transposed_v<Layer>;
    return impl::WeightMatrix::of(this->weight_shape(), transposed ? 1 : 0);
  }
};

}  // namespace shard

#endif
