// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_TRAIN_GRADIENT_SUM_HPP
#define SHARD_TRAIN_GRADIENT_SUM_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <memory>

#include "shard/base/error.hpp"
#include "shard/base/impl/same_options.hpp"
#include "shard/collectives/impl/collectives_call.hpp"
#include "shard/comm/impl/rank_group.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

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
      impl::Collectives<Space>::all_reduce(
          space,
          impl::collective_call("GradientSum", space, gradients, gradients, mesh_.get(), axis));
  }

 private:
  std::shared_ptr<impl::MeshState> mesh_;
  std::shared_ptr<impl::RankGroup> group_;
  index_t most_;
};

}  // namespace shard

#endif
