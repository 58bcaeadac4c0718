// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TRAIN_OPTIMISERS_HPP
#define SHARD_TRAIN_OPTIMISERS_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>

#include "shard/train/adam.hpp"

/// \file
/// Optimisers: each updates all parameters of a model in one kernel, by PyTorch's formulas, with
/// one array for each moment. Local: gradients, and so parameters, are the same on every rank (see
/// GradientSum).

namespace shard {

/// AdamW (Loshchilov, Hutter 2019): p -= learning_rate weight_decay p, then Adam's step without
/// decay in the gradient.
template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
class AdamW : public Adam<T, Memory> {
 public:
  using typename Adam<T, Memory>::View;

  /// For `count` parameters; weight_decay is 0.01.
  explicit AdamW(index_t count) : AdamW(count, {1e-3, 0.9, 0.999, 1e-8, 0.01}) {}
  /// The same with other settings.
  AdamW(index_t count, const AdamOptions& with) : Adam<T, Memory>(count, with) {}

  /// One step. Throws ArgumentError if the numbers of values differ.
  template <class Space>
  void operator()(const Space& space, const View& values, const View& gradients) {
    this->step(space, values, gradients, 0.0,
               1.0 - this->options.learning_rate * this->options.weight_decay);
  }
};

/// SGD's settings, with PyTorch's defaults.
struct SGDOptions {
  double learning_rate = 1e-3;   ///< size of a step
  double momentum      = 0.0;    ///< factor of the old velocity
  double dampening     = 0.0;    ///< 1 - dampening is the factor of the gradient
  double weight_decay  = 0.0;    ///< weight_decay times the parameter is added to its gradient
  bool nesterov        = false;  ///< Nesterov momentum; needs momentum, no dampening
};

/// Stochastic gradient descent (Sutskever, Martens, Dahl, Hinton 2013, as PyTorch has it):
/// g += weight_decay p, v = momentum v + (1 - dampening) g (the first time v = g),
/// p -= lr (nesterov ? g + momentum v : v); without momentum p -= lr g.
template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
class SGD {
 public:
  using View = Kokkos::View<T*, Kokkos::LayoutRight, Memory>;  ///< parameters or gradients

  /// For `count` parameters. Throws ArgumentError for nesterov without momentum or with dampening.
  explicit SGD(index_t count, const SGDOptions& with = {}) : options(with), count_(count) {
    if (with.nesterov && (with.momentum <= 0.0 || with.dampening != 0.0))
      impl::throw_argument("SGD", {"nesterov needs momentum and no dampening"});
    if (with.momentum != 0.0)
      velocity_ = View("shard::SGD velocity", static_cast<std::size_t>(count));
  }

  /// One step. Throws ArgumentError if the numbers of values differ, or if momentum was set after
  /// the construction.
  template <class Space>
  void operator()(const Space& space, const View& values, const View& gradients) {
    impl::require_counts("SGD", static_cast<std::size_t>(count_), values, gradients);
    if (options.momentum != 0.0 && velocity_.extent(0) != values.extent(0))
      impl::throw_argument("SGD", {"made without momentum"});
    impl::OptimiserKernels<Space, T>::sgd(
        space, values.data(), gradients.data(),
        options.momentum != 0.0 ? velocity_.data() : nullptr, count_,
        {options.learning_rate, options.momentum, 1.0 - options.dampening, options.weight_decay,
         options.nesterov, steps_ == 0});
    ++steps_;
  }

  /// Calls visit(name, array) for the state, and visit("steps", number of steps), for a checkpoint.
  template <class Visit>
  void for_each_state(const Visit& visit) {
    if (velocity_.extent(0) > 0) visit("velocity", velocity_);
    visit("steps", steps_);
  }

  SGDOptions options;  ///< may be changed between steps

 private:
  View velocity_;
  index_t count_, steps_ = 0;
};

}  // namespace shard

#endif
