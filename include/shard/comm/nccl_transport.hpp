// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COMM_NCCL_TRANSPORT_HPP
#define SHARD_COMM_NCCL_TRANSPORT_HPP

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "shard/base/error.hpp"
#include "shard/comm/impl/transport.hpp"

struct ncclComm;  // NCCL's and RCCL's own name for what ncclComm_t points to

namespace shard {

/// NCCL or RCCL returned an error code, or found an error in the background. The communicator is
/// aborted then: nothing can be sent by it any more.
class NcclError : public Error {
 public:
  using Error::Error;
};

namespace impl {

/// "NCCL 2.28.9" or "RCCL 2.22.3", as the library that is loaded says; empty where shard was built
/// without either. Throws NcclError.
std::string nccl_version();

/// A communicator of NCCL or RCCL with the ranks of an MPI communicator, each with the device that
/// is current when it is made. A mesh that needs one has one: every operation on it must be issued
/// in the same order on all its ranks, for its messages have no tags.
class NcclGroup {
 public:
  /// Collective over `comm`, which isn't kept. Throws NcclError on every rank, with the lowest rank
  /// that has a reason, if there is no device on some rank, if two ranks have the same device
  /// (which NCCL can't serve), if the library fails, or where shard was built without it.
  explicit NcclGroup(MPI_Comm comm);
  /// Waits for nothing that other ranks have yet to issue when it is destroyed at the same point on
  /// all ranks, as a mesh's collective release does. When an exception unwinds through it, it is
  /// aborted.
  ~NcclGroup();
  NcclGroup(const NcclGroup&)            = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  /// Issues all receives and sends as one group on `stream`, behind what the stream has to do
  /// before; the host waits for nothing from the second call with the same peers on (at the first
  /// the library connects them). The messages lie one after the other in their buffers, which are
  /// the device's. A message to the own rank needs its counterpart in the same call. Throws
  /// NcclError, and aborts.
  void run(const std::vector<Message>& sends, const std::byte* send_buffer,
           const std::vector<Message>& receives, std::byte* receive_buffer, Stream stream);

  /// Throws NcclError, and aborts, if an error has come to light since (a peer that died, a lost
  /// network). Asks the host's side of the library only; waits for nothing.
  void poll();

 private:
  [[noreturn]] void fail(const char* function, int code);

  // unused in a build without NCCL
  [[maybe_unused]] ncclComm* comm_ = nullptr;  // null after an abort
  [[maybe_unused]] int exceptions_ = 0;        // in flight when it was made
};

/// Messages in the order of an execution space's stream: what was built on the stream before start
/// is what is sent, and what is launched on it after start reads what has come. The host waits
/// nowhere, and need not.
class NcclTransport {
 public:
  static constexpr bool stream_ordered      = true;
  static constexpr bool takes_device_memory = true;
  static constexpr bool needs_group         = true;
  static constexpr bool honours_tags        = false;
  static constexpr bool persistent          = false;

  /// Local. The group must outlive the transport, and so must the device buffers, in which the
  /// messages lie one after the other. Messages of one pair of ranks match in the order in which
  /// they are started: one message to a peer and one from it, as plans have, and all plans of a
  /// group started in the same order on every rank.
  NcclTransport(NcclGroup& group, std::vector<Message> sends, std::byte* send_buffer,
                std::vector<Message> receives, std::byte* receive_buffer)
      : group_(&group),
        sends_(std::move(sends)),
        receives_(std::move(receives)),
        send_buffer_(send_buffer),
        receive_buffer_(receive_buffer) {
    std::size_t at = 0;
    for (const Message& m : sends_) outgoing_.push_back(std::exchange(at, at + m.bytes));
    at = 0;
    for (const Message& m : receives_) incoming_.push_back(std::exchange(at, at + m.bytes));
  }

  void begin(std::uint64_t) {}
  std::byte* outgoing(std::size_t i) const { return send_buffer_ + outgoing_[i]; }
  /// Throws NcclError.
  void start(Stream stream) {
    group_->run(sends_, send_buffer_, receives_, receive_buffer_, stream);
  }
  /// Nothing to do: what comes next on the stream that was given to start comes after the messages.
  /// It has to be the same stream.
  void wait(Stream) {}
  const std::byte* incoming(std::size_t i) const { return receive_buffer_ + incoming_[i]; }
  /// The next run's receives come later on the stream than what reads this run's. Throws NcclError.
  void release() { group_->poll(); }

 private:
  NcclGroup* group_;
  std::vector<Message> sends_, receives_;
  std::byte* send_buffer_;
  std::byte* receive_buffer_;
  std::vector<std::size_t> outgoing_, incoming_;
};

static_assert(Transport<NcclTransport>);

}  // namespace impl
}  // namespace shard

#endif
