// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_TRIDIAGONAL_HPP
#define SHARD_SOLVE_TRIDIAGONAL_HPP

#include <Kokkos_Core.hpp>

#include <type_traits>

/// \file
/// Tridiagonal systems of one line, for kernels: a thread solves a column. Arguments are anything
/// that is indexed by parentheses from 0: a View of rank 1, a subview, a functor.

namespace shard {

/// Solves lower(i) x(i-1) + diagonal(i) x(i) + upper(i) x(i+1) = y(i) for i in [0, n) by Thomas'
/// algorithm, without pivoting: the matrix is diagonally dominant or positive definite. x may be y.
/// `work` has n elements and is overwritten. lower(0) and upper(n-1) aren't read.
template <class Lower, class Diagonal, class Upper, class X, class Y, class Work>
KOKKOS_FUNCTION void solve_tridiagonal(int n, const Lower& lower, const Diagonal& diagonal,
                                       const Upper& upper, const X& x, const Y& y,
                                       const Work& work) {
  if (n < 1) return;
  auto d = diagonal(0);
  x(0)   = y(0) / d;
  for (int i = 1; i < n; ++i) {
    work(i) = upper(i - 1) / d;
    d       = diagonal(i) - lower(i) * work(i);
    x(i)    = (y(i) - lower(i) * x(i - 1)) / d;
  }
  for (int i = n - 2; i >= 0; --i) x(i) = x(i) - work(i + 1) * x(i + 1);
}

namespace impl {

/// The diagonal of a ring that is opened between its last and first point.
template <class Diagonal, class T>
struct OpenedDiagonal {
  const Diagonal& diagonal;
  int last;
  T at_last;  ///< added there; the first is doubled
  KOKKOS_FORCEINLINE_FUNCTION T operator()(int i) const {
    return i == 0 ? T(2) * diagonal(0) : i == last ? diagonal(i) + at_last : diagonal(i);
  }
};

}  // namespace impl

/// The same of a ring of n >= 1 points: the first has the lower neighbour n - 1, and the last the
/// upper neighbour 0. By the formula of Sherman and Morrison (1950). `work` and `second` have n
/// elements each and are overwritten.
template <class Lower, class Diagonal, class Upper, class X, class Y, class Work>
KOKKOS_FUNCTION void solve_cyclic_tridiagonal(int n, const Lower& lower, const Diagonal& diagonal,
                                              const Upper& upper, const X& x, const Y& y,
                                              const Work& work, const Work& second) {
  if (n < 1) return;
  using T     = std::remove_cvref_t<decltype(x(0))>;
  const T low = lower(0), high = upper(n - 1), first = diagonal(0);
  if (n == 1) {
    x(0) = y(0) / (first + low + high);
  } else if (n == 2) {
    const T above = low + upper(0), below = high + lower(1), last = diagonal(1);
    const T whole = first * last - above * below, y0 = y(0), y1 = y(1);
    x(0) = (last * y0 - above * y1) / whole;
    x(1) = (first * y1 - below * y0) / whole;
  } else {
    const impl::OpenedDiagonal<Diagonal, T> opened{diagonal, n - 1, high * low / first};
    solve_tridiagonal(n, lower, opened, upper, x, y, work);
    for (int i = 0; i < n; ++i) second(i) = i == 0 ? -first : i == n - 1 ? high : T(0);
    solve_tridiagonal(n, lower, opened, upper, second, second, work);
    const T ratio = low / first;
    const T part  = (x(0) - ratio * x(n - 1)) / (T(1) + second(0) - ratio * second(n - 1));
    for (int i = 0; i < n; ++i) x(i) = x(i) - part * second(i);
  }
}

/// Solves the diffusion of a column, h(i) x(i) + g(i-1) (x(i) - x(i-1)) + g(i) (x(i) - x(i+1)) =
/// y(i) for i in [0, n), with thicknesses h > 0 and mixing g >= 0 between i and i+1 (g(n-1) isn't
/// read): an implicit step of vertical mixing has y = h x_old and g = dt kappa / distance.
///
/// The elimination adds positive numbers only (Schopf and Loughe 1995), so that it is stable for
/// any g: sum of h x = sum of y to rounding, and x stays within the range of y / h. x may be y.
/// `work` has n elements and is overwritten.
template <class H, class G, class X, class Y, class Work>
KOKKOS_FUNCTION void solve_diffusion_column(int n, const H& h, const G& g, const X& x, const Y& y,
                                            const Work& work) {
  if (n < 1) return;
  // the layers above act on layer i like an additional thickness a, with the content x(i)
  auto a = h(0);
  x(0)   = y(0);
  for (int i = 1; i < n; ++i) {
    const auto mixing = g(i - 1);
    const auto part   = mixing / (a + mixing);
    work(i - 1)       = a + mixing;
    x(i)              = y(i) + part * x(i - 1);
    a                 = h(i) + part * a;
  }
  x(n - 1) = x(n - 1) / a;
  for (int i = n - 2; i >= 0; --i) x(i) = (x(i) + g(i) * x(i + 1)) / work(i);
}

}  // namespace shard

#endif
