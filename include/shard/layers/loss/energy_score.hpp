// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_LOSS_ENERGY_SCORE_HPP
#define SHARD_LAYERS_LOSS_ENERGY_SCORE_HPP

#include <Kokkos_Core.hpp>

#include <cmath>
#include <cstddef>
#include <vector>

#include "shard/layers/impl/ensemble_fields.hpp"
#include "shard/reduce/reductions.hpp"

namespace shard {

/// The energy score of an ensemble (Gneiting and Raftery 2007): the CRPS of whole maps. With the
/// distance of two maps, |a - b| = sqrt(mean over channels and points of (a - b)^2), weighted by
/// rows (the first spatial dimension, such as latitudes by their areas), the score of a sample with
/// members x_1 to x_M and target t is
///
///   1/M sum over m of |x_m - t|
///   - (alpha / (M (M - 1)) + (1 - alpha) / M^2) sum over m < n of |x_m - x_n|
///
/// and the value the mean over the samples. alpha as in CRPS. Derivatives of a distance are 0 where
/// it is 0.
///
/// Fields as those of CRPS. `loss(space, y, target)` is the value, the same on every rank;
/// `loss.pullback` sets its gradient, `loss.pushforward` is its tangent. Sums are in double, on
/// each rank and then in rank order. An ensemble of M members takes M (M + 1) / 2 passes over two
/// maps, and two for the gradient. It keeps one field.
template <class Y, class Target>
class EnergyScore : impl::EnsembleFields<Y, Target> {
  using Base   = impl::EnsembleFields<Y, Target>;
  using Memory = typename Y::memory_space;
  using T      = typename Y::non_const_value_type;

 public:
  /// Collective over the mesh. Arguments and exceptions as CRPS's.
  EnergyScore(const Y& y, const Target& target, const std::vector<double>& row_weights,
              double alpha = 1.0)
      : Base("EnergyScore", y, target, row_weights, alpha), samples_(target.global_extent(0)) {
    if constexpr (!Base::moves) this->dx_ = y.like("shard::energy score gradient");
    const index_t here = this->place_.geometry.owned(0), channels = this->place_.geometry.owned(1),
                  members = this->score_.members;
    distances_            = Doubles("shard::energy score distances",
                                    static_cast<std::size_t>(pairs() * here * channels));
    factors_ =
        Doubles("shard::energy score factors", static_cast<std::size_t>(here * members * members));
    distances_host_ = Kokkos::create_mirror_view(distances_);
    factors_host_   = Kokkos::create_mirror_view(factors_);
    squares_.resize(static_cast<std::size_t>(samples_ * pairs()));
    gathered_.resize(squares_.size() * static_cast<std::size_t>(this->group_->size()));
  }

  /// The score. Collective; fences `space`. Fields have the extents and partitions of those that
  /// this was made for.
  template <class Space>
  double operator()(const Space& space, const Y& y, const Target& target) {
    double sum = 0.0;
    for (const double one : by_sample(space, y, target)) sum += one;
    return sum / static_cast<double>(samples_);
  }
  /// The score of each sample.
  template <class Space>
  std::vector<double> by_sample(const Space& space, const Y& y, const Target& target) {
    measure(space, this->together(space, y, this->x_), this->together(space, target, this->t_));
    std::vector<double> scores;
    for (index_t s = 0; s < samples_; ++s) {
      double near = 0.0, spread = 0.0;
      for (index_t m = 0; m < this->score_.members; ++m) near += distance(s, m);
      for (index_t p = this->score_.members; p < pairs(); ++p) spread += distance(s, p);
      scores.push_back(near / static_cast<double>(this->score_.members) -
                       this->score_.pairs * spread);
    }
    return scores;
  }
  /// The tangent of the score for the tangent ty of y. Collective; fences `space`.
  template <class Space>
  double pushforward(const Space& space, const Y& ty, const Y& y, const Target& target) {
    const auto& dx = this->dx_;
    derive(space, dx, this->together(space, y, this->x_), this->together(space, target, this->t_),
           1.0);
    return dot(space, dx, this->together(space, ty, this->x_));
  }
  /// Sets dy = the derivative of the score, times `scale`. Collective; fences `space`.
  template <class Space, class DY>
  void pullback(const Space& space, const DY& dy, const Y& y, const Target& target,
                double scale = 1.0) {
    const auto &x = this->together(space, y, this->x_),
               &t = this->together(space, target, this->t_);
    this->apart(space, dy, [&](const auto& dx) { derive(space, dx, x, t, scale); });
  }

 private:
  using Doubles = Kokkos::View<double*, Memory>;

  /// Of members with the target, then of members with one another.
  index_t pairs() const { return this->score_.members * (this->score_.members + 1) / 2; }
  /// The place of the pair m < n of members.
  index_t pair(index_t m, index_t n) const { return this->score_.members + n * (n - 1) / 2 + m; }
  double distance(index_t sample, index_t pair) const {
    const double weights = this->total_ / static_cast<double>(samples_);
    return std::sqrt(squares_[static_cast<std::size_t>(sample * pairs() + pair)] / weights);
  }
  /// A member of each sample.
  impl::Block<const T> member(impl::Block<const T> x, index_t m) const {
    x.origin += m * x.stride[0];
    x.stride[0] *= this->score_.members;
    x.batch /= this->score_.members;
    return x;
  }

  /// Sets `squares_` to the weighted sums of all samples and pairs.
  template <class Space, class X, class Goal>
  void measure(const Space& space, const X& x, const Goal& t) {
    const auto of = impl::owned_input(x), target = impl::owned_input(t);
    const index_t sums = target.batch * target.channels;
    const auto pass    = [&](index_t p, const auto& a, const auto& b) {
      impl::ErrorKernels<Space, T>::sums(space, {impl::ErrorFunction::square, 0.0},
                                            distances_.data() + p * sums, a, b, this->weights_.data(),
                                            Y::rank - 2, this->parts_.data());
    };
    for (index_t m = 0; m < this->score_.members; ++m) pass(m, member(of, m), target);
    for (index_t n = 1; n < this->score_.members; ++n)
      for (index_t m = 0; m < n; ++m) pass(pair(m, n), member(of, m), member(of, n));
    Kokkos::deep_copy(space, distances_host_, distances_);
    space.fence("shard::EnergyScore: sums for the collective");
    squares_.assign(squares_.size(), 0.0);
    for (index_t p = 0; p < pairs(); ++p)
      for (index_t i = 0; i < sums; ++i) {
        const index_t sample = this->place_.geometry.begin(0) + i / target.channels;
        squares_[static_cast<std::size_t>(sample * pairs() + p)] += distances_host_(p * sums + i);
      }
    this->group_->sum_few(squares_.data(), static_cast<int>(squares_.size()), gathered_.data());
  }
  template <class Space, class DX, class X, class Goal>
  void derive(const Space& space, const DX& dx, const X& x, const Goal& t, double scale) {
    measure(space, x, t);
    const index_t members = this->score_.members, here = this->place_.geometry.owned(0);
    const auto over = [&](double factor, index_t s, index_t p) {
      const double d = distance(this->place_.geometry.begin(0) + s, p);
      return d == 0.0 ? 0.0 : factor / d;
    };
    for (index_t s = 0; s < here; ++s)
      for (index_t m = 0; m < members; ++m)
        for (index_t n = 0; n < members; ++n)
          factors_host_((s * members + m) * members + n) =
              m == n ? over(1.0 / static_cast<double>(members), s, m)
                     : over(-this->score_.pairs, s, m < n ? pair(m, n) : pair(n, m));
    Kokkos::deep_copy(space, factors_, factors_host_);
    impl::EnsembleKernels<Space, T>::distance_derivative(
        space, members, impl::owned_block(impl::local(dx)), impl::owned_input(x),
        impl::owned_input(t), factors_.data(), this->weights_.data(), Y::rank - 2,
        scale / this->total_);
    space.fence("shard::EnergyScore: factors are used");
  }

  index_t samples_;
  Doubles distances_, factors_;
  typename Doubles::host_mirror_type distances_host_, factors_host_;
  std::vector<double> squares_, gathered_;
};

}  // namespace shard

#endif
