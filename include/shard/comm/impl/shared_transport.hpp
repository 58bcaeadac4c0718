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

/// What the ranks of one node tell each other of a plan: where their messages stand in memory that
/// they share, and flags that say when these may be read and when they have been. Addresses of a
/// rank's own fields can be offered with a message, so that others read straight from those.
///
/// Runs are counted alike on every rank. Each has one of a few slots, in turn, and in each slot a
/// rank writes two numbers, and it alone: `ready`, the last run whose messages may be read, and
/// `read`, the last run of which it has read all that it was sent. They only grow, from channel to
/// channel too, so their memory may be handed on as soon as its owner has no use for it: whoever
/// still waits for a number finds a larger one, which says no less.
///
/// Memory order. A message is written before `ready` is stored with release order, and read after
/// `ready` was loaded with acquire order and found large enough: the reads see the writes. They end
/// before `read` is stored with release order, and the slot's next writes begin after every
/// reader's `read` was loaded with acquire order: no read sees them. Kernels of host spaces are
/// over, all their threads' work seen by the thread that launched them, when the launch returns:
/// flags are raised and looked at by that thread.
class SharedChannel {
 public:
  static constexpr std::uint64_t slots = 8;  ///< as many runs may be in progress at once

  /// Collective over this rank and its peers, which share `pool` and have reserved a line of
  /// flag_bytes(offers) in it. `sends` and `receives` are forward messages; adjoint ones go the
  /// other way. `offers`: how many addresses go with each run.
  SharedChannel(std::shared_ptr<SharedPool> pool, MPI_Comm comm, int tag,
                const std::vector<Message>& sends, const std::vector<Message>& receives,
                int offers);
  SharedChannel(const SharedChannel&)            = delete;
  SharedChannel& operator=(const SharedChannel&) = delete;
  /// Waits until what was sent has been read, unless it was abandoned.
  ~SharedChannel();
  /// After an error: peers may never read what was sent. Its memory is not used again.
  void abandon() { abandoned_ = true; }

  /// Size of a channel's flags, with room for so many offers in each slot.
  static std::size_t flag_bytes(int offers);
  /// Size of the messages of one slot.
  static std::size_t buffer_bytes(const std::vector<Message>& sends,
                                  const std::vector<Message>& receives);
  /// Memory for the messages of a run. Local. Throws Error if there is no room.
  SharedPiece allocate();

  /// Whether all that was sent has been read, or was abandoned: then its end doesn't wait.
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
    std::uint64_t base = 0;  // what its flags counted from
    index_t first      = 0;  // of the message to this rank, in the peer's buffer
  };
  struct Slot {
    std::uint64_t run = 0;
    std::size_t way   = 0;
    bool in_flight    = false;
    bool was_read     = false;  // seen: the flags needn't be looked at again
  };

  Flags& own(std::uint64_t run) const { return at(flags_, run); }
  Flags& at(std::byte* flags, std::uint64_t run) const;
  bool was_read(const Peer& peer, std::uint64_t run) const;
  /// Whether all readers have read a run, or it is so old that they must have.
  bool was_read(std::uint64_t run, std::size_t way);
  /// The run's slot if no later run has it.
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
  std::array<std::vector<Peer>, 2> readers_;   // of what this rank sends
  std::array<std::vector<Peer>, 2> writers_;   // of what it reads
};

/// Memory for the messages of one run after another, forward or adjoint.
struct SharedBuffer {
  SharedPiece piece;
  std::uint64_t run = 0;  ///< the last one whose messages stood here
  std::size_t way   = 0;  ///< its direction
};

/// Runs of a channel in one direction, with a buffer of its own or shared with the other direction.
class SharedTransport {
 public:
  static constexpr bool stream_ordered      = false;
  static constexpr bool takes_device_memory = false;
  static constexpr bool needs_group         = false;
  static constexpr bool honours_tags        = true;
  static constexpr bool persistent          = true;

  SharedTransport(SharedChannel& channel, SharedBuffer& buffer, bool adjoint)
      : channel_(&channel), buffer_(&buffer), way_(adjoint ? 1 : 0) {}

  /// Waits until the buffer's last messages have been read. Throws ArgumentError if as many runs
  /// are in progress as there are slots.
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

  /// Between begin and start: the addresses, in this rank's part of the pool, that others may read
  /// under each number; no_address for none. One that stands there from an earlier run is best left
  /// unwritten: its line stays in the readers' caches.
  PoolAddress* offers() const;
  /// What one rank offers to others: null where it is nothing.
  struct Offered {
    const SharedPool* pool;
    int place;
    const PoolAddress* addresses;

    std::byte* operator[](int number) const {
      const PoolAddress address = addresses[number];
      return address == no_address ? nullptr : pool->at(place, address);
    }
  };
  /// After wait: what the sender of message i offers.
  Offered offered(std::size_t i) const;
  /// Waits until this run's messages, and what was offered, have been read.
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
