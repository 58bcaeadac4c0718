// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/solve/impl/krylov.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "shard/base/error.hpp"
#include "shard/base/impl/same_options.hpp"

namespace shard::impl {

double scale_for(double largest) {
  if (!(largest > 0.0) || !std::isfinite(largest)) return 1.0;
  return std::ldexp(1.0, -std::clamp(std::ilogb(largest), -1000, 1000));
}

SolveProgress::SolveProgress(const SolveOptions& options, const char* method, bool may_be_flexible)
    : options_(options) {
  if (!(options.relative >= 0.0) || !(options.absolute >= 0.0) || options.iterations < 0 ||
      options.restart < 1)
    throw_argument("SolveOptions", {"a tolerance or the limit of iterations is negative, or the "
                                    "restart length ",
                                    text(options.restart), " is less than 1"});
  if (options.flexible && !may_be_flexible)
    throw_argument(method, {"it has no flexible form; use CG or GMRES, or a preconditioner that "
                            "doesn't vary"});
  constexpr int most_reserved = 1000;  // more iterations allocate
  history_.reserve(static_cast<std::size_t>(std::min(options.iterations, most_reserved)) + 1);
}

void SolveProgress::agree(MPI_Comm comm, const char* method, std::size_t null_vectors,
                          const std::string& more) {
  if (is_agreed_) return;
  require_agreement(comm, method,
                    text_of({{"relative", options_.relative},
                             {"absolute", options_.absolute},
                             {"iterations", options_.iterations},
                             {"restart", options_.restart},
                             {"flexible", options_.flexible},
                             {"ordered", options_.determinism == Determinism::ordered},
                             {"null vectors", null_vectors}}) +
                        more);
  is_agreed_ = true;
}

bool SolveProgress::begin(double rhs) {
  result_     = {};
  result_.rhs = rhs;
  tolerance_  = std::max(options_.relative * rhs, options_.absolute);
  before_     = std::numeric_limits<double>::infinity();
  broken_     = nullptr;
  first_      = true;
  was_idle_   = false;
  scale_      = 1.0;
  history_.clear();
  if (std::isfinite(rhs)) result_.status = SolveStatus::converged;
  return std::isfinite(rhs);
}

void SolveProgress::record(double norm) {
  result_.implicit = norm;
  history_.push_back(norm);
  if (options_.monitor) options_.monitor(result_.iterations, norm);
}

bool SolveProgress::is_idle(double norm) {
  // a cycle can't gain more digits than a double has: what is left of the residual is rounding
  constexpr double digits = 1e-17, many_digits = 1e-10;
  constexpr int patience = 50;
  if (norm < 0.999 * least_) {
    least_    = norm;
    least_at_ = result_.iterations;
  }
  if (norm <= digits * begun_) return true;
  // norms may rise for long before they fall, but not near the end
  if (result_.iterations - least_at_ < patience) return false;
  if (!was_idle_ && least_ > many_digits * begun_) return false;
  was_idle_ = true;
  return true;
}

bool SolveProgress::step(double scaled) {
  const double norm = scaled / scale_;
  ++result_.iterations;
  record(norm);
  return !(norm > tolerance_) || !std::isfinite(norm) ||
         result_.iterations >= options_.iterations || is_idle(norm);
}

bool SolveProgress::step() { return ++result_.iterations >= options_.iterations; }

bool SolveProgress::breakdown(const char* what) {
  broken_ = what;
  return true;
}

bool SolveProgress::check(double scaled, double scaled_whole, bool retries) {
  const double norm = scaled / scale_, whole = scaled_whole / scale_;
  if (first_) record(norm);
  first_           = false;
  result_.residual = whole;
  // less than a thousandth is no progress
  const bool stuck = !(norm < 0.999 * before_);
  before_ = begun_ = least_ = norm;
  least_at_                 = result_.iterations;
  const auto ends           = [&](SolveStatus status) {
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
