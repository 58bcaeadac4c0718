// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COMM_IMPL_MPI_TRANSPORT_HPP
#define SHARD_COMM_IMPL_MPI_TRANSPORT_HPP

#include <mpi.h>

#include <cstddef>
#include <vector>

#include "shard/comm/impl/transport.hpp"

namespace shard::impl {

/// Persistent MPI requests on host memory, or on memory of a device where this MPI takes it.
class MpiTransport {
 public:
  static constexpr bool stream_ordered = false;
  /// Not everywhere: who makes it on a device's memory asks this MPI first (device_messages.hpp).
  static constexpr bool takes_device_memory = false;
  static constexpr bool needs_group         = false;
  static constexpr bool honours_tags        = true;
  static constexpr bool persistent          = true;

  /// Local. Messages stand one after the other in each buffer; the buffers must outlive the
  /// transport.
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
  /// Returns when every message of this run has arrived and left. Throws MpiError.
  void wait(Stream stream);
  const std::byte* incoming(std::size_t i) const { return incoming_[i]; }
  void release() {}

  /// Whether every message of this run has arrived and left, or does so within a tenth of a second:
  /// after an error.
  bool ends_soon();
  /// Whether wait would return at once.
  bool are_there();
  /// False if `ends_soon` said so: then messages may be written to the buffers at any time.
  bool has_ended() const { return ended_; }
  /// The rank that was waited for last; known where the watchdog is on, else -1.
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
