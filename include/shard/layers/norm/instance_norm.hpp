// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_NORM_INSTANCE_NORM_HPP
#define SHARD_LAYERS_NORM_INSTANCE_NORM_HPP

#include "shard/layers/norm/norm_layer.hpp"

namespace shard {

/// A GroupNorm with a group for each channel (Ulyanov, Vedaldi and Lempitsky 2016; PyTorch's
/// InstanceNorm1d to 3d without running statistics): mean and variance of each batch entry and
/// channel over all points on all ranks. Channels may be sharded.
struct InstanceNorm : NormLayer<InstanceNorm> {
  index_t channels = 1;      ///< channels
  double eps       = 1e-5;   ///< added to the variance
  bool affine      = false;  ///< whether there are a weight and a bias per channel

  /// Without a weight and a bias by default.
  constexpr InstanceNorm(index_t channels_ = 1, double eps_ = 1e-5, bool affine_ = false)
      : channels(channels_), eps(eps_), affine(affine_) {}

 private:
  friend NormLayer<InstanceNorm>;
  impl::NormOptions options() const {
    return {"InstanceNorm", {channels, channels, false}, eps, affine};
  }
};

/// A layer norm over channels and space: mean and variance of each batch entry over all channels
/// and points on all ranks, with a weight and a bias per channel, as a GroupNorm of one group.
/// (PyTorch's LayerNorm([C, H, W]) has them per point: ElementwiseLayerNorm.) Channels may be
/// sharded.
struct SpatialLayerNorm : NormLayer<SpatialLayerNorm> {
  index_t channels = 1;     ///< channels
  double eps       = 1e-5;  ///< added to the variance
  bool affine      = true;  ///< whether there are a weight and a bias per channel

  /// With a weight and a bias by default.
  constexpr SpatialLayerNorm(index_t channels_ = 1, double eps_ = 1e-5, bool affine_ = true)
      : channels(channels_), eps(eps_), affine(affine_) {}

 private:
  friend NormLayer<SpatialLayerNorm>;
  impl::NormOptions options() const {
    return {"SpatialLayerNorm", {1, channels, false}, eps, affine};
  }
};

}  // namespace shard

#endif
