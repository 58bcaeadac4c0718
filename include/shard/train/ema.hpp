// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TRAIN_EMA_HPP
#define SHARD_TRAIN_EMA_HPP

#include <Kokkos_Core.hpp>

#include <algorithm>

#include "shard/model/optimiser_kernels.hpp"
#include "shard/model/parameter_arena.hpp"

namespace shard {

/// Settings of an EMA.
struct EMAOptions {
  double decay = 0.999;  ///< factor of the old average
  /// Update t (from 0) decays by at most (1 + t) / (10 + t), so that the average
  /// depends less on the first parameters.
  bool warmup = false;
};

/// Exponential moving average of a model's parameters, in an arena with the same names:
/// average = decay average + (1 - decay) parameters. The first update copies the parameters, and
/// later ones compute as torch.optim.swa_utils' get_ema_multi_avg_fn. Local: parameters are the
/// same on every rank, and so is the average.
template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
class EMA {
 public:
  using View = Kokkos::View<T*, Kokkos::LayoutRight, Memory>;  ///< parameters

  /// For the parameters of this arena. Throws ArgumentError unless 0 <= decay <= 1.
  explicit EMA(const ParameterArena<T, Memory>& parameters, const EMAOptions& with = {})
      : options(with), average_(parameters.like("shard::EMA")) {
    if (!(with.decay >= 0.0 && with.decay <= 1.0))
      impl::throw_argument(
          "EMA", {"the decay is ", impl::text_of(with.decay), "; give one between 0 and 1"});
  }

  /// Adds the parameters to the average, once after each step of the optimiser. Throws
  /// ArgumentError for another number of values.
  template <class Space>
  void operator()(const Space& space, const View& parameters) {
    require_count(parameters);
    const auto t    = static_cast<double>(steps_);
    const double d  = options.warmup ? std::min(options.decay, (1.0 + t) / (10.0 + t))
                                     : options.decay,
                 of = steps_ == 0 ? 1.0 : 1.0 - d;
    impl::OptimiserKernels<Space, T>::average(space, average_.values().data(), parameters.data(),
                                              static_cast<index_t>(parameters.extent(0)), of);
    ++steps_;
  }

  /// Exchanges the values of the parameters and of the average: before an evaluation, and again
  /// after it. Throws ArgumentError for another number of values.
  template <class Space>
  void swap(const Space& space, const View& parameters) const {
    require_count(parameters);
    impl::OptimiserKernels<Space, T>::swap(space, average_.values().data(), parameters.data(),
                                           static_cast<index_t>(parameters.extent(0)));
  }

  /// The average, for files.
  const ParameterArena<T, Memory>& average() const { return average_; }

  /// Calls visit("average", arena) and visit("steps", number of updates), for a checkpoint.
  template <class Visit>
  void for_each_state(const Visit& visit) {
    visit("average", average_);
    visit("steps", steps_);
  }

  EMAOptions options;  ///< may be changed between updates

 private:
  void require_count(const View& parameters) const {
    impl::require_counts("EMA", average_.values().extent(0), parameters, average_.values());
  }

  ParameterArena<T, Memory> average_;
  index_t steps_ = 0;
};

}  // namespace shard

#endif
