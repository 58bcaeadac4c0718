// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_DEVICE_ERROR_HPP
#define SHARD_SRC_LAYERS_DEVICE_ERROR_HPP

#include <Kokkos_Core.hpp>

#include "device_sums.hpp"
#include "error_functions.hpp"

/// \file
/// Terms of losses and metrics, for sums on a device.

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
    template <class At>
    KOKKOS_FORCEINLINE_FUNCTION Cell load(const At& at) const {
      return {y[at.offset[0]], target[at.offset[1]], weights[at.along(row_dim)]};
    }
    KOKKOS_FORCEINLINE_FUNCTION void add(double (&sums)[kinds], const Cell& cell) const {
      sums[0] +=
          cell.weight * f.value(static_cast<double>(cell.y) - static_cast<double>(cell.target));
    }
    KOKKOS_FORCEINLINE_FUNCTION void finish(double (&)[kinds], double) const {}
  };
  template <class At>
  KOKKOS_FORCEINLINE_FUNCTION Plane plane(index_t n, index_t c, const At&) const {
    return {plane_of(y, n, c), plane_of(target, n, c), weights, row_dim, f};
  }
  BoxStrides<2> box() const { return plane_box(y, target); }
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
    template <class At>
    KOKKOS_FORCEINLINE_FUNCTION Cell load(const At& at) const {
      return {ty[at.offset[0]], y[at.offset[1]], target[at.offset[2]], weights[at.along(row_dim)]};
    }
    KOKKOS_FORCEINLINE_FUNCTION void add(double (&sums)[kinds], const Cell& cell) const {
      const double slope =
          f.derivative(static_cast<double>(cell.y) - static_cast<double>(cell.target));
      sums[0] += cell.weight * (slope * static_cast<double>(cell.ty));
    }
    KOKKOS_FORCEINLINE_FUNCTION void finish(double (&)[kinds], double) const {}
  };
  template <class At>
  KOKKOS_FORCEINLINE_FUNCTION Plane plane(index_t n, index_t c, const At&) const {
    return {plane_of(ty, n, c), plane_of(y, n, c), plane_of(target, n, c), weights, row_dim, f};
  }
  BoxStrides<3> box() const { return plane_box(ty, y, target); }
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
    template <class At>
    KOKKOS_FORCEINLINE_FUNCTION Cell load(const At& at) const {
      return {y[at.offset[0]], target[at.offset[1]], climatology[at.offset[2]],
              weights[at.along(row_dim)]};
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
  template <class At>
  KOKKOS_FORCEINLINE_FUNCTION Plane plane(index_t n, index_t c, const At&) const {
    return {plane_of(y, n, c), plane_of(target, n, c), plane_of(climatology, n, c), weights,
            row_dim};
  }
  BoxStrides<3> box() const { return plane_box(y, target, climatology); }
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
    template <class At>
    KOKKOS_FORCEINLINE_FUNCTION Cell load(const At& at) const {
      return {at.offset[0], y[at.offset[1]], target[at.offset[2]], weights[at.along(row_dim)]};
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
  BoxStrides<3> box() const { return plane_box(dy, y, target); }
};

}  // namespace shard::impl

#endif
