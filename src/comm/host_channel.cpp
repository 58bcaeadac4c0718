// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One message for each pair of hosts, in which the ranks of a host join theirs.
#include "host_channel.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "spin.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/patience.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/comm/impl/channel.hpp"
#include "shard/comm/impl/in_flight.hpp"
#include "shard/comm/impl/shared_pool.hpp"

namespace shard::impl {

namespace {

constexpr std::uint64_t host_slots = 4;  // largest number of exchanges in progress

/// The hosts of a mesh.
struct Hosts : CachedPlan {
  explicit Hosts(MeshState& mesh) : pool(SharedPool::of(mesh)) {
    int first = 0;
    while (first != mesh.rank() && pool->place_of(first) < 0) ++first;
    await_mpi("MPI_Comm_split", MPI_Comm_split, mesh.comm(), first, mesh.rank(), &comm);
    of.resize(static_cast<std::size_t>(mesh.size()));
    await_mpi("MPI_Allgather", MPI_Allgather, &first, 1, MPI_INT, of.data(), 1, MPI_INT,
              mesh.comm());
    ranks = static_cast<int>(std::count(of.begin(), of.end(), first));
  }
  ~Hosts() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized == 0) MPI_Comm_free(&comm);
  }
  int host_of(int rank) const { return of[static_cast<std::size_t>(rank)]; }
  bool are_several() const { return static_cast<std::size_t>(ranks) < of.size(); }

  const std::shared_ptr<SharedPool> pool;
  MPI_Comm comm = MPI_COMM_NULL;  ///< the ranks of this host, ascending
  int ranks     = 1;              ///< of this host
  std::vector<int> of;            ///< for each rank of the mesh the lowest rank of its host
};

std::shared_ptr<Hosts> hosts_of(MeshState& mesh) {
  return mesh.one_of_its_kind(PlanKey::of(KeyKind::hosts),
                              [&] { return std::make_shared<Hosts>(mesh); });
}

/// A message of this host's ranks to or from another host's.
struct JoinedMessage {
  std::uint64_t sender, receiver, bytes;
  friend bool operator<(const JoinedMessage& a, const JoinedMessage& b) {
    return std::tie(a.sender, a.receiver) < std::tie(b.sender, b.receiver);
  }
};

/// The messages of all ranks of a host, in the order in which they are joined: both ends compute
/// the same. Collective over this host.
std::vector<JoinedMessage> joined_messages(const Hosts& hosts, int rank,
                                           const std::vector<Message>& mine, bool sent) {
  std::vector<JoinedMessage> entries;
  for (const Message& m : mine) {
    const auto me = static_cast<std::uint64_t>(rank), other = static_cast<std::uint64_t>(m.peer);
    entries.push_back({sent ? me : other, sent ? other : me, m.bytes});
  }
  int count = static_cast<int>(3 * entries.size()), sum = 0;
  std::vector<int> counts(static_cast<std::size_t>(hosts.ranks)), firsts;
  await_mpi("MPI_Allgather", MPI_Allgather, &count, 1, MPI_INT, counts.data(), 1, MPI_INT,
            hosts.comm);
  for (const int c : counts) firsts.push_back(std::exchange(sum, sum + c));
  std::vector<JoinedMessage> all(static_cast<std::size_t>(sum) / 3);
  await_mpi("MPI_Allgatherv", MPI_Allgatherv, entries.data(), count, MPI_UINT64_T, all.data(),
            counts.data(), firsts.data(), MPI_UINT64_T, hosts.comm);
  std::sort(all.begin(), all.end());
  return all;
}

/// Of one slot, in memory of the leader. All three only grow.
struct JoinFlags {
  alignas(64) std::atomic<std::uint64_t> packed;  ///< ranks, in all exchanges of the slot
  alignas(64) std::atomic<std::uint64_t> done;    ///< last exchange that was sent and has arrived
  alignas(64) std::atomic<std::uint64_t> read;    ///< ranks, in all exchanges of the slot
};

/// The joined messages between this host and another one. Of the ranks that have messages there the
/// lowest leads: it sends and receives them, in its memory. What is sent forward is received by the
/// transpose, in the same order: section 0 is sent forward, section 1 received.
struct HostPair {
  /// A message of this rank.
  struct Part {
    std::size_t in_section, in_buffer, bytes;  ///< in_buffer: the plan's
  };
  enum class State : std::uint8_t { idle, packing, sent };

  std::set<int> ranks;  // of this host, with messages to or from the other one
  int peer = -1;        // the rank that leads there
  std::array<std::size_t, 2> bytes{};
  std::array<std::vector<Part>, 2> parts;
  std::byte* memory = nullptr;
  // the leader's
  std::array<State, host_slots> state{};
  std::array<std::uint64_t, host_slots> uses{};
  std::array<std::array<std::array<MPI_Request, 2>, 2>, host_slots> requests{};

  int leader() const { return *ranks.begin(); }
  std::size_t memory_bytes() const {
    return host_slots * (sizeof(JoinFlags) + bytes[0] + bytes[1]);
  }
  JoinFlags& flags(std::uint64_t slot) const { return reinterpret_cast<JoinFlags*>(memory)[slot]; }
  std::byte* section(std::uint64_t slot, std::size_t s) const {
    return memory + host_slots * sizeof(JoinFlags) + slot * (bytes[0] + bytes[1]) + s * bytes[0];
  }
  bool was_read(std::uint64_t slot) const {
    return state[slot] == State::idle &&
           flags(slot).read.load(std::memory_order_acquire) >= ranks.size() * uses[slot];
  }
};

/// Each rank copies its messages to the leader's memory and counts itself in `packed`. When all
/// have, the leader sends the joined message. When that has left, and the other host's has come, it
/// stores the exchange's number in `done`; then each rank copies what is for it, and counts itself
/// in `read`. Counts are added with release order and loaded with acquire order before the memory
/// is used.
///
/// Nobody waits in `start`. The leader's part is done in its polls and waits, of other exchanges
/// too (InFlight).
class HostChannel final : public Channel {
 public:
  HostChannel(const MeshState& mesh, std::shared_ptr<Hosts> hosts)
      : hosts_(std::move(hosts)), comm_(mesh.comm()), rank_(mesh.rank()) {}
  ~HostChannel() override;

  Properties properties() const override { return {.needs_calls = true}; }
  bool serves(int peer) const override { return hosts_->host_of(peer) != hosts_->host_of(rank_); }
  bool serves_all() const override { return false; }
  /// False if a message is too long to be joined.
  bool reserve(const ChannelMessages& messages) override;
  void connect(const ChannelMessages& messages) override;
  std::array<std::unique_ptr<Transport>, 2> make(std::byte* send, std::byte* receive) override;
  bool may_end() override {
    progress();
    return abandoned_ || std::all_of(led_.begin(), led_.end(), [](const HostPair* pair) {
             for (std::uint64_t slot = 0; slot < host_slots; ++slot)
               if (!pair->was_read(slot)) return false;
             return true;
           });
  }
  void abandon() override { abandoned_ = true; }
  const int& waiting_for() const override { return waiting_for_; }

 private:
  friend class HostTransport;
  /// What this rank has to do for others.
  void progress();
  template <class Done>
  void wait(const Done& done) {
    const auto look = led_.empty() ? Patience::Look::memory : Patience::Look::messages;
    spin(comm_, Patience(look, hosts_->pool->oversubscribed()), done);
  }

  std::shared_ptr<Hosts> hosts_;
  MPI_Comm comm_;
  int rank_, waiting_for_ = -1;
  bool abandoned_ = false;
  SharedPiece piece_;
  std::vector<JoinFlags> own_;                         // in its place on a host of one rank
  std::array<std::vector<std::size_t>, 2> in_buffer_;  // of messages sent and received forward
  std::vector<HostPair> pairs_;                        // those in which this rank has messages
  std::vector<HostPair*> led_;
  std::uint64_t run_ = 0;
  std::array<std::size_t, host_slots> direction_{};
  std::array<bool, host_slots> in_progress_{};
  InFlight in_flight_;
};

bool HostChannel::reserve(const ChannelMessages& messages) {
  std::map<int, HostPair> pairs;  // by host
  const std::vector<Message>* const lists[] = {&messages.sends, &messages.receives};
  std::size_t longest                       = 0;
  for (std::size_t s = 0; s < 2; ++s) {
    std::map<int, std::size_t> in_buffer;  // by peer
    std::size_t end = 0;
    for (const Message& m : *lists[s]) {
      in_buffer[m.peer] = end;
      in_buffer_[s].push_back(end);
      end += m.bytes;
      longest = std::max(longest, m.bytes);
    }
    for (const JoinedMessage& e : joined_messages(*hosts_, rank_, *lists[s], s == 0)) {
      const int here  = static_cast<int>(s == 0 ? e.sender : e.receiver),
                there = static_cast<int>(s == 0 ? e.receiver : e.sender);
      HostPair& pair  = pairs[hosts_->host_of(there)];
      pair.ranks.insert(here);
      pair.peer = pair.peer < 0 ? there : std::min(pair.peer, there);
      if (here == rank_) pair.parts[s].push_back({pair.bytes[s], in_buffer[there], e.bytes});
      pair.bytes[s] += e.bytes;
    }
  }
  std::map<int, std::size_t> room;  // that each leader needs
  for (auto& [host, pair] : pairs) room[pair.leader()] += pair.memory_bytes();
  SharedPool& pool       = *hosts_->pool;
  std::byte* memory      = nullptr;
  const std::size_t mine = std::max(room[rank_], sizeof(JoinFlags));
  if (pool.usable()) {
    piece_ = pool.allocate(mine);
    memory = piece_.data();
  } else {
    own_   = std::vector<JoinFlags>((mine + sizeof(JoinFlags) - 1) / sizeof(JoinFlags));
    memory = reinterpret_cast<std::byte*>(own_.data());
  }
  if (memory != nullptr) std::memset(memory, 0, mine);
  const PoolAddress address = piece_.address();
  std::vector<PoolAddress> addresses(static_cast<std::size_t>(hosts_->ranks));
  await_mpi("MPI_Allgather", MPI_Allgather, &address, 1, MPI_UINT64_T, addresses.data(), 1,
            MPI_UINT64_T, hosts_->comm);
  int refused = memory == nullptr || longest > longest_joined ? 1 : 0;
  await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, &refused, 1, MPI_INT, MPI_MAX, comm_);
  if (refused != 0) return false;
  for (auto& [host, pair] : pairs) {
    const int place    = pool.place_of(pair.leader());
    std::byte* const m = pair.leader() == rank_
                             ? memory
                             : pool.at(place, addresses[static_cast<std::size_t>(place)]);
    std::size_t& left  = room[pair.leader()];
    left -= pair.memory_bytes();
    pair.memory = m + left;
    if (pair.ranks.count(rank_) != 0) pairs_.push_back(std::move(pair));
  }
  return true;
}

void HostChannel::connect(const ChannelMessages& messages) {
  for (HostPair& pair : pairs_) {
    if (pair.leader() != rank_) continue;
    led_.push_back(&pair);
    for (std::uint64_t slot = 0; slot < host_slots; ++slot)
      for (std::size_t way = 0; way < 2; ++way) {
        auto& [send, receive] = pair.requests[slot][way];
        check_mpi(MPI_Send_init(pair.section(slot, way), static_cast<int>(pair.bytes[way]),
                                MPI_BYTE, pair.peer, messages.tags[way], comm_, &send),
                  "MPI_Send_init");
        check_mpi(MPI_Recv_init(pair.section(slot, 1 - way), static_cast<int>(pair.bytes[1 - way]),
                                MPI_BYTE, pair.peer, messages.tags[way], comm_, &receive),
                  "MPI_Recv_init");
      }
  }
}

HostChannel::~HostChannel() {
  if (!abandoned_) wait([&] { return may_end(); });
  in_flight_.leave();
  if (abandoned_) piece_.abandon();
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0) return;
  for (HostPair* pair : led_)
    for (auto& of_slot : pair->requests)
      for (auto& of_way : of_slot)
        for (MPI_Request& request : of_way) MPI_Request_free(&request);
}

void HostChannel::progress() {
  for (HostPair* pair : led_)
    for (std::uint64_t run = run_ < host_slots ? 1 : run_ - host_slots + 1; run <= run_; ++run) {
      const std::uint64_t slot = run % host_slots;
      HostPair::State& state   = pair->state[slot];
      JoinFlags& flags         = pair->flags(slot);
      auto& requests           = pair->requests[slot][direction_[slot]];
      if (state == HostPair::State::packing) {
        // messages leave in the order of exchanges, in which the other host receives them
        if (flags.packed.load(std::memory_order_acquire) < pair->ranks.size() * pair->uses[slot])
          break;
        check_mpi(MPI_Start(requests.data()), "MPI_Start");
        state = HostPair::State::sent;
      }
      if (state != HostPair::State::sent) continue;
      int done = 0;
      check_mpi(MPI_Testall(2, requests.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
      if (done == 0) continue;
      state = HostPair::State::idle;
      flags.done.store(run, std::memory_order_release);
    }
}

/// The exchanges of a channel in one direction.
class HostTransport final : public Transport {
 public:
  HostTransport(HostChannel& channel, std::size_t direction, std::byte* sent, std::byte* received)
      : channel_(&channel), direction_(direction), sent_(sent), received_(received) {}
  ~HostTransport() override {}  // NOLINT(modernize-use-equals-default): hipcc

  void post_receives(std::uint64_t) override {
    const std::uint64_t run = channel_->run_ + 1, slot = run % host_slots;
    if (channel_->in_progress_[slot])
      throw_argument("Exchange", {"more than ", text(static_cast<index_t>(host_slots)),
                                  " exchanges of one plan are in progress; finish one first"});
    for (const HostPair* pair : channel_->led_)
      channel_->wait([&] {
        channel_->progress();
        return pair->was_read(slot);
      });
    run_ = run;
  }
  std::byte* outgoing(std::size_t i) const override {
    return sent_ + channel_->in_buffer_[direction_][i];
  }
  void send_all(Stream) override {
    const std::uint64_t slot     = run_ % host_slots;
    channel_->run_               = run_;
    channel_->direction_[slot]   = direction_;
    channel_->in_progress_[slot] = true;
    taken_                       = false;
    for (HostPair& pair : channel_->pairs_) {
      for (const HostPair::Part& part : pair.parts[direction_])
        std::memcpy(pair.section(slot, direction_) + part.in_section, sent_ + part.in_buffer,
                    part.bytes);
      pair.flags(slot).packed.fetch_add(1, std::memory_order_release);
    }
    for (HostPair* pair : channel_->led_) {
      ++pair->uses[slot];
      pair->state[slot] = HostPair::State::packing;
      check_mpi(MPI_Start(&pair->requests[slot][direction_][1]), "MPI_Start");
    }
    if (channel_->led_.empty()) return;
    channel_->in_flight_.enter(
        [](void* channel, void*) { static_cast<HostChannel*>(channel)->progress(); }, channel_,
        nullptr);
    channel_->progress();
  }
  bool has_arrived() override {
    if (taken_) return true;
    channel_->progress();
    const std::uint64_t slot = run_ % host_slots;
    for (const HostPair& pair : channel_->pairs_) {
      const bool packing     = pair.state[slot] == HostPair::State::packing;
      channel_->waiting_for_ = pair.leader() != channel_->rank_ ? pair.leader()
                               : packing                        ? -1
                                                                : pair.peer;
      if (pair.flags(slot).done.load(std::memory_order_acquire) < run_) return false;
    }
    for (HostPair& pair : channel_->pairs_) {
      for (const HostPair::Part& part : pair.parts[1 - direction_])
        std::memcpy(received_ + part.in_buffer,
                    pair.section(slot, 1 - direction_) + part.in_section, part.bytes);
      pair.flags(slot).read.fetch_add(1, std::memory_order_release);
    }
    return taken_ = true;
  }
  void wait(Stream) override {
    channel_->wait([&] { return has_arrived(); });
  }
  const std::byte* incoming(std::size_t i) const override {
    return received_ + channel_->in_buffer_[1 - direction_][i];
  }
  void end() override {
    auto& busy              = channel_->in_progress_;
    busy[run_ % host_slots] = false;
    if (std::find(busy.begin(), busy.end(), true) == busy.end()) channel_->in_flight_.leave();
  }
  /// Returns whether the messages have arrived within a tenth of a second.
  bool abandon() override {
    const auto last = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    while (!has_arrived())
      if (std::chrono::steady_clock::now() > last) return false;
    end();
    return true;
  }
  const int& waiting_for() const override { return channel_->waiting_for_; }

 private:
  HostChannel* channel_;
  std::size_t direction_;
  std::byte *sent_, *received_;
  std::uint64_t run_ = 0;
  bool taken_        = true;  // the received messages are in the plan's buffer
};

std::array<std::unique_ptr<Transport>, 2> HostChannel::make(std::byte* send, std::byte* receive) {
  return {std::make_unique<HostTransport>(*this, 0, send, receive),
          std::make_unique<HostTransport>(*this, 1, receive, send)};
}

}  // namespace

std::unique_ptr<Channel> open_host_channel(const ChannelRequest& request) {
  if (request.device || !request.joins_hosts) return nullptr;
  auto hosts = hosts_of(request.mesh);
  if (!hosts->are_several()) return nullptr;
  return std::make_unique<HostChannel>(request.mesh, std::move(hosts));
}

bool may_join_hosts(MeshState& mesh) {
  constexpr int least_ranks = 4;
  const auto hosts          = hosts_of(mesh);
  std::map<int, int> ranks;
  for (const int host : hosts->of) ++ranks[host];
  return ranks.size() > 1 && std::any_of(ranks.begin(), ranks.end(), [](const auto& host) {
           return host.second >= least_ranks;
         });
}

}  // namespace shard::impl
