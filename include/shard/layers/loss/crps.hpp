// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_LOSS_CRPS_HPP
#define SHARD_LAYERS_LOSS_CRPS_HPP

#include <array>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "shard/base/impl/same_options.hpp"
#include "shard/layers/impl/ensemble_kernels.hpp"
#include "shard/layers/impl/error_sums.hpp"
#include "shard/redistribute/redistribute.hpp"

namespace shard {

namespace impl {

/// The type of a field of members, or of the target, with channels sharded over `Axis` in place of
/// the batch, without halos.
template <class Field, class Axis>
struct ChannelsOver;
template <class T, class Layout, class... Options, class Axis>
struct ChannelsOver<ShardedView<T, Layout, Options...>, Axis> {
  template <class Option>
  struct Without {
    using type = Option;
  };
  template <class... O>
  struct Without<ShardDim<0, Axis, O...>> {
    using type = ShardDim<1, Axis>;
  };
  template <class Field, bool IsCut>
  struct With {
    using type = Field;
  };
  template <class U, class L, class... O>
  struct With<ShardedView<U, L, O...>, false> {
    using type = ShardedView<U, L, ShardDim<1, Axis>, O...>;
  };
  using moved =
      ShardedView<typename ShardedView<T, Layout, Options...>::view_type::non_const_data_type,
                  Layout, typename Without<Options>::type...>;
  using type = OwnedOnlyOf<typename With<moved, is_cut_v<moved, 1>>::type>;
};

}  // namespace impl

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
class CRPS : protected impl::WeightedSums<typename Y::memory_space> {
  static_assert(impl::is_cut_v<Y, 0> || !impl::is_cut_v<Target, 0>,
                "the batch of the target is sharded as that of the members, or not at all");
  static constexpr bool moves = impl::is_cut_v<Y, 0> && !impl::is_cut_v<Target, 0>;
  static_assert(!moves || !(impl::is_cut_v<Y, 1> || impl::is_cut_v<Target, 1>),
                "channels can't be sharded where members are sharded over a mesh axis");
  template <class Field>
  using Work =
      typename std::conditional_t<moves, impl::ChannelsOver<Field, typename Y::template axis<0>>,
                                  std::type_identity<Field>>::type;
  using Sums = impl::WeightedSums<typename Y::memory_space>;
  using T    = typename Y::non_const_value_type;

 public:
  /// Collective over the mesh. `row_weights` has one weight for each global row (none: all weights
  /// are 1). Throws ArgumentError on every rank for other numbers of them, extents that don't fit,
  /// an alpha outside [0, 1], one member and alpha > 0, and members of a sample on several ranks;
  /// AgreementError if ranks have different options.
  CRPS(const Y& y, const Target& target, const std::vector<double>& row_weights, double alpha = 1.0)
      : CRPS(y, target, make<Target>(target), row_weights, alpha) {}

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
    const auto &x = together(space, y, x_), &t = together(space, target, t_),
               &tx = together(space, ty, dx_);
    Kernels<Space>::tangent_sums(space, score_, this->sums_.data(), impl::owned_input(tx),
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
    const auto &x = together(space, y, x_), &t = together(space, target, t_);
    const auto derive = [&](const auto& dx) {
      Kernels<Space>::derivative(space, score_, impl::owned_block(impl::local(dx)),
                                 impl::owned_input(x), impl::owned_input(t), this->weights_.data(),
                                 Y::rank - 2, scale / this->total_);
    };
    require_like(dy);
    if constexpr (moves) {
      derive(dx_);
      redistribute(space, dy, dx_);
    } else {
      derive(dy);
    }
  }

 private:
  template <class Space>
  using Kernels = impl::EnsembleKernels<Space, T>;

  CRPS(const Y& y, const Target& target, const Work<Target>& work,
       const std::vector<double>& row_weights, double alpha)
      : Sums(name, work, row_weights, 1, alpha),
        partitions_(y.partitions()),
        target_partitions_(target.partitions()) {
    static_assert(Y::rank == Target::rank, "a loss's fields have the same rank");
    const index_t samples = target.global_extent(0);
    if (samples < 1 || y.global_extent(0) % samples != 0)
      impl::throw_argument(name, {impl::text(y.global_extent(0)), " members of ",
                                  impl::text(samples), " samples; each has the same number"});
    for (int d = 1; d < Y::rank; ++d)
      impl::require_same_partition(name, target.label(), d, target.partition(d), y.partition(d));
    const index_t members = y.global_extent(0) / samples;
    score_                = impl::EnsembleScore::crps(members, alpha);
    if constexpr (moves) {
      t_  = work;
      x_  = make<Y>(y);
      dx_ = make<Y>(y);
    } else {
      impl::require_whole_groups(name, y.label(), y.partition(0), members);
      impl::require_same_partition(name, target.label(), 0, target.partition(0),
                                   impl::regrouped(y.partition(0), members, 1));
    }
  }

  /// Memory for a field with all of its members; nothing where they don't move.
  template <class Field>
  static Work<Field> make(const Field& field) {
    if constexpr (moves)
      return impl::placed_anew<Work<Field>>(field.any_geometry(), {});
    else
      return field;
  }
  /// A field with all of its members.
  template <class Space, class Field>
  const Work<Field>& together(const Space& space, const Field& field, const Work<Field>& to) const {
    require_like(field);
    if constexpr (moves) {
      redistribute(space, to, field);
      return to;
    } else {
      return field;
    }
  }
  template <class Field>
  void require_like(const Field& field) const {
    const auto& partitions =
        field.global_extent(0) == partitions_[0].size() ? partitions_ : target_partitions_;
    for (int d = 0; d < Y::rank; ++d)
      impl::require_same_partition(name, field.label(), d, field.partition(d),
                                   partitions[static_cast<std::size_t>(d)]);
  }
  template <class Space>
  void sum(const Space& space, bool by_channel, const Y& y, const Target& target) {
    const auto &x = together(space, y, x_), &t = together(space, target, t_);
    Kernels<Space>::sums(space, score_, this->sums_.data(), impl::owned_input(x),
                         impl::owned_input(t), this->weights_.data(), Y::rank - 2,
                         this->parts_.data());
    this->collect(space, by_channel);
  }

  static constexpr const char* name = "CRPS";
  std::array<Partition, static_cast<std::size_t>(Y::rank)> partitions_, target_partitions_;
  impl::EnsembleScore score_;
  Work<Y> x_, dx_;
  Work<Target> t_;
};

}  // namespace shard

#endif
