// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_ERROR_HPP
#define SHARD_SRC_LAYERS_DEVICE_ERROR_HPP

#include <Kokkos_Core.hpp>

#include "device_sums.hpp"
#include "error_functions.hpp"

/// \file
/// The terms of losses and metrics whose sums a device takes.

namespace shard::impl {

/// w f(y - t)
template <class T, class F>
struct ErrorTerms {
  static constexpr int kinds = 1;
  Block<const T> y, target;
  const double* weights;
  int row_dim;
  F f;

  struct Cell {
    T y, target;
    double weight;
  };
  struct Plane {
    const T *y, *target;
    const double* weights;
    int row_dim;
    F f;
    KOKKOS_FORCEINLINE_FUNCTION Cell load(const PlaneWalk<2>& walk) const {
      return {y[walk.offset[0]], target[walk.offset[1]], weights[walk.along(row_dim)]};
    }
    KOKKOS_FORCEINLINE_FUNCTION void add(double (&sums)[kinds], const Cell& cell) const {
      sums[0] +=
          cell.weight * f.value(static_cast<double>(cell.y) - static_cast<double>(cell.target));
    }
    KOKKOS_FORCEINLINE_FUNCTION void finish(double (&)[kinds], double) const {}
  };
  KOKKOS_FORCEINLINE_FUNCTION Plane plane(index_t n, index_t c, index_t) const {
    return {plane_of(y, n, c), plane_of(target, n, c), weights, row_dim, f};
  }
  KOKKOS_FORCEINLINE_FUNCTION PlaneWalk<2> walk(index_t first, index_t step) const {
    return walk_of(first, step, y, target);
  }
};

/// w f'(y - t) ty
template <class T, class F>
struct ErrorTangentTerms {
  static constexpr int kinds = 1;
  Block<const T> ty, y, target;
  const double* weights;
  int row_dim;
  F f;

  struct Cell {
    T ty, y, target;
    double weight;
  };
  struct Plane {
    const T *ty, *y, *target;
    const double* weights;
    int row_dim;
    F f;
    KOKKOS_FORCEINLINE_FUNCTION Cell load(const PlaneWalk<3>& walk) const {
      return {ty[walk.offset[0]], y[walk.offset[1]], target[walk.offset[2]],
              weights[walk.along(row_dim)]};
    }
    KOKKOS_FORCEINLINE_FUNCTION void add(double (&sums)[kinds], const Cell& cell) const {
      const double slope =
          f.derivative(static_cast<double>(cell.y) - static_cast<double>(cell.target));
      sums[0] += cell.weight * (slope * static_cast<double>(cell.ty));
    }
    KOKKOS_FORCEINLINE_FUNCTION void finish(double (&)[kinds], double) const {}
  };
  KOKKOS_FORCEINLINE_FUNCTION Plane plane(index_t n, index_t c, index_t) const {
    return {plane_of(ty, n, c), plane_of(y, n, c), plane_of(target, n, c), weights, row_dim, f};
  }
  KOKKOS_FORCEINLINE_FUNCTION PlaneWalk<3> walk(index_t first, index_t step) const {
    return walk_of(first, step, ty, y, target);
  }
};

/// w a b, w a^2 and w b^2 of the anomalies a and b.
template <class T>
struct CorrelationTerms {
  static constexpr int kinds = 3;
  Block<const T> y, target, climatology;
  const double* weights;
  int row_dim;

  struct Cell {
    T y, target, climatology;
    double weight;
  };
  struct Plane {
    const T *y, *target, *climatology;
    const double* weights;
    int row_dim;
    KOKKOS_FORCEINLINE_FUNCTION Cell load(const PlaneWalk<3>& walk) const {
      return {y[walk.offset[0]], target[walk.offset[1]], climatology[walk.offset[2]],
              weights[walk.along(row_dim)]};
    }
    KOKKOS_FORCEINLINE_FUNCTION void add(double (&sums)[kinds], const Cell& cell) const {
      const double c = static_cast<double>(cell.climatology);
      const double a = static_cast<double>(cell.y) - c, b = static_cast<double>(cell.target) - c;
      sums[0] += cell.weight * (a * b);
      sums[1] += cell.weight * (a * a);
      sums[2] += cell.weight * (b * b);
    }
    KOKKOS_FORCEINLINE_FUNCTION void finish(double (&)[kinds], double) const {}
  };
  KOKKOS_FORCEINLINE_FUNCTION Plane plane(index_t n, index_t c, index_t) const {
    return {plane_of(y, n, c), plane_of(target, n, c), plane_of(climatology, n, c), weights,
            row_dim};
  }
  KOKKOS_FORCEINLINE_FUNCTION PlaneWalk<3> walk(index_t first, index_t step) const {
    return walk_of(first, step, y, target, climatology);
  }
};

/// dy = scale w f'(y - t)
template <class T, class F>
struct ErrorDerivativeOp {
  Block<T> dy;
  Block<const T> y, target;
  const double* weights;
  int row_dim;
  double scale;
  F f;

  struct Cell {
    index_t to;
    T y, target;
    double weight;
  };
  struct Plane {
    T* dy;
    const T *y, *target;
    const double* weights;
    int row_dim;
    double scale;
    F f;
    KOKKOS_FORCEINLINE_FUNCTION Cell load(const PlaneWalk<3>& walk) const {
      return {walk.offset[0], y[walk.offset[1]], target[walk.offset[2]],
              weights[walk.along(row_dim)]};
    }
    KOKKOS_FORCEINLINE_FUNCTION void store(const Cell& cell) const {
      dy[cell.to] = static_cast<T>(
          scale * cell.weight *
          f.derivative(static_cast<double>(cell.y) - static_cast<double>(cell.target)));
    }
  };
  KOKKOS_FORCEINLINE_FUNCTION Plane plane(index_t n, index_t c) const {
    return {
        plane_of(dy, n, c), plane_of(y, n, c), plane_of(target, n, c), weights, row_dim, scale, f};
  }
  KOKKOS_FORCEINLINE_FUNCTION PlaneWalk<3> walk(index_t first, index_t step) const {
    return walk_of(first, step, dy, y, target);
  }
};

}  // namespace shard::impl

#endif
