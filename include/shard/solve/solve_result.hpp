// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_SOLVE_RESULT_HPP
#define SHARD_SOLVE_SOLVE_RESULT_HPP

#include <cstdint>
#include <functional>
#include <string>

#include "shard/exchange/determinism.hpp"

namespace shard {

/// How a solve ended.
enum class SolveStatus : std::uint8_t {
  converged,     ///< the true residual b - A x is as small as asked for
  iterations,    ///< the limit of iterations was reached first
  stagnated,     ///< no progress: after a restart, or in 50 iterations near the end
  breakdown,     ///< the method can't continue: SolveResult::broken says which number vanished
  inconsistent,  ///< no x solves a singular system with this b; x is the best in the range
  not_finite     ///< an infinity or a NaN in b, x or the operator's result, or in a norm
};

/// The result of a solve, the same on every rank.
struct [[nodiscard]] SolveResult {
  SolveStatus status = SolveStatus::not_finite;  ///< how it ended
  int iterations     = 0;                        ///< iterations, of all restarts together
  double residual    = 0;   ///< 2-norm of the true residual b - A x, computed at the end
  double implicit    = 0;   ///< 2-norm of the residual that the recurrence of the method has
  double rhs         = 0;   ///< 2-norm of b
  const char* broken = "";  ///< after a breakdown: the number that vanished or had the wrong sign

  /// Whether it converged.
  explicit operator bool() const { return status == SolveStatus::converged; }
  /// "converged after 9 iterations: residual 3.1e-09 of 1.2e+02"
  std::string text() const;
};

/// The operator's null space, which solvers project out of residuals.
enum class Nullspace : std::uint8_t {
  trivial,  ///< the operator is regular
  constant  ///< constants, as of Neumann or periodic problems; the mean of x stays as it was.
            ///< LSQR takes none
};

/// When a solver stops, and how it sums. A solve has converged if the true residual's 2-norm is at
/// most max(relative |b|, absolute). All but the monitor must be the same on every rank: the first
/// solve compares them.
struct SolveOptions {
  double relative     = 1e-8;   ///< tolerance relative to the norm of b
  double absolute     = 0.0;    ///< absolute tolerance
  int iterations      = 1000;   ///< limit
  int restart         = 30;     ///< GMRES: vectors before a restart; others ignore it
  bool flexible       = false;  ///< CG, GMRES: the preconditioner may vary; others refuse it
  Nullspace nullspace = Nullspace::trivial;  ///< what the operator maps to 0
  /// The order of sums. With `ordered` the iterates have the same bits on any number of ranks.
  Determinism determinism = Determinism::on_one_mesh;
  /// Called on every rank with the iteration and the residual's norm. x is complete when the solve
  /// ends; before, it may lack the last step.
  std::function<void(int, double)> monitor{};
};

}  // namespace shard

#endif
