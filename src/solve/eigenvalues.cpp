// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/solve/eigenvalues.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace shard::impl {

std::pair<double, double> tridiagonal_extremes(const std::vector<double>& diagonal,
                                               const std::vector<double>& beside) {
  const std::size_t n = diagonal.size();
  if (n == 0) return {0.0, 0.0};
  double low = diagonal[0], high = diagonal[0];  // Gershgorin's bounds
  for (std::size_t i = 0; i < n; ++i) {
    const double reach =
        (i > 0 ? std::fabs(beside[i - 1]) : 0.0) + (i + 1 < n ? std::fabs(beside[i]) : 0.0);
    low  = std::min(low, diagonal[i] - reach);
    high = std::max(high, diagonal[i] + reach);
  }
  // the number of eigenvalues below x, from the signs of a Sturm sequence
  const auto below = [&](double x) {
    std::size_t count = 0;
    double d          = 1.0;
    for (std::size_t i = 0; i < n; ++i) {
      d = diagonal[i] - x - (i > 0 ? beside[i - 1] * beside[i - 1] / d : 0.0);
      if (d == 0.0) d = -1e-300;
      if (d < 0.0) ++count;
    }
    return count;
  };
  const auto bisect = [&](std::size_t number) {
    double a = low, b = high;
    for (int k = 0; k < 100; ++k) {
      const double middle              = 0.5 * (a + b);
      (below(middle) > number ? b : a) = middle;
    }
    return 0.5 * (a + b);
  };
  return {bisect(0), bisect(n - 1)};
}

}  // namespace shard::impl
