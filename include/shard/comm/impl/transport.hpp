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

/// What a plan asks of a transport: made once with the messages that this rank sends and receives,
/// then run again and again. One run is begin, start, wait, release; the next may begin when the
/// last was released here. Sequence numbers rise by one from run to run of the plan, on every rank
/// alike.
///
/// The constants say what it is: whether it follows the execution space's order without the host
/// (so that `wait` doesn't block), takes device memory wherever it can be made, needs a
/// communicator of its own, honours tags (so that two plans' messages between the same ranks can't
/// be taken for one another), and whether its requests persist: none is made in a run.
template <class T>
concept Transport = requires(T transport, const T& made, std::uint64_t sequence, std::size_t i,
                             Stream stream) {
  { T::stream_ordered } -> std::convertible_to<bool>;
  { T::takes_device_memory } -> std::convertible_to<bool>;
  { T::needs_group } -> std::convertible_to<bool>;
  { T::honours_tags } -> std::convertible_to<bool>;
  { T::persistent } -> std::convertible_to<bool>;
  transport.begin(sequence);                                      // outgoing(i) may be written
  { made.outgoing(i) } -> std::convertible_to<std::byte*>;        // where message i is built
  transport.start(stream);                                        // sends what was built
  transport.wait(stream);                                         // every message is here
  { made.incoming(i) } -> std::convertible_to<const std::byte*>;  // where message i is read
  transport.release();                                            // what came was read
};

}  // namespace shard::impl

#endif
