// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COMM_IMPL_SHARED_TRANSPORT_HPP
#define SHARD_COMM_IMPL_SHARED_TRANSPORT_HPP

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "shard/comm/impl/shared_pool.hpp"
#include "shard/comm/impl/transport.hpp"

namespace shard::impl {

/// A channel between the ranks of one node for a plan: the addresses of their messages in shared
/// memory, and flags that signal when these may be read and when they have been read. A rank can
/// publish addresses of its fields with a message, so that others read the fields directly.
///
/// Exchanges have sequence numbers, the same on every rank, and use a few slots in turn. In each
/// slot a rank writes two numbers: `ready`, the last exchange whose messages may be read, and
/// `read`, the last exchange of which it has read all messages. Both only grow, also from channel
/// to channel. So the memory of flags may be reused at once: a rank that still waits for a number
/// sees a larger one, which implies it.
///
/// Memory order. The writer stores a message, then `ready` with release order. The reader loads
/// `ready` with acquire order, then reads the message, so it sees the writes. It then stores `read`
/// with release order. The writer loads every reader's `read` with acquire order before it writes
/// the slot again. Kernels of host spaces are complete when the launch returns, so the launching
/// thread stores and loads the flags.
class SharedChannel {
 public:
  static constexpr std::uint64_t slots = 8;  ///< largest number of exchanges in progress

  /// Collective over this rank and its peers, which share `pool` and have reserved
  /// flag_bytes(offers) in it. `sends` and `receives` are the forward messages; adjoint ones go the
  /// other way. `offers`: the number of addresses published with each exchange.
  SharedChannel(std::shared_ptr<SharedPool> pool, MPI_Comm comm, int tag,
                const std::vector<Message>& sends, const std::vector<Message>& receives,
                int offers);
  SharedChannel(const SharedChannel&)            = delete;
  SharedChannel& operator=(const SharedChannel&) = delete;
  /// Waits until all sent messages have been read, unless it was abandoned.
  ~SharedChannel();
  /// After an error peers may never read the messages. Their memory is not used again.
  void abandon() { abandoned_ = true; }

  /// Size of a channel's flags, with this number of published addresses in each slot.
  static std::size_t flag_bytes(int offers);
  /// Size of the messages of one slot.
  static std::size_t buffer_bytes(const std::vector<Message>& sends,
                                  const std::vector<Message>& receives);
  /// Memory for the messages of an exchange. Local. Throws Error if there is no space.
  SharedPiece allocate();

  /// Whether all sent messages have been read, or the channel was abandoned; then the destructor
  /// doesn't wait.
  bool was_read();

  /// The rank that was waited for last, -1 if none was.
  const int& waiting_for() const { return waiting_for_; }

 private:
  friend class SharedTransport;
  struct Flags;
  struct Peer {
    int rank           = 0;
    int place          = 0;
    std::byte* flags   = nullptr;
    std::uint64_t base = 0;  // initial value of its flags
    index_t first      = 0;  // of the message to this rank, in the peer's buffer
  };
  struct Slot {
    std::uint64_t run = 0;
    std::size_t way   = 0;
    bool in_flight    = false;
    bool was_read     = false;  // cached, so that the flags aren't read again
  };

  Flags& own(std::uint64_t run) const { return at(flags_, run); }
  Flags& at(std::byte* flags, std::uint64_t run) const;
  bool was_read(const Peer& peer, std::uint64_t run) const;
  /// Whether all readers have read an exchange, or it is so old that they must have.
  bool was_read(std::uint64_t run, std::size_t way);
  /// The exchange's slot if no later exchange uses it.
  Slot* slot_of(std::uint64_t run);
  void wait_read(std::uint64_t run, std::size_t way);
  template <class Done>
  void spin(int rank, const Done& done);

  std::shared_ptr<SharedPool> pool_;
  MPI_Comm comm_;
  std::size_t flag_stride_ = 0, bytes_ = 0;
  PoolAddress flags_address_ = no_address;
  std::byte* flags_          = nullptr;
  std::uint64_t base_ = 0, run_ = 0;
  int waiting_for_ = -1;
  bool abandoned_  = false;
  std::array<Slot, slots> slots_;
  std::array<std::vector<index_t>, 2> first_;  // of outgoing messages, forward and adjoint
  std::array<std::vector<Peer>, 2> readers_;   // readers of this rank's messages
  std::array<std::vector<Peer>, 2> writers_;   // writers of the messages that this rank reads
};

/// Memory for the messages of successive exchanges, forward or adjoint.
struct SharedBuffer {
  SharedPiece piece;
  std::uint64_t run = 0;  ///< the last exchange that used it
  std::size_t way   = 0;  ///< its direction
};

/// The exchanges of a channel in one direction, with its own buffer or one shared with the other
/// direction.
class SharedTransport {
 public:
  static constexpr bool stream_ordered      = false;
  static constexpr bool takes_device_memory = false;
  static constexpr bool needs_group         = false;
  static constexpr bool honours_tags        = true;
  static constexpr bool persistent          = true;

  SharedTransport(SharedChannel& channel, SharedBuffer& buffer, bool adjoint)
      : channel_(&channel), buffer_(&buffer), way_(adjoint ? 1 : 0) {}

  /// Waits until the buffer's last messages have been read. Throws ArgumentError if all slots are
  /// in use.
  void begin(std::uint64_t sequence);
  std::byte* outgoing(std::size_t i) const {
    return buffer_->piece.data() + channel_->first_[way_][i];
  }
  void start(Stream stream);
  void wait(Stream stream);
  /// Whether wait would return at once.
  bool is_there() const;
  const std::byte* incoming(std::size_t i) const;
  void release();

  /// Between begin and start: the published addresses, in this rank's part of the pool, by number;
  /// no_address for none. Don't rewrite an unchanged address, so that its cache line stays shared.
  PoolAddress* offers() const;
  /// The addresses that one rank has published; null for none.
  struct Offered {
    const SharedPool* pool;
    int place;
    const PoolAddress* addresses;

    std::byte* operator[](int number) const {
      const PoolAddress address = addresses[number];
      return address == no_address ? nullptr : pool->at(place, address);
    }
  };
  /// After wait: the addresses published by the sender of message i.
  Offered offered(std::size_t i) const;
  /// Waits until this exchange's messages and published fields have been read.
  void wait_read() { channel_->wait_read(run_, way_); }
  /// Whether wait_read would return at once.
  bool was_read() { return channel_->was_read(run_, way_); }
  /// Whether the buffer's last messages have been read.
  bool buffer_is_free() {
    return buffer_->run == 0 || channel_->was_read(buffer_->run, buffer_->way);
  }
  /// The rank that was waited for last, -1 if none was.
  const int& waiting_for() const { return channel_->waiting_for_; }

 private:
  SharedChannel* channel_;
  SharedBuffer* buffer_;
  std::size_t way_;
  std::uint64_t run_ = 0;
};

static_assert(Transport<SharedTransport>);

}  // namespace shard::impl

#endif
