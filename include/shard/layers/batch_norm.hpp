// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_BATCH_NORM_HPP
#define SHARD_LAYERS_BATCH_NORM_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <vector>

#include "shard/layers/norm_layer.hpp"
#include "shard/layers/parameters.hpp"
#include "shard/layers/sharding_rule.hpp"

namespace shard {

/// Over what a BatchNorm's statistics are taken.
enum class BatchStatistics : std::uint8_t {
  world,  ///< batch and cells of all ranks: the answer of one rank (PyTorch's SyncBatchNorm)
  shard,  ///< this rank's own: no message, but another function for every mesh (BatchNorm under
          ///< data parallelism)
};

/// Batch normalisation (Ioffe and Szegedy 2015): y = (x - mean) / sqrt(var + eps) * weight + bias,
/// mean and (biased) variance of each channel over the batch and all cells. Fields are [batch,
/// channel, space...]; batch and space may be cut, shards uneven or empty.
///
/// In training one collective forward, one backward, as GroupNorm's. The running averages go on by
/// a = (1 - momentum) a + momentum (mean or variance), the variance unbiased, times D / (D - 1) for
/// D values per channel, as in PyTorch. In evaluation they take the statistics' place: no message.
struct BatchNorm {
  index_t channels = 1;     ///< channels
  double eps       = 1e-5;  ///< added to the variance
  double momentum  = 0.1;   ///< the newest values' part in the running averages
  bool affine      = true;  ///< whether there are a weight and a bias per channel
  bool training    = true;  ///< by the batch's own statistics; else by the running averages
  BatchStatistics statistics = BatchStatistics::world;  ///< over all ranks unless told

  static constexpr LayerSharding sharding = LayerSharding::collective;  ///< moments, in training

  /// Weight and bias, one value per channel, as in PyTorch.
  template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
  using Parameters = impl::WeightAndBias<T, 1, Memory>;

  /// Weight (1) and bias (0); none unless affine.
  std::vector<ParameterShape> parameter_shapes() const {
    if (!affine) return {};
    return {{"weight", {channels}, 0.0, 1.0}, {"bias", {channels}, 0.0, 0.0}};
  }

  /// What one use of the layer keeps from apply to pullback, its scratch memory, and the running
  /// averages, one value per channel: with BatchStatistics::world the same bits on every rank. Made
  /// once; nothing is allocated afterwards.
  template <class Memory>
  struct State : impl::NormState<Memory> {
    Kokkos::View<double*, Memory> running_mean;      ///< begins with 0
    Kokkos::View<double*, Memory> running_variance;  ///< begins with 1
  };

  /// Collective over the mesh: the state for fields with x's mesh and partitions.
  template <class X>
  auto state(const X& x) const {
    using View = Kokkos::View<double*, typename X::memory_space>;
    auto s     = impl::norm_state<State<typename X::memory_space>>(
        x, figures(), statistics == BatchStatistics::world);
    s.running_mean     = View("shard::running mean", static_cast<std::size_t>(channels));
    s.running_variance = View("shard::running variance", static_cast<std::size_t>(channels));
    Kokkos::deep_copy(s.running_variance, 1.0);
    s.correction = impl::unbiased(x.geometry(), statistics == BatchStatistics::world);
    return s;
  }

  /// Computes y's owned cells. In training collective over all ranks that share statistics, and
  /// the running averages go on; then throws ArgumentError on every rank if there is but one value
  /// per channel. y may be x.
  template <class Space, class S, class P, class Y, class X>
  void apply(const Space& space, S& state, const P& parameters, const Y& y, const X& x) const {
    using Kernels = impl::NormKernels<Space, typename Y::non_const_value_type>;
    impl::require_norm(figures(), y, x);
    if (training) {
      impl::require_several_values("BatchNorm", x.label(), x.geometry());
      impl::norm_statistics(space, state, figures(), x);
      if (state.total > 0.0)
        Kernels::update_running(space, state.running_mean.data(), state.running_variance.data(),
                                state.statistics.data(), momentum, channels);
    } else {
      Kernels::from_running(space, state.statistics.data(), state.running_mean.data(),
                            state.running_variance.data(), eps, channels);
    }
    impl::norm_apply(space, state, figures(), parameters, y, x);
  }

  /// The tangent of y for the tangents of x and of the parameters, either of them not_wanted where
  /// it is zero. x and the state are as `apply` left them. Collective as apply, unless tx is
  /// not_wanted. ty may be tx.
  template <class Space, class S, class P, class TP, class TY, class TX, class X>
  void pushforward(const Space& space, S& state, const P& parameters, const TP& parameter_tangents,
                   const TY& ty, const TX& tx, const X& x) const {
    impl::norm_pushforward(space, state, figures(), !training, parameters, parameter_tangents, ty,
                           tx, x);
  }

  /// From dy = dJ/dy: adds this rank's part to the parameters' gradients and sets dx = dJ/dx,
  /// either of them not_wanted. x is what apply was given, the state as it left it. Collective as
  /// apply, unless dx is not_wanted. dx may be dy.
  template <class Space, class S, class P, class G, class DX, class DY, class X>
  void pullback(const Space& space, S& state, const P& parameters, const G& gradients, const DX& dx,
                const DY& dy, const X& x) const {
    impl::norm_pullback(space, state, figures(), !training, parameters, gradients, dx, dy, x);
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
    return {"BatchNorm", {channels, channels, true}, eps, affine};
  }
};

}  // namespace shard

#endif
