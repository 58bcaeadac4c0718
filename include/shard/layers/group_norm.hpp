// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_GROUP_NORM_HPP
#define SHARD_LAYERS_GROUP_NORM_HPP

#include <Kokkos_Core.hpp>

#include <vector>

#include "shard/layers/norm_layer.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"

namespace shard {

/// Group normalisation over the whole world: y = (x - mean) / sqrt(var + eps) * weight + bias, mean
/// and (biased) variance of each batch entry and group of channels over all cells of all ranks (Wu
/// and He 2018). Fields are [batch, channel, space...]; batch and space may be cut, shards uneven
/// or empty.
///
/// Forward: count, mean and sum of squared differences per shard in double, gathered in one
/// collective and merged in rank order (Chan, Golub, LeVeque 1983), the same on every rank.
/// Backward: two sums in one collective; dx = rstd (w dy - S1 / D - xhat S2 / D), D the number of
/// cells of a group. A tangent: two sums in one collective.
///
/// Sums of a batch entry and channel run over rows ascending in sum_lanes running sums, first that
/// of x and then, of the differences from that channel's mean, that of the squares; channels are
/// merged in ascending order, after them ranks.
struct GroupNorm {
  index_t groups   = 1;     ///< groups of channels
  index_t channels = 1;     ///< channels
  double eps       = 1e-5;  ///< added to the variance
  bool affine      = true;  ///< whether there are a weight and a bias per channel

  static constexpr LayerSharding sharding = LayerSharding::collective;  ///< moments of the world

  /// Weight and bias, one value per channel, as in PyTorch.
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = impl::WeightAndBias<T, 1, Memory>;

  /// Weight (1) and bias (0); none unless affine.
  std::vector<ParameterShape> parameter_shapes() const {
    if (!affine) return {};
    return {{"weight", {channels}, 0.0, 1.0}, {"bias", {channels}, 0.0, 0.0}};
  }

  /// What one use of the layer keeps from apply to pullback, and its scratch memory. Made once;
  /// nothing is allocated afterwards.
  template <class Memory>
  using State = impl::NormState<Memory>;

  /// Collective over the mesh: the state for fields with x's mesh and partitions.
  template <class X>
  auto state(const X& x) const {
    return impl::norm_state<State<typename X::memory_space>>(x, figures());
  }

  /// Computes y's owned cells. Collective over the ranks that share x's cells. y may be x.
  template <class Space, class S, class P, class Y, class X>
  void apply(const Space& space, S& state, const P& parameters, const Y& y, const X& x) const {
    impl::require_norm(figures(), y, x);
    impl::norm_statistics(space, state, figures(), x);
    impl::norm_apply(space, state, figures(), parameters, y, x);
  }

  /// The tangent of y for the tangents of x and of the parameters, either of them not_wanted where
  /// it is zero. x and the state are as `apply` left them. Collective as apply, unless tx is
  /// not_wanted. ty may be tx.
  template <class Space, class S, class P, class TP, class TY, class TX, class X>
  void pushforward(const Space& space, S& state, const P& parameters, const TP& parameter_tangents,
                   const TY& ty, const TX& tx, const X& x) const {
    impl::norm_pushforward(space, state, figures(), false, parameters, parameter_tangents, ty, tx,
                           x);
  }

  /// From dy = dJ/dy: adds this rank's part to the parameters' gradients and sets dx = dJ/dx,
  /// either of them not_wanted. x is what apply was given, the state as it left it. Collective as
  /// apply, unless dx is not_wanted. dx may be dy.
  template <class Space, class S, class P, class G, class DX, class DY, class X>
  void pullback(const Space& space, S& state, const P& parameters, const G& gradients, const DX& dx,
                const DY& dy, const X& x) const {
    impl::norm_pullback(space, state, figures(), false, parameters, gradients, dx, dy, x);
  }
  /// The parameters' part of it alone. Local.
  template <class Space, class S, class G, class DY, class X>
  void pullback_parameters(const Space& space, S& state, const G& gradients, const DY& dy,
                           const X& x) const {
    pullback(space, state, not_wanted, gradients, not_wanted, dy, x);
  }
  /// The input's part of it alone. Collective as apply.
  template <class Space, class S, class P, class DX, class DY, class X>
  void pullback_input(const Space& space, S& state, const P& parameters, const DX& dx, const DY& dy,
                      const X& x) const {
    pullback(space, state, parameters, not_wanted, dx, dy, x);
  }

 private:
  impl::NormFigures figures() const {
    return {"GroupNorm", {groups, channels, false}, eps, affine};
  }
};

}  // namespace shard

#endif
