// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_NORM_MODULATED_HPP
#define SHARD_LAYERS_NORM_MODULATED_HPP

#include <Kokkos_Core.hpp>

#include <utility>
#include <vector>

#include "shard/layers/impl/activation_kernels.hpp"
#include "shard/layers/impl/broadcast.hpp"
#include "shard/layers/norm/norm_layer.hpp"
#include "shard/redistribute/impl/common_partition.hpp"

namespace shard {

/// A norm whose result is modulated by two further inputs: y = norm(x) (base + scale) + shift.
/// Adaptive layer norm (Peebles and Xie 2023: base 1; Aurora: base 0 or 1) is
/// `Modulated<LayerNorm>{{C, 1e-5, false}}`, with the scale and the shift of each sample from a
/// Linear. FiLM (Perez et al. 2018) and ACE's conditional norms have a scale and a shift for each
/// point.
///
/// `scale` and `shift` are broadcast against x as in Multiply: plain Views [B, C] of all values, or
/// fields of extents [B, C, 1, 1], [B, 1, H, W] or those of x. Their gradients are sums over the
/// points that share a value, complete on every rank that has the value (this rank's part for a
/// field on a mesh of one rank). A layer with three inputs
/// and the norm's parameters. It sends what the norm sends; a gradient that is summed over sharded
/// dimensions needs one collective more.
template <class Norm>
struct Modulated {
  Norm norm;          ///< usually with `affine = false`
  double base = 1.0;  ///< added to the scale

  static constexpr LayerSharding sharding = Norm::sharding;  ///< the norm's
  static constexpr bool takes_not_wanted  = true;            ///< each gradient may be not_wanted
  static constexpr int inputs             = 3;               ///< x, scale and shift
  static constexpr bool broadcasts        = true;            ///< scale and shift may be replicated

  /// The norm's parameters.
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = typename Norm::template Parameters<T, Memory>;

  /// Those of the norm; none unless it is affine.
  std::vector<ParameterShape> parameter_shapes() const { return norm.parameter_shapes(); }
  /// Those of the owned channels.
  std::vector<ParameterShape> parameter_shapes(const OwnedChannels& owned) const {
    return norm.parameter_shapes(owned);
  }

  /// The state of one use of the layer: that of the norm, and norm(x).
  template <class NormState, class Field>
  struct State {
    NormState norm;    ///< the norm's
    Field normalised;  ///< norm(x) of the last apply
    Field slope;       ///< dJ/dnorm(x), for the gradients of an affine norm's parameters
  };

  /// The state for fields with x's mesh and partitions; further inputs don't matter. Collective
  /// over the mesh if the norm's is.
  template <class X, class... More>
  auto state(const X& x, const More&...) const {
    using Field      = impl::OwnedOnlyOf<X>;
    const auto field = [&] {
      impl::Geometry geometry = x.geometry();
      const auto view         = impl::FieldTypeOf<Field>::allocate(geometry);
      return impl::FieldAccess::wrap<Field>(std::move(geometry), view);
    };
    return State<decltype(norm.state(x)), Field>{norm.state(x), field(),
                                                 norm.affine ? field() : Field()};
  }

  /// Computes y's owned points; y may be x. Collective as the norm.
  template <class Space, class S, class P, class Y, class X, class Scale, class Shift>
  void apply(const Space& space, S& state, const P& parameters, const Y& y, const X& x,
             const Scale& scale, const Shift& shift) const {
    impl::require_same_owners(name, x, y);
    const auto factor = impl::broadcast_block(name, scale, x),
               term   = impl::broadcast_block(name, shift, x);
    norm.apply(space, state.norm, parameters, state.normalised, x);
    combine(space, y, x, {impl::owned_input(state.normalised), factor, {}, {}, term, base});
    mark_written(space, y);
  }

  /// The tangent of y for the tangents of x, scale, shift and of the norm's parameters, each of
  /// which may be not_wanted (zero). The inputs and the state must be unchanged since apply.
  /// Collective as the norm's, unless tx is not_wanted. ty may be tx.
  template <class Space, class S, class P, class TP, class TY, class TX, class TScale, class TShift,
            class X, class Scale, class Shift>
  void pushforward(const Space& space, S& state, const P& parameters, const TP& parameter_tangents,
                   const TY& ty, const TX& tx, const TScale& tscale, const TShift& tshift,
                   const X& x, const Scale& scale, const Shift&) const {
    impl::require_same_owners(name, x, ty);
    Terms<X> terms;
    terms.base = base;
    if constexpr (is_wanted_v<TScale>) {
      terms.b = impl::owned_input(state.normalised);
      terms.w = impl::broadcast_block(name, tscale, x);
    }
    if constexpr (is_wanted_v<TShift>) terms.s = impl::broadcast_block(name, tshift, x);
    if constexpr (is_wanted_v<TX> || is_wanted_v<TP>) {
      terms.z = impl::broadcast_block(name, scale, x);
      norm.pushforward(space, state.norm, parameters, parameter_tangents, ty, tx, x);
      terms.a = impl::owned_input(ty);
    }
    combine(space, ty, x, terms);
    mark_written(space, ty);
  }

  /// From dy = dJ/dy: adds this rank's part to the gradients of the norm's parameters and sets the
  /// gradients of x, scale and shift. Each may be not_wanted. The inputs and the state must be
  /// unchanged since apply. dx may be dy.
  template <class Space, class S, class P, class G, class DX, class DScale, class DShift, class DY,
            class X, class Scale, class Shift>
  void pullback(const Space& space, S& state, const P& parameters, const G& gradients, const DX& dx,
                const DScale& dscale, const DShift& dshift, const DY& dy, const X& x,
                const Scale& scale, const Shift& shift) const {
    impl::require_same_owners(name, x, dy);
    if constexpr (is_wanted_v<DScale>) {
      impl::require_same_broadcast(name, dscale, scale, x);
      impl::set_broadcast_gradient(space, name, dscale, dy, impl::owned_input(state.normalised));
    }
    if constexpr (is_wanted_v<DShift>) {
      impl::require_same_broadcast(name, dshift, shift, x);
      impl::set_broadcast_gradient(space, name, dshift, dy, decltype(impl::owned_input(dy)){});
    }
    const auto pull = [&](const auto& slope, const auto& to) {
      combine(space, slope, x,
              {impl::owned_input(dy), impl::broadcast_block(name, scale, x), {}, {}, {}, base});
      norm.pullback(space, state.norm, parameters, gradients, to, slope, x);
    };
    if constexpr (is_wanted_v<DX>) {
      impl::require_same_owners(name, x, dx);
      pull(dx, dx);
    } else if constexpr (is_wanted_v<G>) {
      if (norm.affine) pull(state.slope, not_wanted);
    }
  }

 private:
  static constexpr const char* name = "Modulated";
  template <class X>
  using Terms = impl::Products<typename X::non_const_value_type>;

  template <class Space, class Y, class X>
  static void combine(const Space& space, const Y& y, const X&, const Terms<X>& terms) {
    impl::BroadcastKernels<Space, typename X::non_const_value_type>::combine(
        space, impl::owned_block(impl::local(y)), terms);
  }
};

}  // namespace shard

#endif
