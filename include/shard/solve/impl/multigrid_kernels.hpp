// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_MULTIGRID_KERNELS_HPP
#define SHARD_SOLVE_IMPL_MULTIGRID_KERNELS_HPP

#include <Kokkos_Core.hpp>

#include <utility>

#include "shard/base/types.hpp"

namespace shard::impl {

/// y = b - A x at a point.
template <class Field, class Functor>
struct StencilResidualKernel {
  Functor functor;
  Field y, x, b;
  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    y(i...) = b(i...) - functor(x, i...);
  }
};

/// step / diagonal; 0 where the diagonal is, on land: there no step helps.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T over_diagonal(T step, T diagonal) {
  return diagonal == T(0) ? T(0) : step / diagonal;
}

/// A step of Richardson's iteration, y = x + e D^-1 (b - A x). With uniform coefficients D is the
/// diagonal away from walls, and is in e.
template <class Field, class Functor>
struct SmoothKernel {
  using T = typename Field::value_type;
  Functor functor;
  Field y, x, b;
  T e;
  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    T step = e * (b(i...) - functor(x, i...));
    if constexpr (!Functor::is_uniform) step = over_diagonal(step, functor.diagonal(x, i...));
    y(i...) = x(i...) + step;
  }
};
/// The first step from x = 0.
template <class Field, class Functor>
struct FirstSmoothKernel {
  using T = typename Field::value_type;
  Functor functor;
  Field y, b;
  T e;
  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    T step = e * b(i...);
    if constexpr (!Functor::is_uniform) step = over_diagonal(step, functor.diagonal(b, i...));
    y(i...) = step;
  }
};
/// The first two steps from x = 0 with uniform coefficients: y = e b + f (b - A e b).
template <class Field, class Functor>
struct TwoSmoothKernel {
  using T = typename Field::value_type;
  Functor functor;
  Field y, b;
  T e, f;
  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    y(i...) = (e + f) * b(i...) - e * f * functor(b, i...);
  }
};

/// x = inverse b, of cells in the order of CellRuns: a dense matrix by a vector.
template <class Field>
struct DenseSolveKernel {
  static constexpr int rank = Field::rank;
  Field x, b;
  const double* inverse;

  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    const int index[] = {i...};
    index_t row = 0, cells = 1;
    for (int d = 0; d < rank; ++d) {
      row = row * x.extent(d) + index[d];
      cells *= x.extent(d);
    }
    double sum   = 0.0;
    int at[rank] = {};
    for (index_t c = 0; c < cells; ++c) {
      sum += inverse[row * cells + c] *
             static_cast<double>(value(at, std::make_integer_sequence<int, rank>{}));
      for (int d = rank - 1; d >= 0; --d) {
        if (++at[d] < x.extent(d)) break;
        at[d] = 0;
      }
    }
    x(i...) = static_cast<typename Field::value_type>(sum);
  }

 private:
  template <int... D>
  KOKKOS_FORCEINLINE_FUNCTION auto value(const int* at, std::integer_sequence<int, D...>) const {
    return b(at[D]...);
  }
};

/// b = 1 at one cell, else 0; for the dense matrix.
template <class Field>
struct UnitVectorKernel {
  Field b;
  index_t cell;
  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    const int index[] = {i...};
    index_t row       = 0;
    for (int d = 0; d < Field::rank; ++d) row = row * b.extent(d) + index[d];
    b(i...) = row == cell ? 1 : 0;
  }
};

}  // namespace shard::impl

#endif
