// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_TRANSFER_HPP
#define SHARD_SRC_EXCHANGE_TRANSFER_HPP

#include <Kokkos_Core.hpp>
#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "box_route.hpp"
#include "for_each_space.hpp"
#include "job_builder.hpp"
#include "shard/base/impl/host_space.hpp"
#include "shard/comm/impl/device_space.hpp"
#include "shard/comm/nccl_transport.hpp"
#include "shard/mesh/impl/mesh_state.hpp"

/// \file
/// Plans of redistributions, collectives, zigzag sequences and annotated tensors. Halo exchanges
/// use Plan (plan.hpp).

namespace shard::impl {

/// The memory of a transfer's plan.
template <class Space>
using TransferMemory =
    std::conditional_t<is_host_space_v<Space>, Kokkos::HostSpace, typename Space::memory_space>;

/// Where a field of a transfer is in one call. Strides in values.
struct TransferField {
  std::byte *read = nullptr, *written = nullptr;
  Strides read_stride{}, written_stride{};
};
inline constexpr int max_transfer_fields = 2;

/// The largest message in bytes: SHARD_MESSAGE_LIMIT, else 2^30. MPI's counts are ints, so longer
/// messages are sent in parts. Throws ArgumentError if the variable isn't a number from 1 to 2^31 -
/// 1.
index_t message_limit();

/// Bytes of the buffer that a step needs if nothing is in place, and of its messages.
struct TransferSize {
  index_t buffer = 0, sent = 0, received = 0;
  int messages = 0;  ///< sent
};
TransferSize size_of(const TransferStep& step);

template <class Memory>
class TransferPlan;
template <class Memory>
struct TransferTables;

/// The ranks of a mesh, or those along one of its axes, and the buffer that their transfers share.
/// It is as large as the largest transfer has needed. A transfer is complete when its call returns.
template <class Memory>
class TransferGroup : public CachedPlan {
 public:
  /// Kept by the mesh. Collective over the group the first time. `axis`: -1 for the whole mesh.
  static std::shared_ptr<TransferGroup> of(MeshState& mesh, int axis = -1);
  /// A group of this rank alone.
  TransferGroup() = default;
  TransferGroup(MPI_Comm comm, int tag, int rank, bool staged)
      : comm_(comm), tag_(tag), rank_(rank), staged_(staged) {}
  /// By NCCL or RCCL; `peers`: the ranks of the group in the mesh.
  TransferGroup(MPI_Comm comm, int rank, std::shared_ptr<NcclGroup> nccl, std::vector<int> peers)
      : comm_(comm), rank_(rank), nccl_(std::move(nccl)), peers_(std::move(peers)) {}
  // Written out, so that it is the host's: hipcc makes defaulted destructors for the device too.
  ~TransferGroup() override {}  // NOLINT(modernize-use-equals-default)
  std::size_t bytes() const override;

  MPI_Comm comm() const { return comm_; }
  bool staged() const { return staged_; }
  /// Makes the buffer at least that large. Local.
  void reserve(std::size_t bytes, std::size_t requests);

  /// Cached plans of earlier calls, at most as many as the mesh caches. All ranks of the group look
  /// them up in the same order.
  std::shared_ptr<TransferPlan<Memory>> find(const PlanKey& key);
  void keep(const MeshState& mesh, const PlanKey& key, std::shared_ptr<TransferPlan<Memory>> plan);

 private:
  friend class TransferPlan<Memory>;

  MPI_Comm comm_ = MPI_COMM_SELF;
  int tag_ = 0, rank_ = 0;
  bool staged_ = false;  // fields are in device memory, and messages in pinned host memory
  Kokkos::View<std::byte*, Memory> bytes_;
  Kokkos::View<std::byte*, StagingMemory<Memory>> staging_;
  std::vector<MPI_Request> requests_;
  std::shared_ptr<NcclGroup> nccl_;  // null: messages go by MPI
  std::vector<int> peers_;
  std::vector<PlacedBytes> outgoing_, incoming_;
  ToolProbe tool_;
  std::vector<std::pair<PlanKey, std::shared_ptr<TransferPlan<Memory>>>> plans_;
};

/// Runs steps one after the other from beginning to end: packs, sends, receives, unpacks or
/// combines. One message to each peer in a step (several where SHARD_MESSAGE_LIMIT is less), which
/// is sent and received in place where it is contiguous. Unlike `Plan` it has nothing in progress
/// between calls. So plans share a buffer of bounded size, and each call may pass other Views.
template <class Memory>
class TransferPlan : public CachedPlan {
 public:
  /// Local. All ranks that run it give the same limit.
  TransferPlan(std::vector<TransferStep> steps, index_t limit);
  ~TransferPlan() override;
  std::size_t bytes() const override;

  /// Makes the tables for Views of these strides, unless they exist, so that `run` allocates
  /// nothing. Local; throws where there is no memory.
  void prepare(TransferGroup<Memory>& group, const TransferField* fields) {
    tables_for(group, fields);
  }
  /// Collective over the group, always the same one. What is read and written may be the same
  /// memory. Ends with a fence.
  template <class Space>
  void run(const Space& space, TransferGroup<Memory>& group, const TransferField* fields);

 private:
  struct Reach {  // of a field's pieces
    PieceBox read, written;
  };
  /// The tables for Views of these strides, made now unless they exist.
  TransferTables<Memory>& tables_for(TransferGroup<Memory>& group, const TransferField* fields);

  std::vector<TransferStep> steps_;
  index_t limit_;
  int fields_ = 0;
  Reach reach_[max_transfer_fields];
  std::vector<std::unique_ptr<TransferTables<Memory>>> made_;  // the most recently used last
};

}  // namespace shard::impl

#endif
