// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_NORM_BATCH_NORM_HPP
#define SHARD_LAYERS_NORM_BATCH_NORM_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "shard/layers/norm/norm_layer.hpp"

namespace shard {

/// The values of a BatchNorm's statistics.
enum class BatchStatistics : std::uint8_t {
  world,  ///< batch and points of all ranks: the answer of one rank (PyTorch's SyncBatchNorm)
  shard,  ///< this rank's own: no message, but the result depends on the mesh (BatchNorm under
          ///< data parallelism)
};

/// Batch normalisation (Ioffe and Szegedy 2015): y = (x - mean) / sqrt(var + eps) * weight + bias,
/// mean and (biased) variance of each channel over the batch and all points. Fields are [batch,
/// channel, space...], sharded in any way, shards uneven or empty.
///
/// Training needs one collective forward and one backward, as GroupNorm. It updates the running
/// averages as PyTorch: a = (1 - momentum) a + momentum (mean or unbiased variance). Evaluation
/// uses them in place of the statistics, without messages.
struct BatchNorm : NormLayer<BatchNorm> {
  index_t channels = 1;     ///< channels
  double eps       = 1e-5;  ///< added to the variance
  double momentum  = 0.1;   ///< weight of the new values in the running averages
  bool affine      = true;  ///< whether there are a weight and a bias per channel
  bool training    = true;  ///< whether to use the batch's statistics; else the running averages
  BatchStatistics statistics = BatchStatistics::world;  ///< over all ranks by default

  /// Defaults: training mode, statistics over all ranks, with a weight and a bias.
  constexpr BatchNorm(index_t channels_ = 1, double eps_ = 1e-5, double momentum_ = 0.1,
                      bool affine_ = true)
      : channels(channels_), eps(eps_), momentum(momentum_), affine(affine_) {}

  /// The state of one use of the layer: data of apply for pullback, scratch memory, and the running
  /// averages, one value per owned channel (with BatchStatistics::world bitwise the same on every
  /// rank). Allocates everything when it is made.
  template <class Memory>
  struct State : impl::NormState<Memory> {
    Kokkos::View<double*, Memory> running_mean;      ///< begins with 0
    Kokkos::View<double*, Memory> running_variance;  ///< begins with 1
    bool averages_stay = false;  ///< the next apply is a repetition: don't update the averages
  };

  /// The running averages under PyTorch's names, for models and files.
  std::vector<ParameterShape> buffer_shapes() const {
    return {{"running_mean", {channels}}, {"running_var", {channels}}};
  }
  /// Sets the means to 0 and the variances to 1.
  template <class Space, class Buffers>
  void initialise_buffers(const Space& space, const Buffers& buffers) const {
    Kokkos::deep_copy(space, buffers, 0.0);
    Kokkos::deep_copy(space, Kokkos::subview(buffers, std::pair(channels, 2 * channels)), 1.0);
  }
  /// Makes the state use these averages.
  template <class Memory, class Buffers>
  void use_buffers(State<Memory>& state, const Buffers& buffers) const {
    using View             = Kokkos::View<double*, Memory>;
    const auto n           = static_cast<std::size_t>(channels);
    state.running_mean     = View(buffers.data(), n);
    state.running_variance = View(buffers.data() + n, n);
  }
  /// Sets whether the next apply is a repetition, for models.
  template <class Memory>
  void take_up(State<Memory>& state, std::uint64_t, bool again) const {
    state.averages_stay = again;
  }

  /// Collective over the mesh: the state for fields with x's mesh and partitions.
  template <class X>
  auto state(const X& x) const {
    using View = Kokkos::View<double*, typename X::memory_space>;
    auto s     = impl::norm_state<State<typename X::memory_space>>(
        x, options(), statistics == BatchStatistics::world);
    const auto owned = static_cast<std::size_t>(x.extent(1));
    if (statistics == BatchStatistics::world)
      impl::require_same_options(x.communicator(), "BatchNorm", {{"momentum", momentum}});
    s.running_mean     = View("shard::running mean", owned);
    s.running_variance = View("shard::running variance", owned);
    Kokkos::deep_copy(s.running_variance, 1.0);
    s.correction = impl::unbiased(x.geometry(), statistics == BatchStatistics::world);
    return s;
  }

  /// Computes y's owned points. In training it is collective over the ranks that share statistics,
  /// updates the running averages, and throws ArgumentError on every rank if there is only one
  /// value per channel. y may be x.
  template <class Space, class S, class P, class Y, class X>
  void apply(const Space& space, S& state, const P& parameters, const Y& y, const X& x) const {
    using Kernels = impl::NormKernels<Space, typename Y::non_const_value_type>;
    impl::require_norm(options(), y, x);
    if (training) {
      impl::require_several_values("BatchNorm", x.label(), x.geometry());
      impl::norm_statistics(space, state, options(), x);
      if (state.total > 0.0 && !state.averages_stay)
        Kernels::update_running(space, state.running_mean.data(), state.running_variance.data(),
                                state.statistics.data(), momentum, x.extent(1));
    } else {
      Kernels::from_running(space, state.statistics.data(), state.running_mean.data(),
                            state.running_variance.data(), eps, x.extent(1));
    }
    impl::norm_apply(space, state, options(), parameters, y, x);
  }

 private:
  friend NormLayer<BatchNorm>;
  bool fixed() const { return !training; }
  impl::NormOptions options() const {
    return {"BatchNorm", {channels, channels, true}, eps, affine};
  }
};

}  // namespace shard

#endif
