// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COMM_IMPL_TRANSPORT_HPP
#define SHARD_COMM_IMPL_TRANSPORT_HPP

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

/// The messages of one channel (channel.hpp), for one buffer set of a plan and one direction.
///
/// An exchange is post_receives, send_all, wait, then release and end, in either order; the next
/// may begin after that.
/// Sequence numbers rise by one from exchange to exchange of the plan, alike on every rank.
/// Messages are numbered in the order in which the channel got them. Functions that run in an
/// exchange allocate nothing.
class Transport {
 public:
  Transport()                            = default;
  Transport(const Transport&)            = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport()                   = default;

  /// Posts the receives. Then outgoing(i) may be written. Throws before anything is sent if too
  /// many exchanges are in progress.
  virtual void post_receives(std::uint64_t sequence) = 0;
  /// Where message i is built.
  virtual std::byte* outgoing(std::size_t i) const = 0;
  /// Sends the messages. They are packed, or a stream-ordered channel's are packed on the stream.
  virtual void send_all(Stream stream) = 0;
  /// Whether `wait` would return at once.
  virtual bool has_arrived() = 0;
  /// Waits until all messages have arrived. While it waits it calls InFlight::progress_all() and
  /// enters MPI now and then, else two ranks may wait for each other. A stream-ordered channel
  /// orders later work on the stream behind the messages instead.
  virtual void wait(Stream stream) = 0;
  /// Where message i is read.
  virtual const std::byte* incoming(std::size_t i) const = 0;
  /// The received messages have been read.
  virtual void release() {}
  /// The exchange is over on this rank, although peers may still read its fields in place.
  virtual void end() {}
  /// In place of what is left of an exchange, after an error. Returns false if messages may still
  /// arrive: then the buffers are never used again.
  virtual bool abandon() = 0;

  /// The rank that was waited for last; -1 if it isn't known.
  virtual const int& waiting_for() const = 0;
  /// What `wait` waits for, for the watchdog.
  virtual const char* awaited() const { return "a message"; }

  // Channels of mapped memory implement these too.

  /// Whether `post_receives` would not wait.
  virtual bool is_free() { return true; }
  /// Between post_receives and send_all: publishes the addresses of this rank's fields, so that
  /// peers read them in place. Returns whether it did: not for null, and not if it isn't possible.
  virtual bool publish([[maybe_unused]] void* const* fields) { return false; }
  /// After wait: the address here of a field that the sender of message i published, or null.
  virtual std::byte* published([[maybe_unused]] std::size_t i, [[maybe_unused]] int field) const {
    return nullptr;
  }
  /// Whether the peers have read this exchange's messages and published fields.
  virtual bool was_read() { return true; }
  /// Waits for that.
  virtual void wait_read() {}
};

}  // namespace shard::impl

#endif
