// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TRAIN_GRADIENT_SUM_HPP
#define SHARD_TRAIN_GRADIENT_SUM_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/base/impl/same_options.hpp"
#include "shard/collectives/impl/collectives_call.hpp"
#include "shard/comm/impl/rank_group.hpp"
#include "shard/model/parameter_part.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

namespace impl {

/// This rank's share of a range of values along an axis (-1: all ranks of the mesh).
struct ValueRange {
  index_t begin = 0, count = 0;
};
ValueRange share_of(const ValueRange& range, const MeshState& mesh, int axis);
/// This rank's part of `count` values that the group's axes divide one after the other.
ParameterPart part_of(index_t count, const MeshState& mesh, const RankGroup& group);

}  // namespace impl

/// The channels whose parameters a rank has, if channels are sharded.
enum class GradientsOf : std::uint8_t {
  all_channels,   ///< every rank has all of them
  owned_channels  ///< those of its own channels, see OwnedChannels
};

/// Sums gradients of parameters over the ranks that share a field, all arrays at once. Each rank
/// sums a part of the values in rank order, and all ranks gather all parts, so the sums are bitwise
/// the same on every rank and from run to run. Between GPUs by NCCL or RCCL where they are there.
/// Over some but not all of several mesh axes it sums axis by axis, the last one first. The first
/// call allocates.
///
/// Between the two steps an optimiser can update this rank's part of the parameters alone (ZeRO,
/// stage 1: Rajbhandari, Rasley, Ruwase, He 2020). See `step`.
template <class T, class Memory = Kokkos::DefaultExecutionSpace::memory_space>
class GradientSum {
 public:
  using View = Kokkos::View<T*, Kokkos::LayoutRight, Memory>;  ///< gradients

  /// Collective over the mesh of `like`: sums of `count` values over the axes that shard it (batch
  /// too). With owned_channels the axes that shard its dimension 1 are excluded, and ranks along
  /// them may have other counts. Throws AgreementError on every rank if arguments differ.
  template <class Field>
  GradientSum(const Field& like, index_t count, GradientsOf channels = GradientsOf::all_channels)
      : mesh_(like.geometry().mesh),
        group_(impl::RankGroup::of(like.geometry(),
                                   channels == GradientsOf::all_channels ? ~0U : ~2U)),
        most_(count) {
    const bool all = channels == GradientsOf::all_channels;  // else each rank has its own
    impl::require_same_options(like.communicator(), "GradientSum",
                               {{"gradients", all ? count : 0}, {"GradientsOf", channels}});
  }

  /// The sum in place. Collective over the same ranks; fences `space`.
  template <class Space>
  void operator()(const Space& space, const View& gradients) const {
    const auto count = static_cast<index_t>(gradients.extent(0));
    if (count > most_)
      impl::throw_argument("GradientSum", {"it was constructed for fewer than the ",
                                           impl::text(count), " values given"});
    for (const int axis : group_->axes())
      impl::Collectives<Space>::all_reduce(space, call(space, gradients, axis));
  }

  /// The part of the values that this rank sums. An optimiser for `part().count` values has its
  /// state for that part only. Local.
  ParameterPart part() const { return impl::part_of(most_, *mesh_, *group_); }

  /// Sets this rank's part of the gradients to the sum; the rest is unspecified. The sums have the
  /// bits of operator(). Collective over the same ranks; fences `space`. Throws ArgumentError for
  /// another number of values.
  template <class Space>
  void sum_part(const Space& space, const View& gradients) const {
    require_all("sum_part", gradients);
    impl::ValueRange range{0, most_};
    for (const int axis : group_->axes()) {
      impl::Collectives<Space>::reduce_shares(space, call(space, within(gradients, range), axis));
      range = impl::share_of(range, *mesh_, axis);
    }
  }

  /// Gives every rank all ranks' parts of the parameters. Collective over the same ranks; fences
  /// `space`. Throws ArgumentError for another number of values.
  template <class Space>
  void gather(const Space& space, const View& values) const {
    require_all("gather", values);
    const std::vector<int> axes = group_->axes();
    std::vector<impl::ValueRange> ranges{{0, most_}};
    for (const int axis : axes) ranges.push_back(impl::share_of(ranges.back(), *mesh_, axis));
    for (std::size_t a = axes.size(); a-- > 0;)
      impl::Collectives<Space>::gather_shares(space,
                                              call(space, within(values, ranges[a]), axes[a]));
  }

  /// A step of an optimiser that was made for `part().count` values: sum_part, the optimiser on
  /// this rank's part, gather. The parameters get the bits that they have without parts. The
  /// gradients are unspecified afterwards. Collective over the same ranks; fences `space`. Throws
  /// ArgumentError for another number of values.
  template <class Space, class Optimiser>
  void step(const Space& space, Optimiser& optimiser, const View& values,
            const View& gradients) const {
    require_all("step", values);
    const ParameterPart mine = part();
    sum_part(space, gradients);
    optimiser(space, mine.of(values), mine.of(gradients));
    gather(space, values);
  }

 private:
  template <class Space>
  impl::CollectiveCall call(const Space& space, const View& values, int axis) const {
    return impl::collective_call("GradientSum", space, values, values, mesh_.get(), axis);
  }
  static View within(const View& values, const impl::ValueRange& range) {
    return Kokkos::subview(values,
                           std::pair<index_t, index_t>(range.begin, range.begin + range.count));
  }
  void require_all(const char* what, const View& values) const {
    if (static_cast<index_t>(values.extent(0)) != most_)
      impl::throw_argument("GradientSum",
                           {what, " is for all ", impl::text(most_), " values, given ",
                            impl::text(static_cast<index_t>(values.extent(0)))});
  }

  std::shared_ptr<impl::MeshState> mesh_;
  std::shared_ptr<impl::RankGroup> group_;
  index_t most_;
};

}  // namespace shard

#endif
