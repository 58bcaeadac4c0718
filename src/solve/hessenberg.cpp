// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <cmath>
#include <limits>

#include "shard/base/error.hpp"
#include "shard/solve/gmres.hpp"
#include "shard/solve/impl/sparse_kernels.hpp"

namespace shard::impl {

template <class S>
HessenbergSystem<S>::HessenbergSystem(int columns)
    : most_(columns + 1),
      h_(static_cast<std::size_t>(most_) * static_cast<std::size_t>(most_)),
      c_(static_cast<std::size_t>(most_)),
      g_(c_.size()),
      s_(c_.size()) {}

template <class S>
void HessenbergSystem<S>::begin(double norm) {
  columns_ = 0;
  norm_    = norm;
  g_[0]    = norm;
}

template <class S>
double HessenbergSystem<S>::add(const S* column, double below) {
  const int j = columns_++;
  for (int i = 0; i <= j; ++i) at(i, j) = column[i];
  for (int i = 0; i < j; ++i) {
    const auto k = static_cast<std::size_t>(i);
    const S h    = at(i, j);
    at(i, j)     = conjugate(c_[k]) * h + s_[k] * at(i + 1, j);
    at(i + 1, j) = c_[k] * at(i + 1, j) - s_[k] * h;
  }
  const auto k      = static_cast<std::size_t>(j);
  const double size = std::hypot(Kokkos::abs(at(j, j)), below);
  c_[k]             = size == 0.0 ? S(1.0) : at(j, j) / size;
  s_[k]             = size == 0.0 ? 0.0 : below / size;
  at(j, j)          = size;
  g_[k + 1]         = -s_[k] * g_[k];
  g_[k] *= conjugate(c_[k]);
  return Kokkos::abs(g_[k + 1]);
}

template <class S>
void HessenbergSystem<S>::solve(S* y) const {
  // the diagonal is real and not negative
  const auto diagonal   = [&](int i) { return Kokkos::real(at(i, i)); };
  const double rounding = columns_ * std::numeric_limits<double>::epsilon();
  double most           = 0.0;
  for (int i = 0; i < columns_; ++i) most = std::fmax(most, diagonal(i));
  double cut = rounding * most;
  while (true) {
    double largest = 0.0, least = most;  // coefficient, and diagonal element of its column
    for (int i = columns_ - 1; i >= 0; --i) {
      y[i] = 0.0;
      if (!(diagonal(i) > cut)) continue;
      S rest = g_[static_cast<std::size_t>(i)];
      for (int j = i + 1; j < columns_; ++j) rest -= at(i, j) * y[j];
      y[i]    = rest / diagonal(i);
      largest = std::fmax(largest, Kokkos::abs(y[i]));
      least   = std::fmin(least, diagonal(i));
    }
    if (!(rounding * most * largest > norm_) || least <= cut) return;
    cut = least;
  }
}

template class HessenbergSystem<double>;
template class HessenbergSystem<Kokkos::complex<double>>;

int gmres_vectors(const SolveOptions& options) {
  const int count    = std::max(std::min(options.restart, options.iterations), 1);
  constexpr int most = 32767;
  if (count > most)
    throw_argument("GMRES", {"a restart after ", text(index_t{count}), " vectors; at most ",
                             text(index_t{most}), " are possible"});
  return count;
}

}  // namespace shard::impl
