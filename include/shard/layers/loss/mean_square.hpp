// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_LOSS_MEAN_SQUARE_HPP
#define SHARD_LAYERS_LOSS_MEAN_SQUARE_HPP

#include <vector>

#include "shard/layers/impl/error_sums.hpp"

namespace shard {

/// Mean square difference of two fields over all ranks, weighted by rows (the first spatial
/// dimension, such as latitudes by their areas):
///
///   J = sum over points of w[row] (y - target)^2 / sum over points of w[row]
///
/// Summed in double, first on each rank and then in rank order, so the result is the same on every
/// rank. Fields are [batch, channel, space...], in any partitions. `loss(space, y, target)` is J,
/// `loss.pullback` sets its gradient, `loss.pushforward` is its tangent.
template <class Memory>
class MeanSquare : public impl::MeanError<Memory> {
 public:
  /// Collective over the mesh of `like`. `row_weights` has one weight for each global row (none:
  /// all weights are 1); throws ArgumentError on every rank if it has another number of them.
  template <class Field>
  MeanSquare(const Field& like, const std::vector<double>& row_weights)
      : impl::MeanError<Memory>("MeanSquare", like, row_weights,
                                {impl::ErrorFunction::square, 0.0}) {}
};

/// In the memory of the field that it is made for.
template <class Field>
MeanSquare(const Field&, const std::vector<double>&) -> MeanSquare<typename Field::memory_space>;

}  // namespace shard

#endif
