// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/solve/impl/krylov.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "shard/base/error.hpp"

namespace shard::impl {

SolveProgress::SolveProgress(const SolveOptions& options) : options_(options) {
  if (!(options.relative >= 0.0) || !(options.absolute >= 0.0) || options.iterations < 0 ||
      options.restart < 1)
    throw_argument("SolveOptions", {"a tolerance or the limit of iterations is negative, or the "
                                    "restart length ",
                                    text(options.restart), " is less than 1"});
  history_.reserve(static_cast<std::size_t>(options.iterations) + 1);
}

bool SolveProgress::begin(double rhs) {
  result_     = {};
  result_.rhs = rhs;
  tolerance_  = std::max(options_.relative * rhs, options_.absolute);
  before_     = std::numeric_limits<double>::infinity();
  broken_     = nullptr;
  first_      = true;
  history_.clear();
  if (std::isfinite(rhs)) result_.status = SolveStatus::converged;
  return std::isfinite(rhs);
}

void SolveProgress::record(double norm) {
  result_.implicit = norm;
  history_.push_back(norm);
  if (options_.monitor) options_.monitor(result_.iterations, norm);
}

bool SolveProgress::step(double norm) {
  ++result_.iterations;
  record(norm);
  return !(norm > tolerance_) || !std::isfinite(norm) || result_.iterations >= options_.iterations;
}

bool SolveProgress::step() { return ++result_.iterations >= options_.iterations; }

bool SolveProgress::breakdown(const char* what) {
  broken_ = what;
  return true;
}

bool SolveProgress::check(double norm, double whole, bool retries) {
  if (first_) record(norm);
  first_           = false;
  result_.residual = whole;
  // less than a thousandth is no progress
  const bool stuck = !(norm < 0.999 * before_);
  before_          = norm;
  const auto ends  = [&](SolveStatus status) {
    result_.status = status;
    if (status == SolveStatus::breakdown) result_.broken = broken_;
    return true;
  };
  if (!std::isfinite(norm)) return ends(SolveStatus::not_finite);
  if (norm <= tolerance_)
    return ends(whole <= tolerance_ ? SolveStatus::converged : SolveStatus::inconsistent);
  if (broken_ != nullptr && (stuck || !retries)) return ends(SolveStatus::breakdown);
  if (result_.iterations >= options_.iterations) return ends(SolveStatus::iterations);
  if (stuck) return ends(SolveStatus::stagnated);
  broken_ = nullptr;
  return false;
}

}  // namespace shard::impl
