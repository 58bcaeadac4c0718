// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COMM_NCCL_TRANSPORT_HPP
#define SHARD_COMM_NCCL_TRANSPORT_HPP

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/comm/impl/transport.hpp"

struct ncclComm;  // the type that ncclComm_t points to

namespace shard {

/// NCCL or RCCL returned an error code, or reported an asynchronous error. The communicator has
/// been aborted and can't be used any more.
class NcclError : public Error {
 public:
  using Error::Error;
};

namespace impl {

class MeshState;

/// "NCCL 2.28.9" or "RCCL 2.22.3", the version of the loaded library; empty if shard was built
/// without either. Throws NcclError.
std::string nccl_version();

/// A message's peer, and its place in memory that the device can access.
struct PlacedBytes {
  int peer;
  std::byte* data;
  std::size_t bytes;
};

/// A communicator of NCCL or RCCL with the ranks of an MPI communicator, each with its current
/// device at construction. A mesh has at most one. Messages have no tags, so all ranks must issue
/// its operations in the same order.
class NcclGroup {
 public:
  /// Collective over `comm`, which isn't kept. Throws NcclError on every rank, with the reason of
  /// the lowest rank that has one, if a rank has no device, if two ranks have the same device (NCCL
  /// doesn't support that), if the library fails, or if shard was built without it.
  explicit NcclGroup(MPI_Comm comm);
  /// Doesn't wait for other ranks if all ranks destroy it at the same point, as a mesh's collective
  /// release does. When an exception unwinds through it, it is aborted.
  ~NcclGroup();
  NcclGroup(const NcclGroup&)            = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  /// Enqueues all receives and sends as one group on `stream`. The host doesn't block, except in
  /// the first call with new peers, when the library connects them. A message to the own rank needs
  /// its counterpart in the same call. Throws NcclError, and aborts.
  void run(const std::vector<PlacedBytes>& sends, const std::vector<PlacedBytes>& receives,
           Stream stream);

  /// Throws NcclError, and aborts, if an asynchronous error was reported (a dead peer, a lost
  /// network). Never waits.
  void poll();

 private:
  [[noreturn]] void fail(const char* function, int code);

  // unused in a build without NCCL
  [[maybe_unused]] ncclComm* comm_ = nullptr;  // null after an abort
  [[maybe_unused]] int exceptions_ = 0;        // std::uncaught_exceptions() at construction
};

/// The communicator of a mesh, made once for all that moves fields in device memory: null without
/// NCCL or RCCL, and where they can't be used, which is logged. Null also if SHARD_TRANSPORT was
/// mpi on some rank at the first call for this mesh. `requested`: the caller's options ask for
/// NCCL, so the variable doesn't count, and that it can't be used is logged even if shard was built
/// without it. Collective over the mesh.
std::shared_ptr<NcclGroup> nccl_group_of(MeshState& mesh, bool requested = false);
/// The same without a request if it was made before, else null. Local, and the same on all ranks.
std::shared_ptr<NcclGroup> made_nccl_group_of(const MeshState& mesh);

/// A transport on an execution space's stream. It sends the messages packed on the stream before
/// start; kernels launched on the stream after start read the received ones. The host never waits.
class NcclTransport final : public Transport {
 public:
  /// The group and the device buffers must outlive the transport. Messages are consecutive in the
  /// buffers. Messages of one pair of ranks match in the order in which they are started, so all
  /// plans of a group must be started in the same order on every rank. Local.
  NcclTransport(NcclGroup& group, const std::vector<Message>& sends, std::byte* send_buffer,
                const std::vector<Message>& receives, std::byte* receive_buffer)
      : group_(&group),
        sends_(placed(sends, send_buffer)),
        receives_(placed(receives, receive_buffer)) {}

  ~NcclTransport() override {}  // NOLINT(modernize-use-equals-default): hipcc

  void post_receives(std::uint64_t) override {}
  std::byte* outgoing(std::size_t i) const override { return sends_[i].data; }
  /// Throws NcclError.
  void send_all(Stream stream) override { group_->run(sends_, receives_, stream); }
  /// Nothing to do: later work on the stream passed to start is ordered after the messages. It has
  /// to be the same stream.
  void wait(Stream) override {}
  bool has_arrived() override { return true; }
  const std::byte* incoming(std::size_t i) const override { return receives_[i].data; }
  /// Only checks for errors: the next receives are ordered on the stream behind the kernels that
  /// read these messages. Throws NcclError.
  void release() override { group_->poll(); }
  /// The host doesn't know whether NCCL's messages end.
  bool abandon() override { return false; }
  const int& waiting_for() const override { return nobody_; }

 private:
  static constexpr int nobody_ = -1;

  static std::vector<PlacedBytes> placed(const std::vector<Message>& messages, std::byte* buffer) {
    std::vector<PlacedBytes> all;
    for (const Message& m : messages) {
      all.push_back({m.peer, buffer, m.bytes});
      buffer += m.bytes;
    }
    return all;
  }

  NcclGroup* group_;
  std::vector<PlacedBytes> sends_, receives_;
};

}  // namespace impl
}  // namespace shard

#endif
