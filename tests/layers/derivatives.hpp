// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_LAYERS_DERIVATIVES_HPP
#define SHARD_TESTS_LAYERS_DERIVATIVES_HPP

#include <cmath>
#include <vector>

/// \file
/// Derivatives of plain loops by central differences.

namespace shard::testing {

/// The gradient of J(v), a number.
template <class J>
std::vector<double> gradient_by_differences(const J& j, std::vector<double> v) {
  constexpr double step = 1e-5;
  std::vector<double> gradient(v.size());
  for (std::size_t i = 0; i < v.size(); ++i) {
    const double at = v[i];
    v[i]            = at + step;
    const double up = j(v);
    v[i]            = at - step;
    gradient[i]     = (up - j(v)) / (2.0 * step);
    v[i]            = at;
  }
  return gradient;
}

/// The tangent of f(v), a vector, for the tangent t of v.
template <class F>
std::vector<double> tangent_by_differences(const F& f, const std::vector<double>& v,
                                           const std::vector<double>& t) {
  constexpr double step  = 1e-5;
  std::vector<double> up = v, down = v;
  for (std::size_t i = 0; i < v.size(); ++i) {
    up[i] += step * t[i];
    down[i] -= step * t[i];
  }
  std::vector<double> tangent = f(up);
  const auto low              = f(down);
  for (std::size_t i = 0; i < tangent.size(); ++i)
    tangent[i] = (tangent[i] - low[i]) / (2.0 * step);
  return tangent;
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace shard::testing

#endif
