// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <Kokkos_Core.hpp>

#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "shard/solve/block_jacobi.hpp"

namespace shard::impl {

template <class T>
bool invert_dense(T* a, int count) {
  using Kokkos::abs;
  const auto n = static_cast<std::size_t>(count);
  std::vector<std::size_t> pivots(n);
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t p = k;
    for (std::size_t i = k + 1; i < n; ++i)
      if (abs(a[i * n + k]) > abs(a[p * n + k])) p = i;
    pivots[k]       = p;
    const auto size = abs(a[p * n + k]);
    if (!(size > 0) || !std::isfinite(size)) return false;
    for (std::size_t j = 0; j < n; ++j) std::swap(a[k * n + j], a[p * n + j]);
    const T scale = T(1) / a[k * n + k];
    a[k * n + k]  = T(1);
    for (std::size_t j = 0; j < n; ++j) a[k * n + j] *= scale;
    for (std::size_t i = 0; i < n; ++i) {
      if (i == k) continue;
      const T factor = a[i * n + k];
      a[i * n + k]   = T(0);
      for (std::size_t j = 0; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
    }
  }
  for (std::size_t k = n; k-- > 0;)
    for (std::size_t i = 0; i < n; ++i) std::swap(a[i * n + k], a[i * n + pivots[k]]);
  return true;
}

template bool invert_dense(float*, int);
template bool invert_dense(double*, int);
template bool invert_dense(Kokkos::complex<float>*, int);
template bool invert_dense(Kokkos::complex<double>*, int);

}  // namespace shard::impl
