// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COMM_MPI_TRANSPORT_HPP
#define SHARD_COMM_MPI_TRANSPORT_HPP

#include <mpi.h>

#include <concepts>
#include <cstddef>
#include <vector>

namespace shard::impl {

/// One message of a plan: a peer and a buffer that stays where it is. Sizes are multiples of 16
/// bytes.
struct Message {
  int peer          = 0;
  std::byte* data   = nullptr;
  std::size_t bytes = 0;
};

/// What a plan asks of a transport: made once with its messages, then started and waited for again
/// and again. The constants say what it is: whether it follows the execution space's order without
/// the host, takes device memory, needs a communicator of its own, honours tags, and whether its
/// requests persist.
template <class T>
concept Transport = requires(T transport) {
  { T::stream_ordered } -> std::convertible_to<bool>;
  { T::takes_device_memory } -> std::convertible_to<bool>;
  { T::needs_group } -> std::convertible_to<bool>;
  { T::honours_tags } -> std::convertible_to<bool>;
  { T::persistent } -> std::convertible_to<bool>;
  transport.start_receives();
  transport.start_sends();
  transport.wait();
};

/// Persistent MPI requests on host memory.
class MpiTransport {
 public:
  static constexpr bool stream_ordered      = false;
  static constexpr bool takes_device_memory = false;
  static constexpr bool needs_group         = false;
  static constexpr bool honours_tags        = true;
  static constexpr bool persistent          = true;

  MpiTransport() = default;
  /// Local. The buffers must outlive the transport.
  MpiTransport(MPI_Comm comm, int tag, const std::vector<Message>& receives,
               const std::vector<Message>& sends);
  MpiTransport(MpiTransport&&) noexcept            = default;
  MpiTransport& operator=(MpiTransport&&) noexcept = delete;
  MpiTransport(const MpiTransport&)                = delete;
  MpiTransport& operator=(const MpiTransport&)     = delete;
  ~MpiTransport();

  void start_receives();
  void start_sends();
  /// Returns when every message of this start has arrived and left. Throws MpiError.
  void wait();

 private:
  std::vector<MPI_Request> requests_;  // receives first
  std::size_t receives_ = 0;
};

static_assert(Transport<MpiTransport>);

}  // namespace shard::impl

#endif
