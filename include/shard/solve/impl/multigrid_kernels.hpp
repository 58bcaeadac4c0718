// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_MULTIGRID_KERNELS_HPP
#define SHARD_SOLVE_IMPL_MULTIGRID_KERNELS_HPP

#include <Kokkos_Core.hpp>

#include <type_traits>
#include <utility>

#include "shard/base/types.hpp"
#include "shard/view/boundary.hpp"

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

/// A step of the Chebyshev iteration: d = c d + e D^-1 (b - A x), y = x + d.
template <class Field, class Functor>
struct SmoothKernel {
  using T = typename Field::value_type;
  Functor functor;
  Field y, x, b, d;
  T c, e;
  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    T step = e / functor.diagonal(x, i...) * (b(i...) - functor(x, i...));
    if (c != T(0)) step += c * d(i...);
    d(i...) = step;
    y(i...) = x(i...) + step;
  }
};
/// The first step from x = 0.
template <class Field, class Functor>
struct FirstSmoothKernel {
  using T = typename Field::value_type;
  Functor functor;
  Field y, b, d;
  T e;
  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    const T step = e / functor.diagonal(b, i...) * b(i...);
    d(i...)      = step;
    y(i...)      = step;
  }
};

/// Weights of the interpolation from coarse to fine cells along one dimension. A fine cell lies a
/// quarter of a coarse cell from its own coarse cell's centre: linear interpolation takes 3/4 of
/// it and 1/4 of the next. At a wall with the value 0 that is 1/2, at one without flux 1.
struct TransferDim {
  bool coarsens = false;   ///< else both grids have the same cells
  bool periodic = false;   ///< no walls
  double wall[2] = {1, 1};  ///< weight of the own cell at the low and the high wall

  /// The weight of fine cell g's own coarse cell.
  KOKKOS_FORCEINLINE_FUNCTION double own(index_t g, index_t fine) const {
    if (!periodic && g == 0) return wall[0];
    if (!periodic && g == fine - 1) return wall[1];
    return 0.75;
  }
  /// The weight of the next one.
  KOKKOS_FORCEINLINE_FUNCTION double next(index_t g, index_t fine) const {
    return periodic || (g != 0 && g != fine - 1) ? 0.25 : 0.0;
  }
};
template <class Field>
TransferDim transfer_dim(int d, bool coarsens) {
  BoundaryKind low[Field::rank], high[Field::rank];
  [&]<int... D>(std::integer_sequence<int, D...>) {
    ((low[D]  = BoundaryTraits<typename Field::template boundary<D>>::low.kind,
      high[D] = BoundaryTraits<typename Field::template boundary<D>>::high.kind),
     ...);
  }
  (std::make_integer_sequence<int, Field::rank>{});
  TransferDim t;
  t.coarsens = coarsens;
  t.periodic = low[d] == BoundaryKind::periodic;
  t.wall[0]  = low[d] == BoundaryKind::constant ? 0.5 : 1.0;
  t.wall[1]  = high[d] == BoundaryKind::constant ? 0.5 : 1.0;
  return t;
}

/// fine += P coarse, by multilinear interpolation. Reads the coarse halo, corners too. The shards of
/// both begin at the same cells.
template <class Field>
struct ProlongKernel {
  static constexpr int rank = Field::rank;
  Field fine, coarse;
  TransferDim dims[rank];

  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    const int index[] = {i...};
    int at[rank];
    fine(i...) += static_cast<typename Field::value_type>(gather<0>(index, at, 1.0));
  }

 private:
  template <int D>
  KOKKOS_FORCEINLINE_FUNCTION double gather(const int* index, int* at, double weight) const {
    if constexpr (D == rank) {
      return weight * static_cast<double>(value(at, std::make_integer_sequence<int, rank>{}));
    } else {
      if (!dims[D].coarsens) {
        at[D] = index[D];
        return gather<D + 1>(index, at, weight);
      }
      const index_t g = fine.to_global(D, index[D]), n = fine.global_extent(D);
      const int own = index[D] / 2;
      at[D]         = own;
      double sum    = gather<D + 1>(index, at, weight * dims[D].own(g, n));
      const double w = dims[D].next(g, n);
      if (w == 0.0) return sum;
      at[D] = index[D] % 2 == 0 ? own - 1 : own + 1;
      return sum + gather<D + 1>(index, at, weight * w);
    }
  }
  template <int... D>
  KOKKOS_FORCEINLINE_FUNCTION auto value(const int* at, std::integer_sequence<int, D...>) const {
    return coarse(at[D]...);
  }
};

/// coarse = P' fine / 2^(coarsened dimensions): the transpose of the interpolation. Reads the fine
/// halo, corners too.
template <class Field>
struct RestrictKernel {
  static constexpr int rank = Field::rank;
  Field coarse, fine;
  TransferDim dims[rank];

  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    const int index[] = {i...};
    int at[rank];
    coarse(i...) = static_cast<typename Field::value_type>(gather<0>(index, at, 1.0));
  }

 private:
  template <int D>
  KOKKOS_FORCEINLINE_FUNCTION double gather(const int* index, int* at, double weight) const {
    if constexpr (D == rank) {
      return weight * static_cast<double>(value(at, std::make_integer_sequence<int, rank>{}));
    } else {
      if (!dims[D].coarsens) {
        at[D] = index[D];
        return gather<D + 1>(index, at, weight);
      }
      // the fine cells 2 g - 1 to 2 g + 2; the outer two belong to the next coarse cells
      const index_t g = 2 * coarse.to_global(D, index[D]), n = fine.global_extent(D);
      const bool low = dims[D].periodic || g > 0, high = dims[D].periodic || g + 2 < n;
      const double weights[] = {low ? 0.25 : 0.0, dims[D].own(g, n), dims[D].own(g + 1, n),
                                high ? 0.25 : 0.0};
      double sum             = 0.0;
      for (int k = 0; k < 4; ++k) {
        if (weights[k] == 0.0) continue;
        at[D] = 2 * index[D] + k - 1;
        sum += gather<D + 1>(index, at, 0.5 * weight * weights[k]);
      }
      return sum;
    }
  }
  template <int... D>
  KOKKOS_FORCEINLINE_FUNCTION auto value(const int* at, std::integer_sequence<int, D...>) const {
    return fine(at[D]...);
  }
};

/// coarse = the mean of the fine cells in each coarse cell, for coefficients.
template <class Field>
struct MeanOfCellsKernel {
  static constexpr int rank = Field::rank;
  Field coarse, fine;
  bool coarsens[rank];

  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    const int index[] = {i...};
    int at[rank];
    coarse(i...) = static_cast<typename Field::value_type>(gather<0>(index, at));
  }

 private:
  template <int D>
  KOKKOS_FORCEINLINE_FUNCTION double gather(const int* index, int* at) const {
    if constexpr (D == rank) {
      return static_cast<double>(value(at, std::make_integer_sequence<int, rank>{}));
    } else {
      if (!coarsens[D]) {
        at[D] = index[D];
        return gather<D + 1>(index, at);
      }
      at[D]            = 2 * index[D];
      const double low = gather<D + 1>(index, at);
      at[D]            = 2 * index[D] + 1;
      return 0.5 * (low + gather<D + 1>(index, at));
    }
  }
  template <int... D>
  KOKKOS_FORCEINLINE_FUNCTION auto value(const int* at, std::integer_sequence<int, D...>) const {
    return fine(at[D]...);
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
    double sum = 0.0;
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
