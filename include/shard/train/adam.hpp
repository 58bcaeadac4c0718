// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TRAIN_ADAM_HPP
#define SHARD_TRAIN_ADAM_HPP

#include <Kokkos_Core.hpp>

#include <cmath>
#include <cstddef>

#include "shard/model/optimiser_kernels.hpp"

namespace shard {

/// Adam's settings, with PyTorch's defaults.
struct AdamOptions {
  double learning_rate = 1e-3;   ///< size of a step
  double beta1         = 0.9;    ///< decay of the running mean of the gradient
  double beta2         = 0.999;  ///< decay of the running mean of its square
  double eps           = 1e-8;   ///< added to the root of the latter
  /// Adam adds weight_decay times the parameter to its gradient. AdamW subtracts learning_rate *
  /// weight_decay times the parameter in each step (PyTorch's default there is 0.01).
  double weight_decay = 0.0;
};

/// Adam (Kingma, Ba 2015) over all parameters of a model in one kernel:
/// g += weight_decay p, m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2,
/// p -= lr / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + eps).
/// Computes in the type of the parameters, with the operations in PyTorch's order.
/// Local: sum the gradients over the ranks first.
template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
class Adam {
 public:
  using View = Kokkos::View<T*, Kokkos::LayoutRight, Memory>;  ///< parameters or gradients

  /// For `count` parameters.
  explicit Adam(index_t count, const AdamOptions& with = {})
      : options(with),
        mean_("shard::Adam mean", static_cast<std::size_t>(count)),
        square_("shard::Adam square", static_cast<std::size_t>(count)) {}

  /// One step. Throws ArgumentError if the numbers of values differ.
  template <class Space>
  void operator()(const Space& space, const View& values, const View& gradients) {
    step(space, values, gradients, options.weight_decay, 1.0);
  }

  /// Calls visit(name, array) for the state, and visit("steps", number of steps), for a checkpoint.
  template <class Visit>
  void for_each_state(const Visit& visit) {
    visit("mean", mean_);
    visit("square", square_);
    visit("steps", steps_);
  }

  AdamOptions options;  ///< may be changed between steps

 protected:
  /// One step: adds l2 times the parameter to its gradient, and starts from `keep` times the
  /// parameter.
  template <class Space>
  void step(const Space& space, const View& values, const View& gradients, double l2, double keep) {
    impl::require_counts("Adam", mean_.extent(0), values, gradients);
    ++steps_;
    const auto t = static_cast<double>(steps_);
    impl::OptimiserKernels<Space, T>::adam(
        space, values.data(), gradients.data(), mean_.data(), square_.data(),
        static_cast<index_t>(mean_.extent(0)),
        {options.beta1, options.beta2, options.learning_rate / (1.0 - std::pow(options.beta1, t)),
         1.0 / (1.0 - std::pow(options.beta2, t)), options.eps, l2, keep});
  }

 private:
  View mean_, square_;
  index_t steps_ = 0;
};

}  // namespace shard

#endif
