// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/comm/impl/shared_transport.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/comm/impl/in_flight.hpp"

namespace shard::impl {

namespace {

constexpr int spins = 4000;  // spins for some ten microseconds before it yields

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

/// One cache line is polled by the ranks that this rank reads from, the other by those that read
/// from it.
struct SharedChannel::Flags {
  alignas(64) std::atomic<std::uint64_t> read;
  alignas(64) std::atomic<std::uint64_t> ready;
  PoolAddress buffer;
  PoolAddress offers[1];  // the channel's number of published addresses
};

std::size_t SharedChannel::flag_bytes(int offers) {
  const std::size_t more = static_cast<std::size_t>(std::max(offers, 1) - 1) * sizeof(PoolAddress);
  return (sizeof(Flags) + more + 63) / 64 * 64 * slots;
}

std::size_t SharedChannel::buffer_bytes(const std::vector<Message>& sends,
                                        const std::vector<Message>& receives) {
  std::size_t bytes[2] = {};
  for (const Message& m : sends) bytes[0] += m.bytes;
  for (const Message& m : receives) bytes[1] += m.bytes;
  return std::max(bytes[0], bytes[1]);
}

SharedChannel::Flags& SharedChannel::at(std::byte* flags, std::uint64_t run) const {
  return *reinterpret_cast<Flags*>(flags + run % slots * flag_stride_);
}

SharedChannel::SharedChannel(std::shared_ptr<SharedPool> pool, MPI_Comm comm, int tag,
                             const std::vector<Message>& sends,
                             const std::vector<Message>& receives, int offers)
    : pool_(std::move(pool)),
      comm_(comm),
      flag_stride_(flag_bytes(offers) / slots),
      bytes_(buffer_bytes(sends, receives)) {
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
  flags_address_ = pool_->take_flags(flag_bytes(offers));
  flags_         = pool_->at_home(flags_address_);
  // reused flags keep their numbers
  for (std::uint64_t s = 0; s < slots; ++s)
    base_ = std::max({base_, own(s).read.load(), own(s).ready.load()});

  /// Data that two peers exchange: the address of the flags, their initial values, and the
  /// addresses of the messages to the other, forward and adjoint.
  using Told = std::array<std::uint64_t, 4>;
  std::vector<int> peers;
  std::vector<Told> told;
  const auto conversation = [&](int rank) -> Told& {
    const auto found = std::find(peers.begin(), peers.end(), rank);
    if (found != peers.end()) return told[static_cast<std::size_t>(found - peers.begin())];
    peers.push_back(rank);
    told.push_back({flags_address_, base_, 0, 0});
    return told.back();
  };
  const std::vector<Message>* lists[] = {&sends, &receives};
  for (std::size_t way = 0; way < 2; ++way) {
    std::size_t first = 0;
    for (const Message& m : *lists[way]) {
      conversation(m.peer)[2 + way] = first;
      first_[way].push_back(static_cast<index_t>(first));
      first += m.bytes;
    }
  }
  std::vector<Told> heard(told.size());
  std::vector<MPI_Request> requests(2 * told.size());
  for (std::size_t i = 0; i < told.size(); ++i) {
    check_mpi(MPI_Irecv(heard[i].data(), 4, MPI_UINT64_T, peers[i], tag, comm, &requests[2 * i]),
              "MPI_Irecv");
    check_mpi(MPI_Isend(told[i].data(), 4, MPI_UINT64_T, peers[i], tag, comm, &requests[2 * i + 1]),
              "MPI_Isend");
  }
  await_mpi("MPI_Waitall", MPI_Waitall, static_cast<int>(requests.size()), requests.data(),
            MPI_STATUSES_IGNORE);
  for (std::size_t way = 0; way < 2; ++way)
    for (const Message& m : *lists[way]) {
      const Told& answer = heard[static_cast<std::size_t>(
          std::find(peers.begin(), peers.end(), m.peer) - peers.begin())];
      Peer peer;
      peer.rank  = m.peer;
      peer.place = pool_->place_of(m.peer);
      peer.flags = pool_->at(peer.place, answer[0]);
      peer.base  = answer[1];
      // a reader in one direction is a writer in the other
      readers_[way].push_back(peer);
      peer.first = static_cast<index_t>(answer[3 - way]);
      writers_[1 - way].push_back(peer);
    }
}

SharedChannel::~SharedChannel() {
  if (abandoned_) return;
  for (const Slot& s : slots_)
    if (s.run > 0) wait_read(s.run, s.way);
  pool_->give_back_flags(flags_address_, flag_stride_ * slots);
}

bool SharedChannel::was_read() {
  return abandoned_ || std::all_of(slots_.begin(), slots_.end(), [&](const Slot& s) {
           return s.run == 0 || was_read(s.run, s.way);
         });
}

SharedPiece SharedChannel::allocate() {
  if (bytes_ == 0) return {};  // nothing is reserved: this rank has no messages on its node
  SharedPiece piece = pool_->allocate_here(bytes_);
  if (piece.data() == nullptr)
    throw Error(
        "shard::Exchange: no space in shared memory for another exchange of this plan; "
        "finish one first");
  return piece;
}

template <class Done>
void SharedChannel::spin(int rank, const Done& done) {
  if (done()) return;
  waiting_for_ = rank;
  if (!pool_->oversubscribed())
    for (int i = 0; i < spins; ++i) {
      pause();
      if (done()) return;
    }
  // a neighbour may wait for messages that MPI progresses only inside MPI calls of this rank
  constexpr int turns_between_calls = 64;
  for (int turn = 1; !done(); ++turn) {
    InFlight::help();
    sched_yield();
    int found = 0;
    if (turn % turns_between_calls == 0)
      check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &found, MPI_STATUS_IGNORE),
                "MPI_Iprobe");
  }
}

bool SharedChannel::was_read(const Peer& peer, std::uint64_t run) const {
  return at(peer.flags, run).read.load(std::memory_order_acquire) >= peer.base + run;
}

SharedChannel::Slot* SharedChannel::slot_of(std::uint64_t run) {
  Slot& slot = slots_[run % slots];
  return slot.run == run ? &slot : nullptr;
}

bool SharedChannel::was_read(std::uint64_t run, std::size_t way) {
  Slot* slot = slot_of(run);
  // a slot is reused after its last exchange was read
  if (slot == nullptr || slot->was_read) return true;
  slot->was_read = std::all_of(readers_[way].begin(), readers_[way].end(),
                               [&](const Peer& peer) { return was_read(peer, run); });
  return slot->was_read;
}

void SharedChannel::wait_read(std::uint64_t run, std::size_t way) {
  Slot* slot = slot_of(run);
  if (slot == nullptr || slot->was_read) return;
  for (const Peer& peer : readers_[way]) spin(peer.rank, [&] { return was_read(peer, run); });
  slot->was_read = true;
}

void SharedTransport::begin(std::uint64_t) {
  run_                             = channel_->run_ + 1;
  const SharedChannel::Slot& older = channel_->slots_[run_ % SharedChannel::slots];
  if (older.in_flight)
    throw_argument("Exchange", {"more than ", text(static_cast<index_t>(SharedChannel::slots)),
                                " exchanges of one plan are in progress; finish one first"});
  if (older.run > 0) channel_->wait_read(older.run, older.way);
  if (buffer_->run > 0) channel_->wait_read(buffer_->run, buffer_->way);
  channel_->own(run_).buffer = buffer_->piece.address();
}

PoolAddress* SharedTransport::offers() const { return channel_->own(run_).offers; }

void SharedTransport::start(Stream) {
  channel_->run_                                = run_;
  channel_->slots_[run_ % SharedChannel::slots] = {run_, way_, true};
  buffer_->run                                  = run_;
  buffer_->way                                  = way_;
  channel_->own(run_).ready.store(channel_->base_ + run_, std::memory_order_release);
}

void SharedTransport::wait(Stream) {
  for (const SharedChannel::Peer& peer : channel_->writers_[way_])
    channel_->spin(peer.rank, [&] {
      return channel_->at(peer.flags, run_).ready.load(std::memory_order_acquire) >=
             peer.base + run_;
    });
}

bool SharedTransport::is_there() const {
  const auto& writers = channel_->writers_[way_];
  return std::all_of(writers.begin(), writers.end(), [&](const SharedChannel::Peer& peer) {
    return channel_->at(peer.flags, run_).ready.load(std::memory_order_acquire) >= peer.base + run_;
  });
}

const std::byte* SharedTransport::incoming(std::size_t i) const {
  const SharedChannel::Peer& peer = channel_->writers_[way_][i];
  const PoolAddress buffer        = channel_->at(peer.flags, run_).buffer;
  return channel_->pool_->at(peer.place, buffer) + peer.first;
}

void SharedTransport::release() {
  channel_->slots_[run_ % SharedChannel::slots].in_flight = false;
  channel_->own(run_).read.store(channel_->base_ + run_, std::memory_order_release);
}

SharedTransport::Offered SharedTransport::offered(std::size_t i) const {
  const SharedChannel::Peer& peer = channel_->writers_[way_][i];
  return {channel_->pool_.get(), peer.place, channel_->at(peer.flags, run_).offers};
}

}  // namespace shard::impl
