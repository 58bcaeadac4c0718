// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TESTS_SOLVE_KRYLOV_SUPPORT_HPP
#define SHARD_TESTS_SOLVE_KRYLOV_SUPPORT_HPP

#include <cmath>
#include <tuple>

#include "solve/solve_support.hpp"

namespace shard::testing {

inline constexpr auto ordered = Determinism::ordered;

/// The five-point Laplacian of points inside a frame of zeros.
struct FivePoint {
  static constexpr bool is_star = true, is_symmetric = true;
  template <class X>
  KOKKOS_FUNCTION double operator()(const X& x, int i, int j) const {
    return 4.0 * x(i, j) - x(i - 1, j) - x(i + 1, j) - x(i, j - 1) - x(i, j + 1);
  }
  template <class X>
  KOKKOS_FUNCTION double diagonal(const X&, int, int) const {
    return 4.0;
  }
};
/// Two operators of one kind, for a pair of fields.
template <class A>
struct Both {
  static constexpr bool is_symmetric = true;
  using V                            = std::tuple<typename A::field_type, typename A::field_type>;
  A first, second;
  void apply(const Space& space, const V& y, const V& x) const {
    first.apply(space, std::get<0>(y), std::get<0>(x));
    second.apply(space, std::get<1>(y), std::get<1>(x));
  }
};

inline constexpr index_t rows = 13, columns = 18;

/// The eigenvector (p, q) of FivePoint.
template <class Index>
double mode(const Index& i, int p, int q) {
  return std::sin(pi * p * static_cast<double>(i[0] + 1) / (rows + 1.0)) *
         std::sin(pi * q * static_cast<double>(i[1] + 1) / (columns + 1.0));
}
inline double eigenvalue(int p, int q) {
  return 4.0 - 2.0 * std::cos(pi * p / (rows + 1.0)) - 2.0 * std::cos(pi * q / (columns + 1.0));
}

}  // namespace shard::testing

#endif
