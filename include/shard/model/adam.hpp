// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_MODEL_ADAM_HPP
#define SHARD_MODEL_ADAM_HPP

#include <Kokkos_Core.hpp>

#include "shard/base/error.hpp"
#include "shard/base/types.hpp"

namespace shard {

/// Adam's settings, with PyTorch's defaults.
struct AdamOptions {
  double learning_rate = 1e-3;   ///< size of a step
  double beta1         = 0.9;    ///< decay of the running mean of the gradient
  double beta2         = 0.999;  ///< decay of the running mean of its square
  double eps           = 1e-8;   ///< added to the root of the latter
};

namespace impl {

struct AdamStep {
  double beta1, beta2, rate, root_correction, eps;
};

/// Optimisers' kernels, compiled in src/model for float and double and Kokkos' default spaces.
template <class Space, class T>
struct OptimiserKernels {
  static void adam(const Space& space, T* values, const T* gradients, T* mean, T* square,
                   index_t count, const AdamStep& step);
};

}  // namespace impl

/// Adam (Kingma, Ba 2015) over all parameters of a model in one kernel:
/// m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, p -= lr / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) +
/// eps). Local: gradients are summed over the ranks before.
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
    if (values.extent(0) != mean_.extent(0) || gradients.extent(0) != mean_.extent(0))
      impl::throw_argument(
          "Adam", {"made for ", impl::text(static_cast<index_t>(mean_.extent(0))),
                   " parameters, given ", impl::text(static_cast<index_t>(values.extent(0))),
                   " and ", impl::text(static_cast<index_t>(gradients.extent(0))), " gradients"});
    power1_ *= options.beta1;
    power2_ *= options.beta2;
    const impl::AdamStep step{options.beta1, options.beta2, options.learning_rate / (1.0 - power1_),
                              1.0 / (1.0 - power2_), options.eps};
    impl::OptimiserKernels<Space, T>::adam(space, values.data(), gradients.data(), mean_.data(),
                                           square_.data(), static_cast<index_t>(mean_.extent(0)),
                                           step);
  }

  AdamOptions options;  ///< may be changed between steps

 private:
  View mean_, square_;
  double power1_ = 1.0, power2_ = 1.0;
};

}  // namespace shard

#endif
