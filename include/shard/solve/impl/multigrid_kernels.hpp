// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_MULTIGRID_KERNELS_HPP
#define SHARD_SOLVE_IMPL_MULTIGRID_KERNELS_HPP

#include <Kokkos_Core.hpp>

#include <type_traits>
#include <utility>

#include "shard/base/types.hpp"
#include "shard/solve/diffusion.hpp"
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

/// The interpolation from coarse to fine cells along one dimension.
struct TransferDim {
  bool coarsens  = false;   ///< else both grids have the same cells
  bool periodic  = false;   ///< no walls
  double wall[2] = {1, 1};  ///< weight of the own coarse cell at the low and the high wall
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

/// Weights of the interpolation, for both directions. A fine cell lies a quarter of a coarse cell
/// from the centre of its own coarse cell: linear interpolation takes 3/4 of that and 1/4 of the
/// next. Where coefficients jump, the flux is continuous, not the slope: the next cell gets
/// k_next / (2 (k_own + k_next)). At a wall with the value 0 the own cell counts 1/2, at one
/// without flux 1. The shards of both fields begin at the same cells.
template <class Field, class K>
struct Transfer {
  static constexpr int rank = Field::rank;
  TransferDim dims[rank];
  K k;  ///< coefficients of the coarse cells

  /// The weight of coarse cell `own`, local, for the fine cell on `side` of its centre; `is_next`:
  /// of the next coarse cell on that side.
  KOKKOS_FORCEINLINE_FUNCTION double weight(const Field& coarse, int d, const int* own, int side,
                                            bool is_next) const {
    if (!dims[d].periodic) {
      const index_t g = coarse.to_global(d, own[d]);
      if (side < 0 ? g == 0 : g == coarse.global_extent(d) - 1)
        return is_next ? 0.0 : dims[d].wall[side < 0 ? 0 : 1];
    }
    double next = 0.25;
    if constexpr (!std::is_same_v<K, UnitCoefficient>) {
      int there[rank];
      for (int e = 0; e < rank; ++e) there[e] = own[e] + (e == d ? side : 0);
      const auto here   = static_cast<double>(value(k, own)),
                 beside = static_cast<double>(value(k, there));
      if (here + beside > 0.0) next = 0.5 * beside / (here + beside);
    }
    return is_next ? next : 1.0 - next;
  }
  template <class From>
  KOKKOS_FORCEINLINE_FUNCTION static auto value(const From& from, const int* at) {
    return value(from, at, std::make_integer_sequence<int, rank>{});
  }

 private:
  template <class From, int... D>
  KOKKOS_FORCEINLINE_FUNCTION static auto value(const From& from, const int* at,
                                                std::integer_sequence<int, D...>) {
    return from(at[D]...);
  }
};

/// fine += P coarse, by multilinear interpolation. Reads the coarse halo, corners too.
template <class Field, class K>
struct ProlongKernel {
  static constexpr int rank = Field::rank;
  Field fine, coarse;
  Transfer<Field, K> transfer;

  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    const int index[] = {i...};
    int own[rank], side[rank], at[rank];
    double weights[rank][2];
    for (int d = 0; d < rank; ++d) {
      own[d]  = transfer.dims[d].coarsens ? index[d] / 2 : index[d];
      side[d] = index[d] % 2 == 0 ? -1 : 1;
    }
    for (int d = 0; d < rank; ++d)
      for (int n = 0; n < 2; ++n)
        weights[d][n] =
            transfer.dims[d].coarsens ? transfer.weight(coarse, d, own, side[d], n == 1) : 1.0 - n;
    fine(i...) += static_cast<typename Field::value_type>(gather<0>(own, side, weights, at, 1.0));
  }

 private:
  template <int D>
  KOKKOS_FORCEINLINE_FUNCTION double gather(const int* own, const int* side,
                                            const double (&weights)[rank][2], int* at,
                                            double weight) const {
    if constexpr (D == rank) {
      return weight * static_cast<double>(transfer.value(coarse, at));
    } else {
      at[D]      = own[D];
      double sum = gather<D + 1>(own, side, weights, at, weight * weights[D][0]);
      if (weights[D][1] == 0.0) return sum;
      at[D] = own[D] + side[D];
      return sum + gather<D + 1>(own, side, weights, at, weight * weights[D][1]);
    }
  }
};

/// coarse = P' fine / 2^(coarsened dimensions): the transpose of the interpolation. Reads the fine
/// halo, corners too.
template <class Field, class K>
struct RestrictKernel {
  static constexpr int rank        = Field::rank;
  static constexpr bool by_factors = std::is_same_v<K, UnitCoefficient>;
  Field coarse, fine;
  Transfer<Field, K> transfer;

  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    const int index[] = {i...};
    int at[rank] = {}, own[rank] = {}, side[rank] = {};
    coarse(i...) = static_cast<typename Field::value_type>(gather<0>(index, at, own, side, 1.0));
  }

 private:
  /// The fine cells 2 i - 1 to 2 i + 2 along each dimension; the outer two are in the next coarse
  /// cells.
  template <int D>
  KOKKOS_FORCEINLINE_FUNCTION double gather(const int* index, int* at, int* own, int* side,
                                            double weight) const {
    if constexpr (D == rank) {
      if constexpr (!by_factors)
        for (int d = 0; d < rank; ++d) weight *= factor(index, own, side, d);
      return weight * static_cast<double>(transfer.value(fine, at));
    } else {
      if (!transfer.dims[D].coarsens) {
        at[D] = own[D] = index[D];
        return gather<D + 1>(index, at, own, side, weight);
      }
      const index_t g = coarse.to_global(D, index[D]);
      const int first = transfer.dims[D].periodic || g > 0 ? 0 : 1,
                last  = transfer.dims[D].periodic || g + 1 < coarse.global_extent(D) ? 4 : 3;
      double sum      = 0.0;
      for (int n = first; n < last; ++n) {
        at[D]   = 2 * index[D] + n - 1;
        own[D]  = index[D] + (n == 0 ? -1 : n == 3 ? 1 : 0);
        side[D] = n % 2 == 0 ? 1 : -1;
        // without coefficients the weight is a product of numbers for each dimension
        const double w = by_factors ? weight * factor(index, own, side, D) : weight;
        sum += gather<D + 1>(index, at, own, side, w);
      }
      return sum;
    }
  }
  KOKKOS_FORCEINLINE_FUNCTION double factor(const int* index, const int* own, const int* side,
                                            int d) const {
    if (!transfer.dims[d].coarsens) return 1.0;
    return 0.5 * transfer.weight(coarse, d, own, side[d], own[d] != index[d]);
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
