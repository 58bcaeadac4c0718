// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_LOSS_MEAN_ERROR_HPP
#define SHARD_LAYERS_LOSS_MEAN_ERROR_HPP

#include <cmath>
#include <vector>

#include "shard/layers/impl/error_sums.hpp"
#include "shard/layers/loss/mean_square.hpp"

namespace shard {

/// Mean absolute difference (PyTorch's L1Loss), weighted and summed as MeanSquare:
///
/// J = sum over points of w[row] |y - target| / sum over points of w[row]
///
/// The derivative is 0 where y = target.
template <class Memory>
class MeanAbsolute : public impl::MeanError<Memory> {
 public:
  /// As MeanSquare's.
  template <class Field>
  MeanAbsolute(const Field& like, const std::vector<double>& row_weights)
      : impl::MeanError<Memory>("MeanAbsolute", like, row_weights,
                                {impl::ErrorFunction::absolute, 0.0}) {}
};

/// In the memory of the field that it is made for.
template <class Field>
MeanAbsolute(const Field&, const std::vector<double>&)
    -> MeanAbsolute<typename Field::memory_space>;

/// Mean of Huber's function (Huber 1964; PyTorch's HuberLoss), weighted and summed as MeanSquare:
/// e^2 / 2 of an error |e| <= delta, delta (|e| - delta / 2) of a larger one.
template <class Memory>
class Huber : public impl::MeanError<Memory> {
 public:
  /// As MeanSquare's; throws ArgumentError on every rank unless delta > 0.
  template <class Field>
  Huber(const Field& like, const std::vector<double>& row_weights, double delta = 1.0)
      : impl::MeanError<Memory>("Huber", like, row_weights,
                                {impl::ErrorFunction::huber, impl::checked_delta(delta)}) {}
};

/// In the memory of the field that it is made for.
template <class Field>
Huber(const Field&, const std::vector<double>&, double = 1.0)
    -> Huber<typename Field::memory_space>;

/// The root of the mean square difference over all ranks: a metric, from the global mean.
template <class Memory>
class RootMeanSquare {
 public:
  /// As MeanSquare's.
  template <class Field>
  RootMeanSquare(const Field& like, const std::vector<double>& row_weights)
      : mean_(like, row_weights) {}

  /// The value, the same on every rank. Collective; fences `space`.
  template <class Space, class Y, class Target>
  double operator()(const Space& space, const Y& y, const Target& target) {
    return std::sqrt(mean_(space, y, target));
  }
  /// The same for each channel.
  template <class Space, class Y, class Target>
  std::vector<double> by_channel(const Space& space, const Y& y, const Target& target) {
    std::vector<double> roots = mean_.by_channel(space, y, target);
    for (double& r : roots) r = std::sqrt(r);
    return roots;
  }

 private:
  MeanSquare<Memory> mean_;
};

/// In the memory of the field that it is made for.
template <class Field>
RootMeanSquare(const Field&, const std::vector<double>&)
    -> RootMeanSquare<typename Field::memory_space>;

/// Anomaly correlation over all ranks, of the differences from a climatology c, not centred
/// (WMO-No. 485; Wilks 2011, 8.6.4): a metric, in [-1, 1].
///
///   sum of w[row] (y - c) (t - c) / sqrt(sum of w[row] (y - c)^2  sum of w[row] (t - c)^2)
///
/// 0 / 0 where an anomaly is zero everywhere. The climatology is a field with the points of y.
template <class Memory>
class AnomalyCorrelation : impl::WeightedSums<Memory> {
 public:
  /// As MeanSquare's.
  template <class Field>
  AnomalyCorrelation(const Field& like, const std::vector<double>& row_weights)
      : impl::WeightedSums<Memory>("AnomalyCorrelation", like, row_weights, 3) {}

  /// Of all channels together, the same on every rank. Collective; fences `space`.
  template <class Space, class Y, class Target, class Climatology>
  double operator()(const Space& space, const Y& y, const Target& target,
                    const Climatology& climatology) {
    sum(space, false, y, target, climatology);
    return correlation(0);
  }
  /// The same for each channel.
  template <class Space, class Y, class Target, class Climatology>
  std::vector<double> by_channel(const Space& space, const Y& y, const Target& target,
                                 const Climatology& climatology) {
    sum(space, true, y, target, climatology);
    std::vector<double> all;
    for (index_t c = 0; c < this->channels_; ++c) all.push_back(correlation(c));
    return all;
  }

 private:
  double correlation(index_t channel) const {
    const double* s = this->values_.data() + 3 * channel;
    return s[0] / std::sqrt(s[1] * s[2]);
  }
  template <class Space, class Y, class Target, class Climatology>
  void sum(const Space& space, bool by_channel, const Y& y, const Target& target,
           const Climatology& climatology) {
    this->require(y, target);
    this->require(y, climatology);
    using Kernels = impl::ErrorKernels<Space, typename Y::non_const_value_type>;
    this->bring(
        space,
        [&](const auto& a, const auto& b, const auto& c) {
          Kernels::correlation_sums(space, this->sums_.data(), impl::owned_input(a),
                                    impl::owned_input(b), impl::owned_input(c),
                                    this->weights_.data(), Y::rank - 2, this->parts_.data());
        },
        y, target, climatology);
    this->collect(space, by_channel);
  }
};

/// In the memory of the field that it is made for.
template <class Field>
AnomalyCorrelation(const Field&, const std::vector<double>&)
    -> AnomalyCorrelation<typename Field::memory_space>;

}  // namespace shard

#endif
