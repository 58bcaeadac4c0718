// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_POINTWISE_GATED_HPP
#define SHARD_LAYERS_POINTWISE_GATED_HPP

#include <array>
#include <cstddef>
#include <vector>

#include "shard/layers/pointwise/activations.hpp"
#include "shard/layers/pointwise/pointwise.hpp"

namespace shard {

/// Gated linear units (Dauphin et al. 2017; Shazeer 2020): y = a f(b), a and b the first and the
/// second half of x's channels, f an activation. PyTorch's glu(x, dim=1) is `Gated<Sigmoid>`. With
/// `activates_first` y = f(a) b, the order of xFormers' SwiGLU and of gate_proj before up_proj.
/// Fields are [batch, channel, space...]; batch and space may be sharded. Local, and bitwise the
/// same for any number of ranks.
template <class Activation>
struct Gated {
  Activation activation{};       ///< f: Sigmoid, SiLU, GELU, ReLU or Tanh
  bool activates_first = false;  ///< whether f is applied to the first half

  static constexpr LayerSharding sharding = LayerSharding::local;  ///< sends nothing

  /// No parameters.
  std::vector<ParameterShape> parameter_shapes() const { return {}; }

  /// The partitions of the output for an input with these: half the channels. Throws ArgumentError
  /// for an odd number of channels.
  template <std::size_t Rank>
  std::array<Partition, Rank> output_partitions(const std::array<Partition, Rank>& input) const {
    if (input[1].size() % 2 != 0)
      impl::throw_argument(
          "Gated", {impl::text(input[1].size()), " channels can't be divided into two halves"});
    std::array<Partition, Rank> p = input;
    p[1]                          = Partition::whole(input[1].size() / 2);
    return p;
  }

  /// Computes y's owned points.
  template <class Space, class Y, class X>
  void apply(const Space& space, const Y& y, const X& x) const {
    require(x, y);
    const auto halves = of(impl::owned_input(x));
    Kernels<Space, Y>::gate(space, function(), impl::owned_block(impl::local(y)), halves.factor,
                            halves.gate);
    mark_written(space, y);
  }
  /// The tangent of y for the tangent tx of x.
  template <class Space, class TY, class TX, class X>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const X& x) const {
    require(x, ty);
    impl::require_same_owners("Gated", x, tx);
    const auto halves = of(impl::owned_input(x)), tangents = of(impl::owned_input(tx));
    Kernels<Space, TY>::gate_tangent(space, function(), impl::owned_block(impl::local(ty)),
                                     tangents.factor, tangents.gate, halves.factor, halves.gate);
    mark_written(space, ty);
  }
  /// Sets dx = dJ/dx from dy = dJ/dy and x; dx may be not_wanted.
  template <class Space, class DX, class DY, class X>
  void pullback(const Space& space, const DX& dx, const DY& dy, const X& x) const {
    require(x, dy);
    if constexpr (is_wanted_v<DX>) {
      impl::require_same_owners("Gated", x, dx);
      const auto halves = of(impl::owned_input(x));
      const auto to     = of(impl::owned_block(impl::local(dx)));
      const auto from   = impl::owned_input(dy);
      Kernels<Space, DX>::gate(space, function(), to.factor, from, halves.gate);
      Kernels<Space, DX>::gate_derivative(space, function(), to.gate, from, halves.factor,
                                          halves.gate);
    }
  }

 private:
  template <class Space, class Y>
  using Kernels = impl::ActivationKernels<Space, typename Y::non_const_value_type>;

  template <class Block>
  struct Halves {
    Block factor, gate;
  };
  template <class Block>
  Halves<Block> of(const Block& x) const {
    const index_t half = x.channels / 2;
    const Block first = impl::channels_of(x, 0, half), second = impl::channels_of(x, half, half);
    return activates_first ? Halves<Block>{second, first} : Halves<Block>{first, second};
  }
  impl::Activation function() const { return impl::FunctionOf::of(activation); }

  template <class X, class Y>
  void require(const X& x, const Y& y) const {
    static_assert(!impl::is_cut_v<X, 1>,
                  "a gated unit's channels can't be sharded: redistribute before it");
    impl::require_same_cells("Gated", x, y);
    impl::require_extent("Gated", x.label(), "channels", x.global_extent(1),
                         2 * y.global_extent(1));
  }
};

using GLU    = Gated<Sigmoid>;  ///< y = a sigmoid(b)
using SwiGLU = Gated<SiLU>;     ///< y = a SiLU(b)
using GEGLU  = Gated<GELU>;     ///< y = a GELU(b)
using ReGLU  = Gated<ReLU>;     ///< y = a max(b, 0)

}  // namespace shard

#endif
