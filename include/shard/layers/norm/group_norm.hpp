// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_NORM_GROUP_NORM_HPP
#define SHARD_LAYERS_NORM_GROUP_NORM_HPP

#include "shard/layers/norm/norm_layer.hpp"

namespace shard {

/// Group normalisation over all ranks: y = (x - mean) / sqrt(var + eps) * weight + bias, mean and
/// (biased) variance of each batch entry and group of channels over all points of all ranks (Wu and
/// He 2018). Fields are [batch, channel, space...], sharded in any way, shards uneven or empty.
///
/// With sharded channels, if each group is on one rank, a rank has statistics of its own groups
/// only. Else the collectives include the axis that shards channels.
///
/// Forward: count, mean and sum of squared differences per shard, in double, are gathered in one
/// collective and merged in rank order (Chan, Golub, LeVeque 1983), so statistics are the same on
/// every rank. Backward: two sums in one collective; dx = rstd (w dy - S1 / D - xhat S2 / D), D the
/// number of points of a group. A tangent: two sums in one collective.
///
/// For each batch entry and channel, a host sums x - p and (x - p)^2 in sum_lanes interleaved sums,
/// p the mean of the first row: the rows of four quarters in turn, sum_lanes columns at a time,
/// then the rows that are left. Mean and sum of squared differences follow. With weights of rows it
/// sums x and then the differences from the mean, over ascending rows. Owned channels are merged in
/// ascending order, then ranks.
struct GroupNorm : NormLayer<GroupNorm> {
  index_t groups   = 1;     ///< groups of channels
  index_t channels = 1;     ///< channels
  double eps       = 1e-5;  ///< added to the variance
  bool affine      = true;  ///< whether there are a weight and a bias per channel

  /// With a weight and a bias by default.
  constexpr GroupNorm(index_t groups_ = 1, index_t channels_ = 1, double eps_ = 1e-5,
                      bool affine_ = true)
      : groups(groups_), channels(channels_), eps(eps_), affine(affine_) {}

 private:
  friend NormLayer<GroupNorm>;
  impl::NormOptions options() const {
    return {"GroupNorm", {groups, channels, false}, eps, affine};
  }
};

}  // namespace shard

#endif
