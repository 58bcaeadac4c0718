// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_TRIDIAGONAL_HPP
#define SHARD_SOLVE_TRIDIAGONAL_HPP

#include <Kokkos_Core.hpp>

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
