// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Messages in memory that the ranks of a node share.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "spin.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/patience.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/comm/impl/channel.hpp"
#include "shard/comm/impl/shared_pool.hpp"

namespace shard::impl {

namespace {

constexpr std::uint64_t slots = 8;  // largest number of exchanges in progress

/// What a rank writes in one slot. One cache line is polled by the ranks that this rank reads from,
/// the other by those that read from it.
struct Flags {
  alignas(64) std::atomic<std::uint64_t> read;
  alignas(64) std::atomic<std::uint64_t> ready;
  PoolAddress buffer;
  PoolAddress fields[1];  // published; as many as the plan has fields
};

std::size_t flag_bytes(int fields) {
  const std::size_t more = static_cast<std::size_t>(std::max(fields, 1) - 1) * sizeof(PoolAddress);
  return (sizeof(Flags) + more + 63) / 64 * 64 * slots;
}

std::size_t total(const std::vector<Message>& messages) {
  std::size_t bytes = 0;
  for (const Message& m : messages) bytes += m.bytes;
  return bytes;
}
std::size_t buffer_bytes(const ChannelMessages& messages) {
  return std::max(total(messages.sends), total(messages.receives));
}

/// The addresses of the ranks' messages in shared memory, and flags that signal when these may be
/// read and when they have been read. A rank can publish addresses of its fields with a message, so
/// that others read the fields directly.
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
class SharedChannel final : public Channel {
 public:
  explicit SharedChannel(std::shared_ptr<SharedPool> pool) : pool_(std::move(pool)) {}
  /// Waits until all sent messages have been read, unless it was abandoned.
  ~SharedChannel() override;

  Properties properties() const override { return {.mapped = true}; }
  bool serves(int peer) const override { return pool_->place_of(peer) >= 0; }
  bool serves_all() const override { return false; }
  bool reserve(const ChannelMessages& messages) override {
    return pool_->reserve(buffer_bytes(messages), 2, flag_bytes(messages.fields));
  }
  void connect(const ChannelMessages& messages) override;
  std::array<std::unique_ptr<Transport>, 2> make(std::byte*, std::byte*) override;

  /// Whether all sent messages have been read, or the channel was abandoned.
  bool may_end() override {
    return abandoned_ || std::all_of(slots_.begin(), slots_.end(), [&](const Slot& s) {
             return s.run == 0 || was_read(s.run, s.direction);
           });
  }
  void abandon() override { abandoned_ = true; }
  const int& waiting_for() const override { return waiting_for_; }

 private:
  friend class SharedTransport;
  struct Peer {
    int rank           = 0;
    int place          = 0;
    std::byte* flags   = nullptr;
    std::uint64_t base = 0;  // initial value of its flags
    index_t first      = 0;  // of the message to this rank, in the peer's buffer
  };
  struct Slot {
    std::uint64_t run     = 0;
    std::size_t direction = 0;
    bool in_progress      = false;
    bool was_read         = false;  // cached, so that the flags aren't read again
  };

  Flags& own(std::uint64_t run) const { return at(flags_, run); }
  Flags& at(std::byte* flags, std::uint64_t run) const {
    return *reinterpret_cast<Flags*>(flags + run % slots * flag_stride_);
  }
  bool is_ready(const Peer& peer, std::uint64_t run) const {
    return at(peer.flags, run).ready.load(std::memory_order_acquire) >= peer.base + run;
  }
  bool was_read(const Peer& peer, std::uint64_t run) const {
    return at(peer.flags, run).read.load(std::memory_order_acquire) >= peer.base + run;
  }
  /// Whether all readers have read an exchange, or it is so old that they must have.
  bool was_read(std::uint64_t run, std::size_t direction);
  /// The exchange's slot if no later exchange uses it.
  Slot* slot_of(std::uint64_t run) {
    Slot& slot = slots_[run % slots];
    return slot.run == run ? &slot : nullptr;
  }
  void wait_read(std::uint64_t run, std::size_t direction);
  template <class Done>
  void spin(int rank, const Done& done);

  std::shared_ptr<SharedPool> pool_;
  MPI_Comm comm_           = MPI_COMM_NULL;
  int fields_              = 0;
  std::size_t flag_stride_ = 0, bytes_ = 0;
  PoolAddress flags_address_ = no_address;
  std::byte* flags_          = nullptr;  // null: not connected
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
  std::uint64_t run     = 0;  ///< the last exchange that used it
  std::size_t direction = 0;  ///< of that exchange
};

/// The exchanges of a channel in one direction, with a buffer that both directions share.
class SharedTransport final : public Transport {
 public:
  SharedTransport(SharedChannel& channel, std::shared_ptr<SharedBuffer> buffer,
                  std::size_t direction)
      : channel_(&channel), buffer_(std::move(buffer)), direction_(direction) {}
  ~SharedTransport() override {
    if (channel_->abandoned_) buffer_->piece.abandon();
  }

  /// Waits until the buffer's last messages have been read. Throws ArgumentError if all slots are
  /// in use.
  void post_receives(std::uint64_t) override;
  std::byte* outgoing(std::size_t i) const override {
    return buffer_->piece.data() + channel_->first_[direction_][i];
  }
  void send_all(Stream) override;
  bool has_arrived() override {
    const auto& writers = channel_->writers_[direction_];
    return std::all_of(writers.begin(), writers.end(),
                       [&](const auto& peer) { return channel_->is_ready(peer, run_); });
  }
  void wait(Stream) override {
    for (const auto& peer : channel_->writers_[direction_])
      channel_->spin(peer.rank, [&] { return channel_->is_ready(peer, run_); });
  }
  const std::byte* incoming(std::size_t i) const override {
    const auto& peer = channel_->writers_[direction_][i];
    return channel_->pool_->at(peer.place, channel_->at(peer.flags, run_).buffer) + peer.first;
  }
  void release() override {
    channel_->slots_[run_ % slots].in_progress = false;
    channel_->own(run_).read.store(channel_->base_ + run_, std::memory_order_release);
  }
  void end() override { --channel_->pool_->in_flight; }
  bool abandon() override {
    release();
    end();
    channel_->abandon();
    return true;
  }
  const int& waiting_for() const override { return channel_->waiting_for_; }
  const char* awaited() const override { return "values in shared memory"; }

  bool is_free() override {
    return buffer_->run == 0 || channel_->was_read(buffer_->run, buffer_->direction);
  }
  /// Publishes fields if all are in windows. Only one exchange of the mesh may publish at a time,
  /// because two ranks could wait for each other to read.
  bool publish(void* const* fields) override;
  std::byte* published(std::size_t i, int field) const override {
    const auto& peer          = channel_->writers_[direction_][i];
    const PoolAddress address = channel_->at(peer.flags, run_).fields[field];
    return address == no_address ? nullptr : channel_->pool_->at(peer.place, address);
  }
  bool was_read() override { return channel_->was_read(run_, direction_); }
  void wait_read() override { channel_->wait_read(run_, direction_); }

 private:
  SharedChannel* channel_;
  std::shared_ptr<SharedBuffer> buffer_;
  std::size_t direction_;
  std::uint64_t run_ = 0;
};

void SharedChannel::connect(const ChannelMessages& messages) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  comm_          = messages.comm;
  fields_        = messages.fields;
  flag_stride_   = flag_bytes(fields_) / slots;
  bytes_         = buffer_bytes(messages);
  flags_address_ = pool_->take_flags(flag_stride_ * slots);
  flags_         = pool_->at_home(flags_address_);
  // reused flags keep their numbers
  for (std::uint64_t s = 0; s < slots; ++s)
    base_ = std::max({base_, own(s).read.load(), own(s).ready.load()});

  /// What two peers send each other: the address of the flags, their initial values, and the
  /// offsets of the messages to the other, forward and adjoint.
  using Connection = std::array<std::uint64_t, 4>;
  std::vector<int> peers;
  std::vector<Connection> mine;
  const auto index_of = [&](int rank) {
    const auto found = std::find(peers.begin(), peers.end(), rank);
    if (found != peers.end()) return static_cast<std::size_t>(found - peers.begin());
    peers.push_back(rank);
    mine.push_back({flags_address_, base_, 0, 0});
    return peers.size() - 1;
  };
  const std::vector<Message>* lists[] = {&messages.sends, &messages.receives};
  for (std::size_t direction = 0; direction < 2; ++direction) {
    std::size_t first = 0;
    for (const Message& m : *lists[direction]) {
      mine[index_of(m.peer)][2 + direction] = first;
      first_[direction].push_back(static_cast<index_t>(first));
      first += m.bytes;
    }
  }
  std::vector<Connection> theirs(mine.size());
  std::vector<MPI_Request> requests(2 * mine.size());
  for (std::size_t i = 0; i < mine.size(); ++i) {
    check_mpi(MPI_Irecv(theirs[i].data(), 4, MPI_UINT64_T, peers[i], messages.tags[0], comm_,
                        &requests[2 * i]),
              "MPI_Irecv");
    check_mpi(MPI_Isend(mine[i].data(), 4, MPI_UINT64_T, peers[i], messages.tags[0], comm_,
                        &requests[2 * i + 1]),
              "MPI_Isend");
  }
  await_mpi("MPI_Waitall", MPI_Waitall, static_cast<int>(requests.size()), requests.data(),
            MPI_STATUSES_IGNORE);
  for (std::size_t direction = 0; direction < 2; ++direction)
    for (const Message& m : *lists[direction]) {
      const Connection& other = theirs[index_of(m.peer)];
      Peer peer;
      peer.rank  = m.peer;
      peer.place = pool_->place_of(m.peer);
      peer.flags = pool_->at(peer.place, other[0]);
      peer.base  = other[1];
      // a reader in one direction is a writer in the other
      readers_[direction].push_back(peer);
      peer.first = static_cast<index_t>(other[3 - direction]);
      writers_[1 - direction].push_back(peer);
    }
}

SharedChannel::~SharedChannel() {
  if (abandoned_ || flags_ == nullptr) return;
  for (const Slot& s : slots_)
    if (s.run > 0) wait_read(s.run, s.direction);
  pool_->give_back_flags(flags_address_, flag_stride_ * slots);
}

std::array<std::unique_ptr<Transport>, 2> SharedChannel::make(std::byte*, std::byte*) {
  auto buffer = std::make_shared<SharedBuffer>();
  if (bytes_ > 0) buffer->piece = pool_->allocate_here(bytes_);
  if (bytes_ > 0 && buffer->piece.data() == nullptr)
    throw Error(
        "shard::Exchange: no space in shared memory for another exchange of this plan; "
        "finish one first");
  return {std::make_unique<SharedTransport>(*this, buffer, 0),
          std::make_unique<SharedTransport>(*this, buffer, 1)};
}

template <class Done>
void SharedChannel::spin(int rank, const Done& done) {
  if (done()) return;
  waiting_for_ = rank;
  impl::spin(comm_, Patience(Patience::Look::memory, pool_->oversubscribed()), done);
}

bool SharedChannel::was_read(std::uint64_t run, std::size_t direction) {
  Slot* slot = slot_of(run);
  // a slot is reused after its last exchange was read
  if (slot == nullptr || slot->was_read) return true;
  slot->was_read = std::all_of(readers_[direction].begin(), readers_[direction].end(),
                               [&](const Peer& peer) { return was_read(peer, run); });
  return slot->was_read;
}

void SharedChannel::wait_read(std::uint64_t run, std::size_t direction) {
  Slot* slot = slot_of(run);
  if (slot == nullptr || slot->was_read) return;
  for (const Peer& peer : readers_[direction]) spin(peer.rank, [&] { return was_read(peer, run); });
  slot->was_read = true;
}

void SharedTransport::post_receives(std::uint64_t) {
  run_                             = channel_->run_ + 1;
  const SharedChannel::Slot& older = channel_->slots_[run_ % slots];
  if (older.in_progress)
    throw_argument("Exchange", {"more than ", text(static_cast<index_t>(slots)),
                                " exchanges of one plan are in progress; finish one first"});
  if (older.run > 0) channel_->wait_read(older.run, older.direction);
  if (buffer_->run > 0) channel_->wait_read(buffer_->run, buffer_->direction);
  channel_->own(run_).buffer = buffer_->piece.address();
}

bool SharedTransport::publish(void* const* fields) {
  PoolAddress* const addresses = channel_->own(run_).fields;
  const SharedPool& pool       = *channel_->pool_;
  bool all                     = fields != nullptr && pool.in_flight == 0;
  SharedPool::Part part;
  for (int f = 0; f < channel_->fields_ && all; ++f) {
    if (!part.has(fields[f])) part = pool.part_of(fields[f]);
    all = part.has(fields[f]);
    if (all) addresses[f] = part.address_of(fields[f]);
  }
  if (!all) std::fill_n(addresses, channel_->fields_, no_address);
  return all;
}

void SharedTransport::send_all(Stream) {
  channel_->run_                 = run_;
  channel_->slots_[run_ % slots] = {run_, direction_, true, false};
  buffer_->run                   = run_;
  buffer_->direction             = direction_;
  channel_->own(run_).ready.store(channel_->base_ + run_, std::memory_order_release);
  ++channel_->pool_->in_flight;
}

}  // namespace

std::unique_ptr<Channel> open_shared_channel(const ChannelRequest& request) {
  if (request.device) return nullptr;
  auto pool = SharedPool::of(request.mesh);
  return pool->usable() ? std::make_unique<SharedChannel>(std::move(pool)) : nullptr;
}

}  // namespace shard::impl
