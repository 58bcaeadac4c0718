// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COMM_IMPL_MPI_TRANSPORT_HPP
#define SHARD_COMM_IMPL_MPI_TRANSPORT_HPP

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "shard/comm/impl/transport.hpp"

namespace shard::impl {

/// Persistent MPI requests on host memory, or on device memory with a GPU-aware MPI.
class MpiTransport {
 public:
  static constexpr bool stream_ordered = false;
  /// Depends on the MPI; callers check first (device_messages.hpp).
  static constexpr bool takes_device_memory = false;
  static constexpr bool needs_group         = false;
  static constexpr bool honours_tags        = true;
  static constexpr bool persistent          = true;

  /// Messages are consecutive in each buffer. The buffers must outlive the transport. Local.
  MpiTransport(MPI_Comm comm, int tag, const std::vector<Message>& sends, std::byte* send_buffer,
               const std::vector<Message>& receives, std::byte* receive_buffer);
  MpiTransport(MpiTransport&&) noexcept            = default;
  MpiTransport& operator=(MpiTransport&&) noexcept = delete;
  MpiTransport(const MpiTransport&)                = delete;
  MpiTransport& operator=(const MpiTransport&)     = delete;
  ~MpiTransport();

  /// Starts the receives. The buffers must be free of earlier kernels.
  void begin(std::uint64_t sequence);
  std::byte* outgoing(std::size_t i) const { return outgoing_[i]; }
  /// Starts the sends. Kernels that write the buffers must have ended.
  void start(Stream stream);
  /// Returns when every message of this exchange has been received and sent. Throws MpiError.
  void wait(Stream stream);
  const std::byte* incoming(std::size_t i) const { return incoming_[i]; }
  void release() {}

  /// After an error: whether every message of this exchange is complete within a tenth of a second.
  bool ends_soon();
  /// Whether wait would return at once.
  bool are_there();
  /// False after `ends_soon` returned false: then MPI may still write to the buffers.
  bool has_ended() const { return ended_; }
  /// The rank that was waited for last; -1 if the watchdog is off.
  const int& waiting_for() const { return waiting_for_; }

 private:
  void wait_watched();

  int waiting_for_ = -1;
  bool ended_      = true;
  std::vector<int> peers_;             // of the requests
  std::vector<MPI_Request> requests_;  // receives first
  std::vector<std::byte*> outgoing_, incoming_;
};

static_assert(Transport<MpiTransport>);

}  // namespace shard::impl

#endif
