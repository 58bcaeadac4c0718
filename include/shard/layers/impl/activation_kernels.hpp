// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_ACTIVATION_KERNELS_HPP
#define SHARD_LAYERS_IMPL_ACTIVATION_KERNELS_HPP

#include <cstdint>
#include <string_view>

#include "shard/base/wanted.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/layers/impl/kernels.hpp"
#include "shard/layers/impl/layer_checks.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard::impl {

/// Functions of one value.
enum class Activation : std::uint8_t {
  relu,
  leaky_relu,
  silu,
  gelu,
  gelu_tanh,
  gelu_fast,
  tanh,
  sigmoid
};

/// Kernels point by point over owned points, compiled in src/layers for float and double. They are
/// asynchronous on `space`. `figure` is the function's parameter: LeakyReLU's slope.
template <class Space, class T>
struct ActivationKernels : RequireLayerKernels<Space> {
  /// y = f(x)
  static void apply(const Space& space, Activation f, double figure, const Block<T>& y,
                    const Block<const T>& x);
  /// b = f'(x) a
  static void times_derivative(const Space& space, Activation f, double figure, const Block<T>& b,
                               const Block<const T>& a, const Block<const T>& x);
  /// y = a f(x)
  static void gate(const Space& space, Activation f, const Block<T>& y, const Block<const T>& a,
                   const Block<const T>& x);
  /// b = c a f'(x)
  static void gate_derivative(const Space& space, Activation f, const Block<T>& b,
                              const Block<const T>& c, const Block<const T>& a,
                              const Block<const T>& x);
  /// ty = ta f(x) + tx a f'(x)
  static void gate_tangent(const Space& space, Activation f, const Block<T>& ty,
                           const Block<const T>& ta, const Block<const T>& tx,
                           const Block<const T>& a, const Block<const T>& x);
};

/// The function of an activation without a parameter, which is private.
struct FunctionOf {
  template <class Layer>
  static Activation of(const Layer& layer) {
    if constexpr (requires { layer.function(); })
      return layer.function();
    else
      return Layer::function;
  }
};

/// Throws ArgumentError unless two fields have the same partitions, channels included.
template <class A, class B>
void require_same_owners(std::string_view function, const A& a, const B& b) {
  require_same_cells(function, a, b);
  require_extent(function, b.label(), "channels", b.global_extent(1), a.global_extent(1));
  require_same_partition(function, b.label(), 1, b.partition(1), a.partition(1));
}

/// y = f(x); y may be x.
template <class Space, class Y, class X>
void activate(std::string_view function, const Space& space, Activation f, double figure,
              const Y& y, const X& x) {
  require_same_owners(function, x, y);
  ActivationKernels<Space, typename Y::non_const_value_type>::apply(
      space, f, figure, owned_block(local(y)), owned_input(x));
  mark_written(space, y);
}

/// b = f'(x) a: the pushforward of tangents, the pullback of gradients. Does nothing if b is
/// not_wanted.
template <class Space, class B, class A, class X>
void activate_derivative(std::string_view function, const Space& space, Activation f, double figure,
                         const B& b, const A& a, const X& x) {
  if constexpr (is_wanted_v<B>) {
    require_same_owners(function, x, b);
    require_same_owners(function, x, a);
    ActivationKernels<Space, typename B::non_const_value_type>::times_derivative(
        space, f, figure, owned_block(local(b)), owned_input(a), owned_input(x));
  }
}

}  // namespace shard::impl

#endif
