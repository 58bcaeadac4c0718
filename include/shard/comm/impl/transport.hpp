// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COMM_IMPL_TRANSPORT_HPP
#define SHARD_COMM_IMPL_TRANSPORT_HPP

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace shard::impl {

/// One message of a plan: the rank at its other end in the mesh's communicator, and its size, a
/// multiple of 16 bytes.
struct Message {
  int peer          = 0;
  std::size_t bytes = 0;
};

/// The native stream of an execution-space instance (cudaStream_t, hipStream_t); null for those of
/// a host.
struct Stream {
  void* handle = nullptr;
};

/// The concept of a transport. It is made once with the messages that this rank sends and receives,
/// and used for many exchanges. An exchange is begin, start, wait, release; the next may begin
/// after the release. Sequence numbers rise by one from exchange to exchange of the plan, alike on
/// every rank.
///
/// The constants are its properties: whether it is stream-ordered (so that `wait` doesn't block),
/// always accepts device memory, needs its own communicator, has message tags (so that messages of
/// two plans between the same ranks can't be confused), and uses persistent requests.
template <class T>
concept Transport = requires(T transport, const T& made, std::uint64_t sequence, std::size_t i,
                             Stream stream) {
  { T::stream_ordered } -> std::convertible_to<bool>;
  { T::takes_device_memory } -> std::convertible_to<bool>;
  { T::needs_group } -> std::convertible_to<bool>;
  { T::honours_tags } -> std::convertible_to<bool>;
  { T::persistent } -> std::convertible_to<bool>;
  transport.begin(sequence);  // posts receives; outgoing(i) may be written
  { made.outgoing(i) } -> std::convertible_to<std::byte*>;        // where message i is built
  transport.start(stream);                                        // sends the messages
  transport.wait(stream);                                         // all messages have arrived
  { made.incoming(i) } -> std::convertible_to<const std::byte*>;  // where message i is read
  transport.release();                                            // the messages have been read
};

}  // namespace shard::impl

#endif
