// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TRAIN_LOSS_SCALE_HPP
#define SHARD_TRAIN_LOSS_SCALE_HPP

#include <mpi.h>

#include <Kokkos_Core.hpp>

#include <cmath>

#include "shard/train/gradient_norm.hpp"

/// \file
/// Mixed precision: the optimiser updates float parameters (the master copy), and a model computes
/// with copies and activations that are rounded to half precision or bfloat16. Rounded values are
/// stored in arrays of floats on every backend, and layers compute in float or double.
/// `Kokkos::deep_copy` converts such an array exactly to Kokkos::Experimental::half_t or bhalf_t,
/// for your own kernels (on a host these may be float).

namespace shard {

/// to = from, rounded to nearest, ties to even; overflow gives infinity. Doubles are first rounded
/// to float. `to` may be `from`. Views are contiguous (a parameter arena's values, a ShardedView's
/// view()). Throws ArgumentError if the numbers of values differ.
template <class Space, class To, class From>
void round_values(const Space& space, const To& to, const From& from, LowPrecision format) {
  if (to.span() != from.span() || !to.span_is_contiguous() || !from.span_is_contiguous())
    impl::throw_argument(
        "round_values",
        {"\"", to.label(), "\" has ", impl::text(static_cast<index_t>(to.span())), " values, \"",
         from.label(), "\" ", impl::text(static_cast<index_t>(from.span())),
         ", each must be contiguous"});
  impl::OptimiserKernels<Space, typename To::non_const_value_type>::round(
      space, to.data(), from.data(), static_cast<index_t>(to.span()), format);
}

/// Options of a LossScale; defaults as PyTorch's GradScaler.
struct LossScaleOptions {
  double initial   = 65536.0;  ///< the first scale; powers of two cause no rounding
  double growth    = 2.0;      ///< after `interval` steps without overflow; 1 for a static scale
  double backoff   = 0.5;      ///< after an overflow; 1 for a static scale
  index_t interval = 2000;     ///< steps
};

/// A factor on the loss that keeps small gradients in the range of a 16-bit format. All ranks
/// together skip a step whose gradients overflowed. Multiply dJ/dy by value() before a model's
/// pullback.
template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
class LossScale {
 public:
  using View = Kokkos::View<T*, Kokkos::LayoutRight, Memory>;  ///< gradients

  /// For `count` gradients of this rank's, on the ranks of `comm`. Collective. Throws ArgumentError
  /// for MPI_COMM_NULL and intercommunicators, AgreementError if the ranks' options differ.
  LossScale(index_t count, MPI_Comm comm, const LossScaleOptions& with = {})
      : options(with),
        norm_(count),
        comm_(impl::require_communicator(comm, "LossScale")),
        scale_(with.initial) {
    impl::require_same_options(comm_, "LossScale",
                               {{"initial", with.initial},
                                {"growth", with.growth},
                                {"backoff", with.backoff},
                                {"interval", with.interval}});
  }

  /// The factor.
  double value() const { return scale_; }

  /// Divides the gradients by value() and returns true if all of them, on every rank, are finite;
  /// else returns false: skip the step. Then updates the scale. (A sum of squares beyond double's
  /// range counts as an overflow.) Collective over the communicator; fences `space`.
  template <class Space>
  bool unscale(const Space& space, const View& gradients) {
    const bool finite = impl::holds_everywhere(comm_, std::isfinite(norm_(space, gradients)));
    if (finite) {
      impl::OptimiserKernels<Space, T>::scale(
          space, gradients.data(), static_cast<index_t>(gradients.extent(0)), 1.0 / scale_);
      if (++good_steps_ >= options.interval) {
        scale_ *= options.growth;
        good_steps_ = 0;
      }
    } else {
      scale_ *= options.backoff;
      good_steps_ = 0;
    }
    return finite;
  }

  /// Calls visit(name, number) for the state, for a checkpoint.
  template <class Visit>
  void for_each_state(const Visit& visit) {
    visit("scale", scale_);
    visit("good steps", good_steps_);
  }

  LossScaleOptions options;  ///< may be changed between steps

 private:
  GradientNorm<T, Memory> norm_;
  MPI_Comm comm_;
  double scale_;
  index_t good_steps_ = 0;
};

}  // namespace shard

#endif
