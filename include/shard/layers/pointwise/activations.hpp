// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_POINTWISE_ACTIVATIONS_HPP
#define SHARD_LAYERS_POINTWISE_ACTIVATIONS_HPP

#include <cstdint>
#include <vector>

#include "shard/layers/impl/activation_kernels.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"

/// \file
/// Pointwise functions on the owned points of fields [batch, channel, space...] with any halos and
/// partitions. They have no parameters, send nothing, and are bitwise the same for any number of
/// ranks. They throw ArgumentError on every rank if fields have different partitions.

namespace shard {

/// How GELU is computed.
enum class GeluForm : std::uint8_t {
  erf,   ///< exactly: a few units in the last place, also where the value is small
  tanh,  ///< PyTorch's approximate="tanh"
  fast   ///< exactly, but a float's value has an absolute error of up to 1e-6, as PyTorch's has
};

namespace impl {
constexpr Activation gelu_function(GeluForm form) {
  return form == GeluForm::tanh   ? Activation::gelu_tanh
         : form == GeluForm::fast ? Activation::gelu_fast
                                  : Activation::gelu;
}
}  // namespace impl

/// What functions without a parameter have in common. `Layer` has a `name` and its `function`.
template <class Layer>
struct ActivationLayer {
  static constexpr LayerSharding sharding = LayerSharding::local;  ///< sends nothing

  /// No parameters.
  std::vector<ParameterShape> parameter_shapes() const { return {}; }

  /// Computes y's owned points; y may be x.
  template <class Space, class Y, class X>
  void apply(const Space& space, const Y& y, const X& x) const {
    impl::activate(Layer::name, space, Layer::function, 0.0, y, x);
  }
  /// The tangent of y for the tangent tx of x; ty may be tx.
  template <class Space, class TY, class TX, class X>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const X& x) const {
    pullback(space, ty, tx, x);
    mark_written(space, ty);
  }
  /// Sets dx = dJ/dx from dy = dJ/dy and x; dx may be dy, or not_wanted.
  template <class Space, class DX, class DY, class X>
  void pullback(const Space& space, const DX& dx, const DY& dy, const X& x) const {
    impl::activate_derivative(Layer::name, space, Layer::function, 0.0, dx, dy, x);
  }
};

/// y = max(x, 0), point by point (Nair and Hinton 2010). The derivative at 0 is 0, as in PyTorch.
struct ReLU : ActivationLayer<ReLU> {
 private:
  friend ActivationLayer<ReLU>;
  friend impl::FunctionOf;
  static constexpr const char* name          = "ReLU";
  static constexpr impl::Activation function = impl::Activation::relu;
};

/// y = x where x > 0, else slope x, point by point (Maas, Hannun and Ng 2013). The derivative at 0
/// is the slope, as in PyTorch.
struct LeakyReLU {
  double slope = 0.01;  ///< of the negative side

  static constexpr LayerSharding sharding = LayerSharding::local;  ///< sends nothing

  /// No parameters.
  std::vector<ParameterShape> parameter_shapes() const { return {}; }

  /// Computes y's owned points; y may be x.
  template <class Space, class Y, class X>
  void apply(const Space& space, const Y& y, const X& x) const {
    impl::activate("LeakyReLU", space, impl::Activation::leaky_relu, slope, y, x);
  }
  /// The tangent of y for the tangent tx of x; ty may be tx.
  template <class Space, class TY, class TX, class X>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const X& x) const {
    impl::activate_derivative("LeakyReLU", space, impl::Activation::leaky_relu, slope, ty, tx, x);
    mark_written(space, ty);
  }
  /// Sets dx = dJ/dx from dy = dJ/dy and x; dx may be dy, or not_wanted.
  template <class Space, class DX, class DY, class X>
  void pullback(const Space& space, const DX& dx, const DY& dy, const X& x) const {
    impl::activate_derivative("LeakyReLU", space, impl::Activation::leaky_relu, slope, dx, dy, x);
  }
};

/// y = x / (1 + exp(-x)), point by point (Elfwing, Uchibe and Doya 2018).
struct SiLU : ActivationLayer<SiLU> {
 private:
  friend ActivationLayer<SiLU>;
  friend impl::FunctionOf;
  static constexpr const char* name          = "SiLU";
  static constexpr impl::Activation function = impl::Activation::silu;
};

/// y = x Phi(x), Phi the normal distribution (Hendrycks and Gimpel 2016), point by point: by erf,
/// or by their approximation 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). The fast form is
/// the former with a shorter fit.
struct GELU {
  GeluForm form = GeluForm::erf;  ///< default erf, as in PyTorch

  static constexpr LayerSharding sharding = LayerSharding::local;  ///< sends nothing

  /// No parameters.
  std::vector<ParameterShape> parameter_shapes() const { return {}; }

  /// Computes y's owned points; y may be x.
  template <class Space, class Y, class X>
  void apply(const Space& space, const Y& y, const X& x) const {
    impl::activate("GELU", space, function(), 0.0, y, x);
  }
  /// The tangent of y for the tangent tx of x; ty may be tx.
  template <class Space, class TY, class TX, class X>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const X& x) const {
    impl::activate_derivative("GELU", space, function(), 0.0, ty, tx, x);
    mark_written(space, ty);
  }
  /// Sets dx = dJ/dx from dy = dJ/dy and x; dx may be dy, or not_wanted.
  template <class Space, class DX, class DY, class X>
  void pullback(const Space& space, const DX& dx, const DY& dy, const X& x) const {
    impl::activate_derivative("GELU", space, function(), 0.0, dx, dy, x);
  }

 private:
  friend impl::FunctionOf;
  impl::Activation function() const { return impl::gelu_function(form); }
};

/// y = tanh(x), point by point.
struct Tanh : ActivationLayer<Tanh> {
 private:
  friend ActivationLayer<Tanh>;
  friend impl::FunctionOf;
  static constexpr const char* name          = "Tanh";
  static constexpr impl::Activation function = impl::Activation::tanh;
};

/// y = 1 / (1 + exp(-x)), point by point.
struct Sigmoid : ActivationLayer<Sigmoid> {
 private:
  friend ActivationLayer<Sigmoid>;
  friend impl::FunctionOf;
  static constexpr const char* name          = "Sigmoid";
  static constexpr impl::Activation function = impl::Activation::sigmoid;
};

}  // namespace shard

#endif
