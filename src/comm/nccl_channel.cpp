// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NCCL's channel, whether or not NCCL is built in.
#include <memory>
#include <string>
#include <utility>

#include "shard/base/error.hpp"
#include "shard/base/impl/environment_variable.hpp"
#include "shard/base/impl/log.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/comm/impl/channel.hpp"
#include "shard/comm/nccl_transport.hpp"

namespace shard::impl {

namespace {

/// The NCCL communicator of a mesh.
class MeshNccl : public MeshResource {
 public:
  /// Collective.
  explicit MeshNccl(const MeshState& mesh) : comm_(mesh.comm()) {
    const Watched watched({.what = "other ranks to choose a transport", .rank = mesh.rank()});
    int only_mpi = environment_text("SHARD_TRANSPORT") == "mpi" ? 1 : 0;
    await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, &only_mpi, 1, MPI_INT, MPI_MAX, comm_);
    only_mpi_ = only_mpi != 0;
  }
  ~MeshNccl() override {}  // NOLINT(modernize-use-equals-default): hipcc

  /// The group, made once, or null. Without a request it is made only if NCCL was built in, which
  /// is the same on all ranks, and not under SHARD_TRANSPORT=mpi. Collective.
  std::shared_ptr<NcclGroup> group(bool requested) {
    if (only_mpi_ && !requested) return nullptr;
    if (!tried_) make(requested);
    return group_;
  }
  std::shared_ptr<NcclGroup> made() const { return only_mpi_ ? nullptr : group_; }
  /// Ends the communicator if no plan of any rank uses it.
  void release() override {
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

 private:
  void make(bool requested) {
    try {
      const std::string version = nccl_version();
      if (version.empty() && !requested) return;
      tried_ = true;
      group_ = std::make_shared<NcclGroup>(comm_);
      log_once(comm_, "messages of device memory go by " + version);
    } catch (const NcclError& error) {
      tried_ = true;
      log_once(comm_, std::string("messages of device memory go by MPI: ") + error.what());
    }
  }

  MPI_Comm comm_;  // the mesh's
  std::shared_ptr<NcclGroup> group_;
  bool tried_    = false;  // to make one
  bool only_mpi_ = false;  // SHARD_TRANSPORT=mpi on some rank
};

/// All messages of an exchange as one group on the stream.
class NcclChannel final : public Channel {
 public:
  explicit NcclChannel(std::shared_ptr<NcclGroup> group) : group_(std::move(group)) {}
  ~NcclChannel() override {}  // NOLINT(modernize-use-equals-default): hipcc
  Properties properties() const override { return {.stream_ordered = true}; }
  void connect(const ChannelMessages& messages) override { messages_ = messages; }
  std::array<std::unique_ptr<Transport>, 2> make(std::byte* send, std::byte* receive) override {
    const ChannelMessages& m = messages_;
    return {std::make_unique<NcclTransport>(*group_, m.sends, send, m.receives, receive),
            std::make_unique<NcclTransport>(*group_, m.receives, receive, m.sends, send)};
  }

 private:
  std::shared_ptr<NcclGroup> group_;
  ChannelMessages messages_;
};

}  // namespace

std::unique_ptr<Channel> open_nccl_channel(const ChannelRequest& request) {
  if (!request.device || *request.device == DeviceKind::other) return nullptr;
  const auto group = nccl_group_of(request.mesh, request.only == "nccl");
  return group ? std::make_unique<NcclChannel>(group) : nullptr;
}

std::shared_ptr<NcclGroup> nccl_group_of(MeshState& mesh, bool requested) {
  if (!mesh.device_resource()) mesh.set_device_resource(std::make_shared<MeshNccl>(mesh));
  return static_cast<MeshNccl&>(*mesh.device_resource()).group(requested);
}

std::shared_ptr<NcclGroup> made_nccl_group_of(const MeshState& mesh) {
  if (!mesh.device_resource()) return nullptr;
  return static_cast<const MeshNccl&>(*mesh.device_resource()).made();
}

}  // namespace shard::impl
