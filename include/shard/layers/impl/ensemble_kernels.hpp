// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_ENSEMBLE_KERNELS_HPP
#define SHARD_LAYERS_IMPL_ENSEMBLE_KERNELS_HPP

#include <string_view>

#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// The score of an ensemble x_1 to x_M at a point: mean of |x_m - t| - pairs times the sum over m <
/// n of |x_m - x_n|.
struct EnsembleScore {
  index_t members = 1;
  double pairs    = 0.0;

  /// A score, alpha parts of which are fair. Throws ArgumentError
  /// unless 0 <= alpha <= 1 and there is a member, or two where alpha > 0.
  static EnsembleScore of(std::string_view score, index_t members, double alpha);
};

/// Kernels of scores of ensembles, compiled in src/layers for float and double. Members of a sample
/// are consecutive in the batch of x. Sums are in double for each (sample, channel), in sum_lanes
/// interleaved sums on a host, in CellPieces on a device (`parts`). Weights begin at the first
/// owned row (the first spatial dimension of a field with `dims` of them). They are asynchronous on
/// `space`.
template <class Space, class T>
struct EnsembleKernels : RequireLayerKernels<Space> {
  /// Sums of w score.
  static void sums(const Space& space, const EnsembleScore& score, double* sums,
                   const Block<const T>& x, const Block<const T>& target, const double* row_weights,
                   int dims, double* parts);
  /// Sums of the tangent of w score.
  static void tangent_sums(const Space& space, const EnsembleScore& score, double* sums,
                           const Block<const T>& tx, const Block<const T>& x,
                           const Block<const T>& target, const double* row_weights, int dims,
                           double* parts);
  /// dx = scale w dscore/dx; signs of 0 are 0.
  static void derivative(const Space& space, const EnsembleScore& score, const Block<T>& dx,
                         const Block<const T>& x, const Block<const T>& target,
                         const double* row_weights, int dims, double scale);
  /// dx_m = scale w (f_mm (x_m - t) + sum over n of f_mn (x_m - x_n)), with factors f [sample,
  /// members, members].
  static void distance_derivative(const Space& space, index_t members, const Block<T>& dx,
                                  const Block<const T>& x, const Block<const T>& target,
                                  const double* factors, const double* row_weights, int dims,
                                  double scale);
};

}  // namespace shard::impl

#endif
