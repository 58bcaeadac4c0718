// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_LAYERS_ERROR_FUNCTIONS_HPP
#define SHARD_SRC_LAYERS_ERROR_FUNCTIONS_HPP

#include <Kokkos_Core.hpp>

/// \file
/// The functions of the error that losses sum, and their derivatives.

namespace shard::impl {

struct SquareFunction {
  double delta;
  KOKKOS_FUNCTION double value(double e) const { return e * e; }
  KOKKOS_FUNCTION double derivative(double e) const { return 2.0 * e; }
};

struct AbsoluteFunction {
  double delta;
  KOKKOS_FUNCTION double value(double e) const { return Kokkos::abs(e); }
  KOKKOS_FUNCTION double derivative(double e) const {
    return e > 0.0 ? 1.0 : e < 0.0 ? -1.0 : e;  // a NaN stays one
  }
};

struct HuberFunction {
  double delta;
  KOKKOS_FUNCTION double value(double e) const {
    const double size = Kokkos::abs(e);
    return size <= delta ? 0.5 * e * e : delta * (size - 0.5 * delta);
  }
  KOKKOS_FUNCTION double derivative(double e) const {
    return e > delta ? delta : e < -delta ? -delta : e;
  }
};

}  // namespace shard::impl

#endif
