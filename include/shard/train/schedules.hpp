// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TRAIN_SCHEDULES_HPP
#define SHARD_TRAIN_SCHEDULES_HPP

#include <cmath>

#include "shard/base/types.hpp"

/// \file
/// Learning rates as functions of the step, which counts from 0:
/// `adam.options.learning_rate = rate(step)`. They have no state, so a restart needs only the step.

namespace shard {

/// A constant rate.
struct ConstantRate {
  double rate = 1e-3;  ///< the rate
  /// The rate.
  double operator()(index_t) const { return rate; }
};

/// rate factor^floor(step / every) (PyTorch's StepLR).
struct StepRate {
  double rate   = 1e-3;  ///< at the beginning
  index_t every = 1;     ///< steps of one rate
  double factor = 0.1;   ///< from one to the next
  /// The rate at this step.
  double operator()(index_t step) const {
    return rate * std::pow(factor, static_cast<double>(step / every));
  }
};

/// rate factor^step (PyTorch's ExponentialLR).
struct ExponentialRate {
  double rate   = 1e-3;  ///< at the beginning
  double factor = 0.99;  ///< from step to step
  /// The rate at this step.
  double operator()(index_t step) const {
    return rate * std::pow(factor, static_cast<double>(step));
  }
};

/// lowest + (rate - lowest) (1 + cos(pi step / steps)) / 2, and lowest afterwards (Loshchilov,
/// Hutter 2017; PyTorch's CosineAnnealingLR up to `steps`).
struct CosineRate {
  double rate   = 1e-3;  ///< at the beginning
  index_t steps = 1;     ///< until the lowest is reached
  double lowest = 0.0;   ///< at the end
  /// The rate at this step.
  double operator()(index_t step) const {
    if (step >= steps) return lowest;
    constexpr double pi = 3.14159265358979323846;
    return lowest +
           (rate - lowest) *
               (1.0 + std::cos(pi * static_cast<double>(step) / static_cast<double>(steps))) / 2.0;
  }
};

/// A linear warm-up from `start` times the first rate of `after` to that rate in `steps` steps,
/// then `after`, whose steps count from there (PyTorch's LinearLR, followed by another).
template <class After>
struct Warmup {
  index_t steps = 0;    ///< of the line
  After after;          ///< the following schedule
  double start = 1e-3;  ///< share of the rate at step 0
  /// The rate at this step.
  double operator()(index_t step) const {
    if (step >= steps) return after(step - steps);
    return after(0) *
           (start + (1.0 - start) * static_cast<double>(step) / static_cast<double>(steps));
  }
};
/// Warmup{100, CosineRate{...}}
template <class After>
Warmup(index_t, After) -> Warmup<After>;
/// Warmup{100, CosineRate{...}, 0.1}
template <class After>
Warmup(index_t, After, double) -> Warmup<After>;

}  // namespace shard

#endif
