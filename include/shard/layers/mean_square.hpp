// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_MEAN_SQUARE_HPP
#define SHARD_LAYERS_MEAN_SQUARE_HPP

#include <Kokkos_Core.hpp>

#include <memory>
#include <vector>

#include "shard/comm/rank_group.hpp"
#include "shard/layers/kernels.hpp"
#include "shard/layers/layer_checks.hpp"
#include "shard/redistribute/meeting.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

/// Mean square difference of two fields over the whole world, weighted by rows (the first dimension
/// in space: latitudes, say, by the areas of their cells):
///
///   J = sum over cells of w[row] (y - target)^2 / sum over cells of w[row]
///
/// Summed in double, first on each rank and then in rank order: the same on every rank. Fields are
/// [batch, channel, space...], cut as they like.
template <class Memory>
class MeanSquare {
 public:
  /// Collective over the mesh of `like`. `row_weights` has one weight for each row of the world
  /// (none: all weights are 1); throws ArgumentError on every rank if it has another number of
  /// them.
  template <class Field>
  MeanSquare(const Field& like, const std::vector<double>& row_weights) {
    static_assert(Field::rank >= 3 && Field::rank <= 5,
                  "the field is [batch, channel, one to three dimensions in space]");
    const index_t rows = like.global_extent(2);
    if (!row_weights.empty())
      impl::require_extent("MeanSquare", like.label(), "rows, as many as there are weights,", rows,
                           static_cast<index_t>(row_weights.size()));
    group_ = impl::RankGroup::of(like.geometry(), ~0U);
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
        "shard::square errors", static_cast<std::size_t>(like.extent(0) * like.extent(1)));
    sums_host_ = Kokkos::create_mirror_view(sums_);
    gathered_  = std::vector<double>(static_cast<std::size_t>(group_->size()));
  }

  /// J. Collective; waits for `space`. Cells of `y` or `target` that other ranks own than in `like`
  /// are moved first.
  template <class Space, class Y, class Target>
  double operator()(const Space& space, const Y& y, const Target& target) {
    require(y, target);
    impl::bring_to(space, place_, y, -1, 0, [&](const auto& there) {
      impl::bring_to(space, place_, target, -1, 1, [&](const auto& wanted) {
        impl::PointwiseKernels<Space, typename Y::non_const_value_type>::square_error(
            space, sums_.data(), impl::owned_input(there), impl::owned_input(wanted),
            weights_.data(), Y::rank - 2);
      });
    });
    Kokkos::deep_copy(space, sums_host_, sums_);
    space.fence("shard::MeanSquare: sums for the collective");
    double sum = 0.0;
    for (std::size_t i = 0; i < sums_host_.extent(0); ++i) sum += sums_host_(i);
    group_->sum_few(&sum, 1, gathered_.data());
    return sum / total_;
  }

  /// Sets dy = dJ/dy, times `scale`. Local where the fields own the same cells as `like`.
  template <class Space, class DY, class Y, class Target>
  void pullback(const Space& space, const DY& dy, const Y& y, const Target& target,
                double scale = 1.0) const {
    require(y, target);
    require(y, dy);
    impl::bring_to(space, place_, y, -1, 0, [&](const auto& there) {
      impl::bring_to(space, place_, target, -1, 1, [&](const auto& wanted) {
        impl::bring_back(space, place_, dy, -1, 2, [&](const auto& gradient) {
          impl::PointwiseKernels<Space, typename DY::non_const_value_type>::square_error_pullback(
              space, impl::owned_block(impl::local(gradient)), impl::owned_input(there),
              impl::owned_input(wanted), weights_.data(), DY::rank - 2, 2.0 * scale / total_);
        });
      });
    });
  }

 private:
  /// Where the field that this was made for has its cells.
  struct Place {
    impl::Geometry geometry;
    const Partition& partition(int d) const {
      return geometry.dims[impl::Geometry::at(d)].partition;
    }
  };

  template <class Y, class Other>
  void require(const Y& y, const Other& other) const {
    impl::require_same_cut("MeanSquare", place_.geometry, y.geometry());
    impl::require_same_world("MeanSquare", y, other);
    impl::require_extent("MeanSquare", y.label(), "rows", y.global_extent(2),
                         place_.partition(2).size());
    impl::require_extent("MeanSquare", other.label(), "channels", other.global_extent(1),
                         y.global_extent(1));
  }

  Place place_;
  std::shared_ptr<impl::RankGroup> group_;
  double total_ = 0.0;
  Kokkos::View<double*, Memory> weights_, sums_;
  typename Kokkos::View<double*, Memory>::host_mirror_type sums_host_;
  std::vector<double> gathered_;
};

/// In the memory of the field that it is made for.
template <class Field>
MeanSquare(const Field&, const std::vector<double>&) -> MeanSquare<typename Field::memory_space>;

}  // namespace shard

#endif
