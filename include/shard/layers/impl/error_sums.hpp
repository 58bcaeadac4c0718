// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_ERROR_SUMS_HPP
#define SHARD_LAYERS_IMPL_ERROR_SUMS_HPP

#include <Kokkos_Core.hpp>

#include <memory>
#include <string_view>
#include <vector>

#include "shard/base/impl/same_options.hpp"
#include "shard/comm/impl/rank_group.hpp"
#include "shard/layers/impl/error_kernels.hpp"
#include "shard/layers/impl/layer_checks.hpp"
#include "shard/redistribute/impl/common_partition.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard::impl {

/// Sums over all ranks, weighted by rows (the first spatial dimension): in double, first on each
/// rank and then in rank order, so the result is the same on every rank. Fields are [batch,
/// channel, space...]; fields with other partitions than the field that this was made for are
/// redistributed first.
template <class Memory>
class WeightedSums {
  static_assert(Kokkos::is_space<Memory>::value,
                "the argument of MeanSquare, MeanAbsolute and Huber is a memory space: name the "
                "type MeanSquare<typename Field::memory_space>");

 protected:
  /// Collective over the mesh of `like`; computes `kinds` sums at a time. `parameter`: of the
  /// function that is summed.
  template <class Field>
  WeightedSums(std::string_view name, const Field& like, const std::vector<double>& row_weights,
               int kinds, double parameter = 0.0)
      : name_(name), kinds_(kinds), channels_(like.global_extent(1)) {
    static_assert(Field::rank >= 3 && Field::rank <= 5,
                  "the field is [batch, channel, one to three spatial dimensions]");
    const index_t rows = like.global_extent(2);
    require_same_options(like.communicator(), name, {{"parameter", parameter}}, row_weights);
    if (!row_weights.empty())
      require_extent(name, like.label(), "rows, as many as there are weights,", rows,
                     static_cast<index_t>(row_weights.size()));
    group_ = RankGroup::of(like.geometry(), ~0U);
    for (index_t r = 0; r < rows; ++r)
      total_ += row_weights.empty() ? 1.0 : row_weights[static_cast<std::size_t>(r)];
    for (int d = 0; d < Field::rank; ++d)
      if (d != 2) total_ *= static_cast<double>(like.global_extent(d));
    weights_        = Kokkos::View<double*, Memory>("shard::row weights",
                                             static_cast<std::size_t>(like.extent(2)));
    const auto host = Kokkos::create_mirror_view(weights_);
    for (index_t i = 0; i < like.extent(2); ++i)
      host(i) =
          row_weights.empty() ? 1.0 : row_weights[static_cast<std::size_t>(like.begin(2) + i)];
    Kokkos::deep_copy(weights_, host);
    place_.geometry = like.geometry();
    sums_           = Kokkos::View<double*, Memory>(
        "shard::error sums", static_cast<std::size_t>(kinds * like.extent(0) * like.extent(1)));
    sums_host_    = Kokkos::create_mirror_view(sums_);
    index_t cells = 1;
    for (int d = 2; d < Field::rank; ++d) cells *= like.extent(d);
    parts_ = Kokkos::View<double*, Memory>(
        "shard::error parts",
        CellPieces::room<Memory>(like.extent(0) * like.extent(1), cells, kinds));
    values_   = std::vector<double>(static_cast<std::size_t>(kinds * channels_));
    gathered_ = std::vector<double>(values_.size() * static_cast<std::size_t>(group_->size()));
  }

  /// Throws ArgumentError, on every rank, unless both fields have the global extents of the field
  /// that this was made for.
  template <class Y, class Other>
  void require(const Y& y, const Other& other) const {
    require_same_cut(name_, place_.geometry, y.geometry());
    require_same_world(name_, y, other);
    require_extent(name_, y.label(), "rows", y.global_extent(2), place_.partition(2).size());
    require_extent(name_, y.label(), "channels", y.global_extent(1), channels_);
    require_extent(name_, other.label(), "channels", other.global_extent(1), channels_);
  }

  /// Calls use(fields...) with the fields, redistributed if needed.
  template <int Slot = 0, class Space, class Use, class X, class... More>
  void bring(const Space& space, const Use& use, const X& x, const More&... more) const {
    bring_to(space, place_, x, -1, Slot, [&](const auto& here) {
      if constexpr (sizeof...(More) == 0)
        use(here);
      else
        bring<Slot + 1>(
            space, [&](const auto&... others) { use(here, others...); }, more...);
    });
  }

  /// Sets `values_` to the sums of each kind, over all channels or for each. Collective; fences
  /// `space`.
  template <class Space>
  void collect(const Space& space, bool by_channel) {
    Kokkos::deep_copy(space, sums_host_, sums_);
    space.fence("shard::WeightedSums: sums for the collective");
    const index_t count = by_channel ? channels_ : 1;
    for (index_t i = 0; i < kinds_ * count; ++i) values_[static_cast<std::size_t>(i)] = 0.0;
    const index_t begin = place_.geometry.begin(1), channels = place_.geometry.owned(1);
    for (std::size_t i = 0; i < sums_host_.extent(0); ++i) {
      const auto item    = static_cast<index_t>(i) / kinds_;
      const index_t to   = by_channel ? begin + item % channels : 0;
      const index_t kind = static_cast<index_t>(i) % kinds_;
      values_[static_cast<std::size_t>(to * kinds_ + kind)] += sums_host_(i);
    }
    group_->sum_few(values_.data(), static_cast<int>(kinds_ * count), gathered_.data());
  }

  /// The partitions of the field that this was made for.
  struct Place {
    Geometry geometry;
    const Partition& partition(int d) const { return geometry.dims[Geometry::at(d)].partition; }
  };

  std::string_view name_;
  Place place_;
  std::shared_ptr<RankGroup> group_;
  int kinds_        = 1;
  index_t channels_ = 1;
  double total_     = 0.0;  ///< sum of the weights of all points
  Kokkos::View<double*, Memory> weights_, sums_, parts_;
  typename Kokkos::View<double*, Memory>::host_mirror_type sums_host_;
  std::vector<double> values_, gathered_;
};

/// The mean of a function of the difference of two fields.
template <class Memory>
class MeanError : protected WeightedSums<Memory> {
 public:
  /// J. Collective; fences `space`. `y` and `target` are redistributed first if their partitions
  /// differ from those of the field that this was made for.
  template <class Space, class Y, class Target>
  double operator()(const Space& space, const Y& y, const Target& target) {
    sum(space, false, y, target);
    return this->values_[0] / this->total_;
  }

  /// The same for each channel.
  template <class Space, class Y, class Target>
  std::vector<double> by_channel(const Space& space, const Y& y, const Target& target) {
    sum(space, true, y, target);
    std::vector<double> means = this->values_;
    for (double& m : means) m *= static_cast<double>(this->channels_) / this->total_;
    return means;
  }

  /// The tangent of J for the tangent ty of y: the sum of ty dJ/dy over all ranks. Collective;
  /// fences `space`.
  template <class Space, class TY, class Y, class Target>
  double pushforward(const Space& space, const TY& ty, const Y& y, const Target& target) {
    this->require(y, target);
    this->require(y, ty);
    using Kernels           = ErrorKernels<Space, typename Y::non_const_value_type>;
    const auto sum_tangents = [&](const auto& from, const auto& tangent, const auto& wanted) {
      Kernels::tangent_sums(space, term_, this->sums_.data(), owned_input(tangent),
                            owned_input(from), owned_input(wanted), this->weights_.data(),
                            Y::rank - 2, this->parts_.data());
    };
    this->bring(
        space,
        [&](const auto& from, const auto& wanted, const auto& tangent) {
          sum_tangents(from, tangent, wanted);
        },
        y, target, ty);
    this->collect(space, false);
    return this->values_[0] / this->total_;
  }

  /// Sets dy = dJ/dy, times `scale`. Local if the fields have the partitions of the field that this
  /// was made for.
  template <class Space, class DY, class Y, class Target>
  void pullback(const Space& space, const DY& dy, const Y& y, const Target& target,
                double scale = 1.0) const {
    this->require(y, target);
    this->require(y, dy);
    using Kernels = ErrorKernels<Space, typename DY::non_const_value_type>;
    this->bring(
        space,
        [&](const auto& from, const auto& wanted) {
          bring_back(space, this->place_, dy, -1, 2, [&](const auto& gradient) {
            Kernels::derivative(space, term_, owned_block(local(gradient)), owned_input(from),
                                owned_input(wanted), this->weights_.data(), DY::rank - 2,
                                scale / this->total_);
          });
        },
        y, target);
  }

 protected:
  template <class Field>
  MeanError(std::string_view name, const Field& like, const std::vector<double>& row_weights,
            const ErrorTerm& term)
      : WeightedSums<Memory>(name, like, row_weights, 1, term.delta), term_(term) {}

 private:
  template <class Space, class Y, class Target>
  void sum(const Space& space, bool by_channel, const Y& y, const Target& target) {
    this->require(y, target);
    using Kernels = ErrorKernels<Space, typename Y::non_const_value_type>;
    this->bring(
        space,
        [&](const auto& from, const auto& wanted) {
          Kernels::sums(space, term_, this->sums_.data(), owned_input(from), owned_input(wanted),
                        this->weights_.data(), Y::rank - 2, this->parts_.data());
        },
        y, target);
    this->collect(space, by_channel);
  }

  ErrorTerm term_;
};

}  // namespace shard::impl

#endif
