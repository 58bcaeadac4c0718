// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_DEVICE_CARRIER_HPP
#define SHARD_SRC_EXCHANGE_DEVICE_CARRIER_HPP

#include <memory>
#include <optional>
#include <string>

#include "shard/comm/impl/device_messages.hpp"
#include "shard/comm/nccl_transport.hpp"
#include "shard/exchange/tuning.hpp"
#include "shard/mesh/impl/mesh_state.hpp"

namespace shard::impl {

/// What carries a plan's messages beyond shared memory. The same on all ranks.
struct Carrier {
  std::shared_ptr<NcclGroup> group;  ///< null: MPI
  bool staged = false;  ///< fields lie in device memory, and messages in pinned host memory
};

/// Puts SHARD_TRANSPORT in the place of `automatic`; `device`: for fields in device memory. Returns
/// what is wrong with it, or nothing: to be thrown when the ranks have agreed, for it may be wrong
/// on one rank only.
std::string take_from_environment(TransportKind& transport, bool device);

/// What a mesh knows of messages in device memory: found out once for all its ranks, when a plan
/// first needs to know it.
class DeviceCarriers : public MeshResource {
 public:
  /// Collective. The rule stands at Tuning::transport.
  static Carrier choose(MeshState& mesh, DeviceKind kind, const Tuning& tuning);

  /// Ends NCCL's communicator if no plan of any rank uses it.
  void release() override;

 private:
  explicit DeviceCarriers(MPI_Comm comm) : comm_(comm) {}
  void make_group(bool asked);

  MPI_Comm comm_;  // the mesh's
  std::shared_ptr<NcclGroup> group_;
  bool tried_ = false;          // to make one
  std::optional<bool> direct_;  // where no plan has a say
};

}  // namespace shard::impl

#endif
