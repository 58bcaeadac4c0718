// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <cmath>
#include <limits>

#include "shard/base/error.hpp"
#include "shard/solve/gmres.hpp"

namespace shard::impl {

HessenbergSystem::HessenbergSystem(int columns)
    : most_(columns + 1),
      h_(static_cast<std::size_t>(most_) * static_cast<std::size_t>(most_)),
      c_(static_cast<std::size_t>(most_)),
      s_(c_.size()),
      g_(c_.size()) {}

void HessenbergSystem::begin(double norm) {
  columns_ = 0;
  norm_    = norm;
  g_[0]    = norm;
}

double HessenbergSystem::add(const double* column, double below) {
  const int j = columns_++;
  for (int i = 0; i <= j; ++i) at(i, j) = column[i];
  for (int i = 0; i < j; ++i) {
    const auto k   = static_cast<std::size_t>(i);
    const double h = at(i, j);
    at(i, j)       = c_[k] * h + s_[k] * at(i + 1, j);
    at(i + 1, j)   = c_[k] * at(i + 1, j) - s_[k] * h;
  }
  const auto k      = static_cast<std::size_t>(j);
  const double size = std::hypot(at(j, j), below);
  c_[k]             = size == 0.0 ? 1.0 : at(j, j) / size;
  s_[k]             = size == 0.0 ? 0.0 : below / size;
  at(j, j)          = size;
  g_[k + 1]         = -s_[k] * g_[k];
  g_[k] *= c_[k];
  return std::fabs(g_[k + 1]);
}

void HessenbergSystem::solve(double* y) const {
  const double rounding = columns_ * std::numeric_limits<double>::epsilon();
  double most           = 0.0;
  for (int i = 0; i < columns_; ++i) most = std::fmax(most, std::fabs(at(i, i)));
  double cut = rounding * most;
  while (true) {
    double largest = 0.0, least = most;  // coefficient, and diagonal element of its column
    for (int i = columns_ - 1; i >= 0; --i) {
      y[i] = 0.0;
      if (!(std::fabs(at(i, i)) > cut)) continue;
      double rest = g_[static_cast<std::size_t>(i)];
      for (int j = i + 1; j < columns_; ++j) rest -= at(i, j) * y[j];
      y[i]    = rest / at(i, i);
      largest = std::fmax(largest, std::fabs(y[i]));
      least   = std::fmin(least, std::fabs(at(i, i)));
    }
    if (!(rounding * most * largest > norm_) || least <= cut) return;
    cut = least;
  }
}

int gmres_vectors(const SolveOptions& options) {
  const int count    = std::max(std::min(options.restart, options.iterations), 1);
  constexpr int most = 32767;
  if (count > most)
    throw_argument("GMRES", {"a restart after ", text(index_t{count}), " vectors; at most ",
                             text(index_t{most}), " are possible"});
  return count;
}

}  // namespace shard::impl
