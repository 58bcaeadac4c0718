// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "device_carrier.hpp"

#include <string>

#include "shard/base/error.hpp"
#include "shard/base/impl/log.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard::impl {

Carrier DeviceCarriers::choose(MeshState& mesh, DeviceKind kind, const Tuning& tuning) {
  if (mesh.size() == 1) return {};  // no messages
  if (!mesh.device_resource())
    mesh.set_device_resource(std::shared_ptr<MeshResource>(new DeviceCarriers(mesh.comm())));
  auto& known = static_cast<DeviceCarriers&>(*mesh.device_resource());
  if (tuning.transport != TransportKind::mpi && kind != DeviceKind::other) {
    known.make_group(tuning.transport == TransportKind::nccl);
    if (known.group_) return {known.group_, false};
  }
  if (tuning.mpi_takes_device_memory)
    return {nullptr,
            !decide_device_messages(mesh.comm(), kind, tuning.mpi_takes_device_memory).direct};
  if (!known.direct_) known.direct_ = decide_device_messages(mesh.comm(), kind).direct;
  return {nullptr, !*known.direct_};
}

/// Tries once, and without being asked only where it was built in: the same on all ranks.
void DeviceCarriers::make_group(bool asked) {
  if (tried_) return;
  try {
    const std::string version = nccl_version();
    if (version.empty() && !asked) return;
    tried_ = true;
    group_ = std::make_shared<NcclGroup>(comm_);
    log_once(comm_, "messages of device memory go by " + version);
  } catch (const NcclError& error) {
    tried_ = true;
    log_once(comm_, std::string("messages of device memory go by MPI: ") + error.what());
  }
}

void DeviceCarriers::release() {
  if (!tried_) return;
  int rank = 0;
  check_mpi(MPI_Comm_rank(comm_, &rank), "MPI_Comm_rank");
  const Watched watched({.what = "other ranks to release their mesh", .rank = rank});
  int used = group_.use_count() > 1 ? 1 : 0;
  await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, &used, 1, MPI_INT, MPI_MAX, comm_);
  if (used != 0) return;
  if (group_) tried_ = false;  // the next plan makes another
  group_.reset();
}

}  // namespace shard::impl
