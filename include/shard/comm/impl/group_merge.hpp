// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COMM_IMPL_GROUP_MERGE_HPP
#define SHARD_COMM_IMPL_GROUP_MERGE_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include "shard/base/impl/host_space.hpp"
#include "shard/comm/impl/device_gather.hpp"
#include "shard/comm/impl/rank_group.hpp"

namespace shard::impl {

/// Merges numbers of the ranks of a group: on the device where NCCL or RCCL gathers them, else on
/// the host.
template <class Memory>
class GroupMerge {
 public:
  /// Of up to `most` numbers of each rank. Collective over the mesh.
  GroupMerge(std::shared_ptr<MeshState> mesh, std::shared_ptr<RankGroup> group, index_t most)
      : mesh_(std::move(mesh)),
        group_(std::move(group)),
        gather_(DeviceGather<Memory>::of(*mesh_, *group_, most)) {
    if (gather_) return;
    const auto size = static_cast<std::size_t>(most);
    mine_           = View("shard::numbers for the ranks", size);
    if constexpr (std::is_same_v<Memory, Kokkos::HostSpace>)
      mine_host_ = mine_;
    else
      mine_host_ = HostView("shard::numbers for the ranks", size);
    all_ = HostView("shard::numbers of all ranks", size * static_cast<std::size_t>(ranks()));
  }

  int ranks() const { return group_->size(); }
  /// This rank's numbers, before `run`; scratch memory after it.
  double* mine() const { return gather_ ? gather_->mine() : mine_.data(); }

  /// merge(space, results, gathered) computes `count` results from `count` numbers of each rank,
  /// which are stored rank by rank. Collective over the group. Fences `space`, unless NCCL or RCCL
  /// gathers.
  template <class Space, class Merge>
  void run(const Space& space, double* results, index_t count, const Merge& merge) const {
    if (gather_) {
      gather_->run(space, count);
      merge(space, results, gather_->all());
      return;
    }
    Kokkos::deep_copy(space, mine_host_, mine_);
    space.fence("shard: numbers for the ranks of a group");
    group_->gather(mine_host_.data(), static_cast<int>(count), all_.data());
    if constexpr (is_host_space_v<Space>) {
      merge(space, results, all_.data());
    } else {
      const Kokkos::DefaultHostExecutionSpace host;
      merge(host, mine_host_.data(), all_.data());
      host.fence("shard: numbers merged");
      using Unmanaged = Kokkos::MemoryTraits<Kokkos::Unmanaged>;
      const auto size = static_cast<std::size_t>(count);
      Kokkos::deep_copy(
          space, Kokkos::View<double*, Memory, Unmanaged>(results, size),
          Kokkos::View<const double*, StagingMemory<Memory>, Unmanaged>(mine_host_.data(), size));
    }
  }

 private:
  using View     = Kokkos::View<double*, Memory>;
  using HostView = Kokkos::View<double*, StagingMemory<Memory>>;
  std::shared_ptr<MeshState> mesh_;  // whose communicator the group may use
  std::shared_ptr<RankGroup> group_;
  std::shared_ptr<DeviceGather<Memory>> gather_;
  View mine_;
  HostView mine_host_, all_;
};

}  // namespace shard::impl

#endif
