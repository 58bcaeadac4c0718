// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/solve/impl/multigrid_levels.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace shard::impl {

index_t LevelGrid::cells() const {
  index_t n = 1;
  for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d) n *= extent[d];
  return n;
}

void LevelGrid::choose() {
  constexpr double strong = 0.3;  // of the strongest coupling
  double most             = 0.0;
  const auto weight       = [&](std::size_t d) { return 1.0 / (spacing[d] * spacing[d]); };
  for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d)
    if (extent[d] > 1) most = std::max(most, weight(d));
  for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d)
    coarsens[d] = extent[d] >= 4 && extent[d] % 2 == 0 && weight(d) >= strong * most;
}

LevelGrid LevelGrid::coarse() const {
  LevelGrid next = *this;
  for (std::size_t d = 0; d < 3; ++d)
    if (coarsens[d]) {
      next.extent[d] /= 2;
      next.spacing[d] *= 2.0;
    }
  next.choose();
  return next;
}

double LevelGrid::smallest_rough() const {
  double all = 0.0, least = 0.0;
  for (std::size_t d = 0; d < static_cast<std::size_t>(rank); ++d) {
    const double w = 1.0 / (spacing[d] * spacing[d]);
    all += w;
    if (coarsens[d]) least = least == 0.0 ? w : std::min(least, w);
  }
  return least / all;
}

bool begins_even(const Partition& p) {
  for (int r = 1; r < p.parts(); ++r)
    if (p.begin(r) % 2 != 0) return false;
  return true;
}

Partition aligned(const Partition& p) {
  index_t unit = 2;
  while (p.size() % (2 * unit) == 0 && 4 * unit * p.parts() <= p.size()) unit *= 2;
  std::vector<index_t> begins(static_cast<std::size_t>(p.parts()) + 1, 0);
  for (int r = 1; r < p.parts(); ++r)
    begins[static_cast<std::size_t>(r)] = std::min((p.begin(r) + unit / 2) / unit * unit, p.size());
  begins.back() = p.size();
  return Partition::explicit_begins(begins);
}

bool invert_symmetric(double* a, int n) {
  const auto size = static_cast<std::size_t>(n);
  const auto at   = [&](std::size_t i, std::size_t j) -> double& { return a[i * size + j]; };
  double trace = 0.0, sums = 0.0;
  for (std::size_t i = 0; i < size; ++i) {
    double sum = 0.0;
    for (std::size_t j = 0; j < size; ++j) sum += at(i, j);
    sums = std::max(sums, std::fabs(sum));
    trace += at(i, i);
  }
  const bool singular = sums <= 1e-12 * trace;
  if (singular) {
    const double c = trace / (static_cast<double>(n) * n);
    for (std::size_t i = 0; i < size * size; ++i) a[i] += c;
  }
  // A = L L'
  for (std::size_t j = 0; j < size; ++j) {
    for (std::size_t k = 0; k < j; ++k) at(j, j) -= at(j, k) * at(j, k);
    if (!(at(j, j) > 0.0)) return false;
    at(j, j) = std::sqrt(at(j, j));
    for (std::size_t i = j + 1; i < size; ++i) {
      for (std::size_t k = 0; k < j; ++k) at(i, j) -= at(i, k) * at(j, k);
      at(i, j) /= at(j, j);
    }
  }
  // L^-1, then its transpose by it
  for (std::size_t j = 0; j < size; ++j) {
    at(j, j) = 1.0 / at(j, j);
    for (std::size_t i = j + 1; i < size; ++i) {
      double sum = 0.0;
      for (std::size_t k = j; k < i; ++k) sum -= at(i, k) * at(k, j);
      at(i, j) = sum / at(i, i);
    }
  }
  for (std::size_t i = 0; i < size; ++i)
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = 0.0;
      for (std::size_t k = i; k < size; ++k) sum += at(k, i) * at(k, j);
      at(i, j) = sum;
    }
  for (std::size_t i = 0; i < size; ++i)
    for (std::size_t j = i + 1; j < size; ++j) at(i, j) = at(j, i);
  return true;
}

}  // namespace shard::impl
