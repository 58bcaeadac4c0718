// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COMM_IMPL_DEVICE_GATHER_HPP
#define SHARD_COMM_IMPL_DEVICE_GATHER_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/comm/impl/device_space.hpp"
#include "shard/comm/impl/rank_group.hpp"
#include "shard/comm/nccl_transport.hpp"

namespace shard::impl {

/// Gathers a few numbers of the ranks of a group in device memory, by NCCL or RCCL: ordered on a
/// stream, without the host.
template <class Memory>
class DeviceGather {
 public:
  /// Of up to `most` numbers. Null for a group of one rank, for memory of a host, and without NCCL
  /// and RCCL. Collective over the mesh.
  static std::shared_ptr<DeviceGather> of(MeshState& mesh, const RankGroup& group, index_t most) {
    if constexpr (!std::is_same_v<Memory, Kokkos::HostSpace> &&
                  device_kind_of<Memory> != DeviceKind::other) {
      if (group.size() == 1) return nullptr;
      if (auto nccl = nccl_group_of(mesh))
        return std::make_shared<DeviceGather>(std::move(nccl), group.mesh_ranks(mesh), most);
    }
    return nullptr;
  }
  DeviceGather(std::shared_ptr<NcclGroup> nccl, std::vector<int> ranks, index_t most)
      : nccl_(std::move(nccl)),
        ranks_(std::move(ranks)),
        mine_("shard::gathered from this rank", static_cast<std::size_t>(most)),
        all_("shard::gathered", static_cast<std::size_t>(most) * ranks_.size()) {}

  int ranks() const { return static_cast<int>(ranks_.size()); }
  /// This rank's numbers, before `run`.
  double* mine() const { return mine_.data(); }
  /// The ranks' numbers, rank by rank, in the order of the group, after `run`.
  const double* all() const { return all_.data(); }

  /// Gathers `count` numbers of each rank. Collective over the group; asynchronous on `space`.
  template <class Space>
  void run(const Space& space, index_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(double);
    sends_.clear();
    receives_.clear();
    auto* to = reinterpret_cast<std::byte*>(all_.data());
    for (const int rank : ranks_) {  // this one too
      sends_.push_back({rank, reinterpret_cast<std::byte*>(mine_.data()), bytes});
      receives_.push_back({rank, to, bytes});
      to += bytes;
    }
    nccl_->run(sends_, receives_, stream_of(space));
  }

 private:
  std::shared_ptr<NcclGroup> nccl_;
  std::vector<int> ranks_;
  Kokkos::View<double*, Memory> mine_, all_;
  std::vector<PlacedBytes> sends_, receives_;
};

}  // namespace shard::impl

#endif
