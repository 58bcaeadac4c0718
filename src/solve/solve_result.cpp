// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/solve/solve_result.hpp"

#include <array>
#include <cstddef>
#include <cstdio>

#include "shard/base/error.hpp"
#include "shard/solve/linear_solve.hpp"

namespace shard {

std::string SolveResult::text() const {
  static constexpr std::array<const char*, 6> words = {
      "converged", "reached the limit", "stagnated", "broke down", "inconsistent", "not finite"};
  std::array<char, 160> line{};
  std::snprintf(line.data(), line.size(), "%s%s%s after %d iterations: residual %.3g of %.3g",
                words[static_cast<std::size_t>(status)], *broken != 0 ? " at " : "", broken,
                iterations, residual, rhs);
  return line.data();
}

namespace impl {

void require_self_adjoint(bool symmetric, bool has_weights) {
  if (!symmetric || has_weights)
    throw_argument("LinearSolve",
                   {has_weights ? "the solver has weights, so A isn't its own adjoint"
                                : "the operator isn't known to be symmetric",
                    "; give a second solver, for A': LinearSolve(gmres, GMRES(x, adjoint_of(a)))"});
}

void require_converged(const SolveResult& result) {
  if (!result) throw Error("shard::LinearSolve: the solve didn't converge: " + result.text());
}

}  // namespace impl
}  // namespace shard
