// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_CONV_BLOCK_HPP
#define SHARD_MODEL_CONV_BLOCK_HPP

#include <string>

#include "shard/layers/window/conv.hpp"
#include "shard/layers/window/conv_transpose.hpp"
#include "shard/layers/norm/group_norm.hpp"
#include "shard/layers/resampling/interpolate.hpp"
#include "shard/layers/pointwise/pointwise.hpp"
#include "shard/mesh/mesh.hpp"

namespace shard {

/// A 3x3 convolution with stride S, a GroupNorm and a SiLU, with their state. `Field` has no halo,
/// `Haloed` a halo of one point. The convolution has no bias, because the norm would cancel it.
template <class Field, class Haloed, int S>
struct ConvBlock {
  using T      = typename Field::non_const_value_type;             ///< of all values
  using Memory = typename Field::memory_space;                     ///< memory space of all data
  using Window = Conv<Kernel<3, 3>, Stride<S, S>, Padding<1, 1>>;  ///< the convolution

  Window conv;     ///< first
  GroupNorm norm;  ///< second
  typename Window::template Parameters<T, Memory>
      conv_parameters;                                             ///< Views into the model's array
  typename Window::template Parameters<T, Memory> conv_gradients;  ///< Views into its gradients'
  GroupNorm::Parameters<T, Memory> norm_parameters;                ///< as the convolution's
  GroupNorm::Parameters<T, Memory> norm_gradients;                 ///< as the convolution's
  GroupNorm::State<Memory> state;                                  ///< of the norm
  Field convolved;                                                 ///< after the convolution
  Field normed;                                                    ///< after the norm
  Field gradient;                                                  ///< scratch for both gradients
  Haloed y;                                                        ///< the output
  Haloed dy;                                                       ///< its gradient

  ConvBlock() = default;
  /// Collective over the mesh: a block for inputs like x.
  template <class... Axes>
  ConvBlock(const Mesh<Axes...>& mesh, index_t in, index_t out, index_t groups, const Haloed& x)
      : conv{in, out, 1, false}, norm{groups, out} {
    const auto partitions = conv.output_partitions(x.partitions());
    convolved             = Field("convolved", mesh, partitions);
    normed                = convolved.like("normed");
    gradient              = convolved.like("block gradient");
    y                     = Haloed("block y", mesh, partitions);
    dy                    = y.like("block dy");
    state                 = norm.state(convolved);
  }

  /// Computes y from x. Collective.
  template <class Space>
  void apply(const Space& space, const Haloed& x) {
    conv.apply(space, conv_parameters, convolved, x);
    norm.apply(space, state, norm_parameters, normed, convolved);
    SiLU().apply(space, y, normed);
  }
  /// From the gradient of y: adds to the parameters' gradients and sets dx. Collective.
  template <class Space>
  void pullback(const Space& space, const Haloed& dx, const Haloed& dy_given, const Haloed& x) {
    SiLU().pullback(space, gradient, dy_given, normed);
    norm.pullback(space, state, norm_parameters, norm_gradients, gradient, gradient, convolved);
    conv.pullback(space, conv_parameters, conv_gradients, dx, gradient, x);
  }
  /// Calls visit(name, layer, parameters, gradients) for both layers.
  template <class Visit>
  void for_each_layer(const std::string& name, const Visit& visit) {
    visit(name + ".conv", conv, conv_parameters, conv_gradients);
    visit(name + ".norm", norm, norm_parameters, norm_gradients);
  }
};

/// Upsampling by a transposed convolution (kernel 3, stride 2, padding 1) to the extents and
/// partitions of the skip connection, which determine the output padding.
template <class Field, class Haloed>
struct TransposedRise {
  using T      = typename Field::non_const_value_type;  ///< of all values
  using Memory = typename Field::memory_space;          ///< memory space of all data
  /// The layer that has parameters.
  using Layer = ConvTranspose<Kernel<3, 3>, Stride<2, 2>, Padding<1, 1>>;

  Layer layer;                                                ///< the layer
  typename Layer::template Parameters<T, Memory> parameters;  ///< Views into the model's array
  typename Layer::template Parameters<T, Memory> gradients;   ///< Views into its gradients'
  Field y;                                                    ///< the output
  Field dy;                                                   ///< its gradient

  TransposedRise() = default;
  /// Collective over the mesh.
  template <class... Axes>
  TransposedRise(const Mesh<Axes...>& mesh, index_t in, index_t out, const Haloed&,
                 const Haloed& skip)
      : layer{in, out} {
    auto partitions = skip.partitions();
    partitions[1]   = Partition::balanced(out, 1);
    y               = Field("risen", mesh, partitions);
    dy              = y.like("d risen");
  }
  /// Computes y from x. Collective.
  template <class Space>
  void apply(const Space& space, const Haloed& x) {
    layer.apply(space, parameters, y, x);
  }
  /// From dy: adds to the parameters' gradients and sets dx. Collective.
  template <class Space>
  void pullback(const Space& space, const Haloed& dx, const Haloed& x) {
    layer.pullback(space, parameters, gradients, dx, dy, x);
  }
};

/// Upsampling by linear interpolation, after a 1x1 convolution that halves the channels.
template <class Field, class Haloed>
struct InterpolatedRise {
  using T      = typename Field::non_const_value_type;  ///< of all values
  using Memory = typename Field::memory_space;          ///< memory space of all data
  /// The layer that has parameters.
  using Layer = Conv<Kernel<1, 1>>;
  /// The interpolation.
  using Finer = Interpolate<2, Linear, Meets<2>>;

  Layer layer;                                                ///< the layer
  typename Layer::template Parameters<T, Memory> parameters;  ///< Views into the model's array
  typename Layer::template Parameters<T, Memory> gradients;   ///< Views into its gradients'
  Haloed narrow;                                              ///< the input of the interpolation
  Haloed dnarrow;                                             ///< its gradient
  Field y;                                                    ///< the output
  Field dy;                                                   ///< its gradient

  InterpolatedRise() = default;
  /// Collective over the mesh.
  template <class... Axes>
  InterpolatedRise(const Mesh<Axes...>& mesh, index_t in, index_t out, const Haloed& x,
                   const Haloed& skip)
      : layer{in, out} {
    auto partitions = skip.partitions();
    partitions[1]   = Partition::balanced(out, 1);
    y               = Field("risen", mesh, partitions);
    dy              = y.like("d risen");
    auto coarse     = x.partitions();
    coarse[1]       = partitions[1];
    narrow          = Haloed("narrow", mesh, coarse);
    dnarrow         = narrow.like("d narrow");
  }
  /// Computes y from x. Collective.
  template <class Space>
  void apply(const Space& space, const Haloed& x) {
    layer.apply_local(space, parameters, narrow, x);
    Finer().apply(space, y, narrow);
  }
  /// From dy: adds to the parameters' gradients and sets dx. Collective.
  template <class Space>
  void pullback(const Space& space, const Haloed& dx, const Haloed& x) {
    Finer().pullback(space, dnarrow, dy);
    layer.pullback_parameters(space, gradients, dnarrow, x);
    layer.pullback_input_local(space, parameters, dx, dnarrow);
  }
};

}  // namespace shard

#endif
