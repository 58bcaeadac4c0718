// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "shard/base/error.hpp"
#include "shard/solve/preconditioners.hpp"

namespace shard::impl {

std::vector<double> chebyshev_steps(double low, double high, int steps) {
  if (steps < 1 || !(low > 0.0) || !(high > low))
    throw_argument("Chebyshev",
                   {"it needs at least 1 step and eigenvalues 0 < smallest < largest"});
  const double pi = std::acos(-1.0), centre = 0.5 * (high + low), half = 0.5 * (high - low);
  std::vector<double> roots;
  for (int k = 0; k < steps; ++k)
    roots.push_back(centre + half * std::cos(pi * (2 * k + 1) / (2.0 * steps)));
  const std::size_t n = roots.size();
  std::vector<double> far(n, 0.0);  // logarithm of the product of distances to those before
  for (std::size_t k = 1; k < n; ++k) {
    for (std::size_t j = k; j < n; ++j) far[j] += std::log(std::fabs(roots[j] - roots[k - 1]));
    const auto next = static_cast<std::size_t>(
        std::max_element(far.begin() + static_cast<std::ptrdiff_t>(k), far.end()) - far.begin());
    std::swap(roots[k], roots[next]);
    std::swap(far[k], far[next]);
  }
  for (double& r : roots) r = 1.0 / r;
  return roots;
}

}  // namespace shard::impl
