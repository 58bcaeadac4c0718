// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_CHANNEL_KERNELS_HPP
#define SHARD_LAYERS_IMPL_CHANNEL_KERNELS_HPP

#include "shard/layers/impl/kernels.hpp"

namespace shard::impl {

/// Two sums per point over all channels, and the number of channels; null: not given.
struct CellSums {
  const double* sums = nullptr;
  double channels    = 0.0;
};

/// How a norm over channels computes its statistics.
struct ChannelNormOptions {
  double eps   = 1e-5;
  bool centred = true;  ///< else the mean is taken to be zero (RMSNorm)
};

/// Kernels that work on the channels of each point by itself, compiled in src/layers for float and
/// double. They are asynchronous on `space`. Sums over channels are in double: on a host in
/// ascending order; on a device eight threads of a point add every eighth channel each.
template <class Space, class T>
struct ChannelKernels : RequireLayerKernels<Space> {
  /// y = (x - mean) rstd w + b over the channels of a point, and mean and rstd of each point (owned
  /// points, the last dimension the fastest), or by those given; w and b may be null.
  static void norm(const Space& space, const Block<T>& y, const Block<const T>& x,
                   double* statistics, const T* weight, const T* bias,
                   const ChannelNormOptions& options, bool given = false);
  /// For each point: mean of the owned channels (0 if there are none, or not `centred`), and sum of
  /// squared differences from it.
  static void norm_moments(const Space& space, double* moments, const Block<const T>& x,
                           bool centred);
  /// Merges each rank's moments, in rank order, into mean and 1 / sqrt(variance + eps). `channels`
  /// has each rank's number of channels.
  static void merge_moments(const Space& space, double* statistics, const double* gathered,
                            index_t points, const double* channels, int ranks, double eps);
  /// For each (batch, channel): sums over points of dy and of dy xhat, in sum_lanes running sums on
  /// a host, in CellPieces on a device (`parts` has two numbers for each).
  static void norm_sums(const Space& space, double* sums, const Block<const T>& dy,
                        const Block<const T>& x, const double* statistics, double* parts);
  /// For each point: the sums over owned channels of w a and w a xhat; w may be null.
  static void norm_cell_sums(const Space& space, double* sums, const Block<const T>& a,
                             const Block<const T>& x, const double* statistics, const T* weight);
  /// dx = rstd (w dy - (S1 + xhat S2) / C), S1 and S2 the sums over channels of w dy and w dy xhat,
  /// of the owned ones or as given; S1 is 0 unless `centred`.
  static void norm_pullback(const Space& space, const Block<T>& dx, const Block<const T>& dy,
                            const Block<const T>& x, const double* statistics, const T* weight,
                            bool centred, const CellSums& given = {});
  /// ty = w rstd (tx - (S1 + xhat S2) / C) + xhat tw + tb, S1 and S2 the sums over channels of tx
  /// and tx xhat, of the owned ones or as given; S1 is 0 unless `centred`. Null tw, tb: zeros;
  /// without `with_input` tx is zero.
  static void norm_pushforward(const Space& space, const Block<T>& ty, const Block<const T>& tx,
                               bool with_input, const Block<const T>& x, const double* statistics,
                               const T* weight, const T* weight_tangent, const T* bias_tangent,
                               bool centred, const CellSums& given = {});

  /// y = exp(x - max) / sum of these, over the channels of a point.
  static void softmax(const Space& space, const Block<T>& y, const Block<const T>& x);
  /// b = y (a - sum of y a), y the softmax of x: the pushforward of tangents, the pullback of
  /// gradients.
  static void softmax_derivative(const Space& space, const Block<T>& b, const Block<const T>& a,
                                 const Block<const T>& x);
};

}  // namespace shard::impl

#endif
