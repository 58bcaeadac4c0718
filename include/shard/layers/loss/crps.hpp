// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_LOSS_CRPS_HPP
#define SHARD_LAYERS_LOSS_CRPS_HPP

#include <vector>

#include "shard/layers/impl/ensemble_fields.hpp"

namespace shard {

/// The continuous ranked probability score of an ensemble (Gneiting and Raftery 2007), averaged
/// over all points with weights of rows (the first spatial dimension, such as latitudes by their
/// areas). At a point with members x_1 to x_M and target t
///
///   crps = 1/M sum over m of |x_m - t|
///          - (alpha / (M (M - 1)) + (1 - alpha) / M^2) sum over m < n of |x_m - x_n|
///
/// alpha = 1 is the fair score (Ferro 2014); 0 < alpha < 1 the almost fair one of AIFS-CRPS (Lang
/// et al. 2024, alpha = 0.95); 0 that of the members' empirical distribution. Derivatives of |e|
/// are 0 at 0.
///
/// y is [samples M, channel, space...], the members of a sample consecutive, target [samples,
/// channel, space...]. Batch, channels and space may be sharded, both fields alike, if the members
/// of a sample are on one rank. Or members are sharded over a mesh axis (`ShardDim<0, Member>` of
/// y) over which the target is replicated, and channels aren't sharded: then values move so that
/// each rank along that axis has all members of some channels. That is one redistribution of y, and
/// one of its gradient.
///
/// `loss(space, y, target)` is the value, the same on every rank; `loss.pullback` sets its
/// gradient, `loss.pushforward` is its tangent. Sums are in double, on each rank and then in rank
/// order. An ensemble of M members takes M^2 / 2 differences a point.
template <class Y, class Target>
class CRPS : impl::EnsembleFields<Y, Target> {
 public:
  /// Collective over the mesh. `row_weights` has one weight for each global row (none: all weights
  /// are 1). Throws ArgumentError on every rank for other numbers of them, extents that don't fit,
  /// an alpha outside [0, 1], one member and alpha > 0, and members of a sample on several ranks;
  /// AgreementError if ranks have different options.
  CRPS(const Y& y, const Target& target, const std::vector<double>& row_weights, double alpha = 1.0)
      : impl::EnsembleFields<Y, Target>("CRPS", y, target, row_weights, alpha) {}

  /// The score. Collective; fences `space`. Fields have the extents and partitions of those that
  /// this was made for.
  template <class Space>
  double operator()(const Space& space, const Y& y, const Target& target) {
    sum(space, false, y, target);
    return this->values_[0] / this->total_;
  }
  /// The same for each channel.
  template <class Space>
  std::vector<double> by_channel(const Space& space, const Y& y, const Target& target) {
    sum(space, true, y, target);
    std::vector<double> means = this->values_;
    for (double& m : means) m *= static_cast<double>(this->channels_) / this->total_;
    return means;
  }
  /// The tangent of the score for the tangent ty of y. Collective; fences `space`.
  template <class Space>
  double pushforward(const Space& space, const Y& ty, const Y& y, const Target& target) {
    const auto &x  = this->together(space, y, this->x_),
               &t  = this->together(space, target, this->t_),
               &tx = this->together(space, ty, this->dx_);
    Kernels<Space>::tangent_sums(space, this->score_, this->sums_.data(), impl::owned_input(tx),
                                 impl::owned_input(x), impl::owned_input(t), this->weights_.data(),
                                 Y::rank - 2, this->parts_.data());
    this->collect(space, false);
    return this->values_[0] / this->total_;
  }
  /// Sets dy = the derivative of the score, times `scale`. Local, or collective if members are
  /// sharded over a mesh axis.
  template <class Space, class DY>
  void pullback(const Space& space, const DY& dy, const Y& y, const Target& target,
                double scale = 1.0) const {
    const auto &x = this->together(space, y, this->x_),
               &t = this->together(space, target, this->t_);
    this->apart(space, dy, [&](const auto& dx) {
      Kernels<Space>::derivative(space, this->score_, impl::owned_block(impl::local(dx)),
                                 impl::owned_input(x), impl::owned_input(t), this->weights_.data(),
                                 Y::rank - 2, scale / this->total_);
    });
  }

 private:
  template <class Space>
  using Kernels = impl::EnsembleKernels<Space, typename Y::non_const_value_type>;

  template <class Space>
  void sum(const Space& space, bool by_channel, const Y& y, const Target& target) {
    const auto &x = this->together(space, y, this->x_),
               &t = this->together(space, target, this->t_);
    Kernels<Space>::sums(space, this->score_, this->sums_.data(), impl::owned_input(x),
                         impl::owned_input(t), this->weights_.data(), Y::rank - 2,
                         this->parts_.data());
    this->collect(space, by_channel);
  }
};

}  // namespace shard

#endif
