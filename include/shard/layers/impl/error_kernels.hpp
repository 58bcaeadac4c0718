// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_ERROR_KERNELS_HPP
#define SHARD_LAYERS_IMPL_ERROR_KERNELS_HPP

#include <cstdint>

#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// The summed function of an error e.
enum class ErrorFunction : std::uint8_t {
  square,    ///< e^2
  absolute,  ///< |e|
  huber,     ///< e^2 / 2 where |e| <= delta, else delta (|e| - delta / 2)
};

/// The term w f(e) of an error and its row's weight, with f's parameter.
struct ErrorTerm {
  ErrorFunction f = ErrorFunction::square;
  double delta    = 1.0;
};

/// Kernels of losses and metrics, compiled in src/layers for float and double; all blocks have the
/// same extents. Sums are in double, for each (batch, channel), in sum_lanes interleaved sums on a
/// host, in CellPieces on a device (`parts` has the same number of sums for each piece). Weights
/// begin at the first owned row (the first spatial dimension of a field with `dims` of them). They
/// are asynchronous on `space`.
template <class Space, class T>
struct ErrorKernels : RequireLayerKernels<Space> {
  /// Sums of w f(y - t).
  static void sums(const Space& space, const ErrorTerm& term, double* sums, const Block<const T>& y,
                   const Block<const T>& target, const double* row_weights, int dims,
                   double* parts);
  /// Sums of w f'(y - t) ty.
  static void tangent_sums(const Space& space, const ErrorTerm& term, double* sums,
                           const Block<const T>& ty, const Block<const T>& y,
                           const Block<const T>& target, const double* row_weights, int dims,
                           double* parts);
  /// dy = scale w f'(y - t)
  static void derivative(const Space& space, const ErrorTerm& term, const Block<T>& dy,
                         const Block<const T>& y, const Block<const T>& target,
                         const double* row_weights, int dims, double scale);
  /// Three each: sums of w a b, w a^2 and w b^2, a = y - c, b = t - c.
  static void correlation_sums(const Space& space, double* sums, const Block<const T>& y,
                               const Block<const T>& target, const Block<const T>& climatology,
                               const double* row_weights, int dims, double* parts);
};

/// Returns delta; throws ArgumentError unless it is above zero.
double checked_delta(double delta);

}  // namespace shard::impl

#endif
