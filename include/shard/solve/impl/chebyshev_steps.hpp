// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_CHEBYSHEV_STEPS_HPP
#define SHARD_SOLVE_IMPL_CHEBYSHEV_STEPS_HPP

#include <utility>

namespace shard::impl {

/// The numbers of the Chebyshev iteration for eigenvalues in [low, high] (Saad, "Iterative Methods
/// for Sparse Linear Systems", 2nd ed. 2003, algorithm 12.1): d = c d + e D^-1 r.
class ChebyshevSteps {
 public:
  ChebyshevSteps(double low, double high)
      : centre_(0.5 * (high + low)), half_(0.5 * (high - low)), rho_(half_ / centre_) {}
  /// e of the first step, whose c is 0.
  double first() const { return 1.0 / centre_; }
  /// c and e of the next step.
  std::pair<double, double> next() {
    const double rho = 1.0 / (2.0 * centre_ / half_ - rho_);
    const std::pair<double, double> ce{rho * rho_, 2.0 * rho / half_};
    rho_ = rho;
    return ce;
  }

 private:
  double centre_, half_, rho_;
};

}  // namespace shard::impl

#endif
