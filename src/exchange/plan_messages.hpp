// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_PLAN_MESSAGES_HPP
#define SHARD_SRC_EXCHANGE_PLAN_MESSAGES_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "job_builder.hpp"
#include "plan_layout.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/comm/impl/announcement.hpp"
#include "shard/comm/impl/channel.hpp"
#include "shard/comm/impl/device_space.hpp"
#include "shard/comm/impl/in_flight.hpp"
#include "shard/exchange/impl/field_plan.hpp"

namespace shard::impl {

/// Strides of a field that is read, and of one that is written, in values.
struct FieldStrides {
  Strides read{}, written{};
  friend bool operator==(const FieldStrides&, const FieldStrides&) = default;
};

/// Numbers of a plan's address table.
struct Entries {
  int fields = 0, mapped_sends = 0, mapped_receives = 0;

  int from(int field) const { return field; }
  int to(int field) const { return fields + field; }
  int send() const { return 2 * fields; }
  int receive() const { return 2 * fields + 1; }
  int constants() const { return 2 * fields + 2; }
  /// Not null in an exchange in which this rank publishes its fields.
  int published() const { return 2 * fields + 3; }
  /// Mapped message i that is received in a forward or adjoint exchange, and its sender's field.
  int incoming(bool forward, std::size_t i) const {
    return 2 * fields + 4 + (static_cast<int>(i) + (forward ? 0 : mapped_receives)) * (1 + fields);
  }
  int peer_field(bool forward, std::size_t i, int field) const {
    return incoming(forward, i) + 1 + field;
  }
  /// Mapped message i that is sent in a forward or adjoint exchange.
  int outgoing(bool forward, std::size_t i) const {
    return incoming(false, static_cast<std::size_t>(mapped_sends)) + static_cast<int>(i) +
           (forward ? 0 : mapped_sends);
  }
  int count() const { return outgoing(false, static_cast<std::size_t>(mapped_receives)); }
};

template <class Memory>
class PlanMessages;

/// The state of a buffer set.
enum class SetState : std::uint8_t {
  free,
  started,
  unpacked,  ///< the received values are in their places; the exchange isn't finished
  lost,      ///< after an error messages may still arrive: never used again
};

/// Buffers, requests and addresses of one exchange in progress.
template <class Memory>
struct BufferSet {
  explicit BufferSet(const PlanMessages<Memory>& messages);
  BufferSet(const BufferSet&)            = delete;
  BufferSet& operator=(const BufferSet&) = delete;
  /// Never frees the buffers of a lost set.
  ~BufferSet();

  SetState state         = SetState::free;
  Direction direction    = Direction::forward;
  bool has_tool          = false;  // a Kokkos profiling tool is attached
  bool published         = false;  // peers read this rank's fields in place
  bool captured          = false;  // a graph uses it; nothing but this graph may, from then on
  index_t done           = 0;      // work items without messages that are done before finish
  std::uint64_t sequence = 0;
  // what is sent and what is received, staged or not
  Kokkos::View<std::byte*, Memory> bytes;
  Kokkos::View<std::byte*, StagingMemory<Memory>> staged;
  // an adjoint swaps them: it sends from `receive` and receives into `send`
  std::byte *send = nullptr, *receive = nullptr;
  Kokkos::View<Address*, Memory> addresses;
  // not a mirror, which may be the memory that kernels read: these may still run
  Kokkos::View<Address*, Kokkos::HostSpace> host_addresses;
  // of the channels with messages on this rank, in their order: forward, adjoint
  std::array<std::vector<std::unique_ptr<Transport>>, 2> transports;
  std::array<Transport*, 2> mapped{};  // the one of mapped memory among them, or null
  // the next three under SHARD_CHECK=1 only
  Announcement announcement;
  std::uint64_t checksum = 0;  // at the start, of the points that must not change until finish
  std::uint64_t checksum_before_adding = 0;  // of an adjoint
  /// Whether kernels take the addresses in their arguments.
  bool passes_addresses() const {
    return !std::is_same_v<Memory, Kokkos::HostSpace> &&
           host_addresses.extent(0) <= Addresses::most;
  }
  /// The addresses for a kernel that is launched now.
  Addresses table() const {
    Addresses of;
    if (!passes_addresses())
      of.memory = addresses.data();
    else
      for (std::size_t i = 0; i < host_addresses.extent(0); ++i) of.entries[i] = host_addresses(i);
    return of;
  }
  // whose kernels read this set last; on a device they may still run when another instance uses it
  std::optional<typename Memory::execution_space> last;
  InFlight in_flight;  // while neighbours may wait until this rank has read their fields
};

/// The messages of plans that differ only in their fields' strides: channels and buffer sets. Each
/// rank decides alone which of these plans it runs.
template <class Memory>
class PlanMessages {
 public:
  /// Marks the pieces of `layout` that are read directly. Not collective, but peers that share
  /// mapped memory send each other its addresses.
  PlanMessages(MeshState& mesh, const Route& route, std::vector<FieldStrides> strides,
               const Tuning& tuning, std::uint32_t number, Channels channels, PlanLayout& layout);
  /// Waits until the peers have read the last messages, unless they may never do: this rank leaves
  /// by an exception, or MPI is finalized.
  ~PlanMessages();
  PlanMessages(const PlanMessages&)            = delete;
  PlanMessages& operator=(const PlanMessages&) = delete;

  /// Of its buffers, outside of mapped memory.
  std::size_t bytes() const;
  /// Whether the destructor would not wait.
  bool may_end() const;
  /// Marks the pieces of a sibling's layout as those of the first.
  void mark(PlanLayout& layout) const;
  /// A set that isn't in use, if possible one whose messages have been read.
  std::size_t free_set();

  /// The messages of a channel.
  ChannelMessages of_channel(std::size_t c) const;
  /// Whether this rank has messages of a channel.
  bool uses(std::size_t c) const;
  /// Whether the host waits for some message of this rank.
  bool host_waits() const;
  /// Whether some channel is of mapped memory, with or without messages; the same on all ranks that
  /// share the memory.
  bool has_mapped() const;

  /// Tag of the plan's messages, forward or adjoint, in the mesh's communicator.
  int tag(std::uint32_t direction) const {
    return static_cast<int>((number * 2 + direction) %
                            static_cast<std::uint32_t>(mesh.plan_tags()));
  }
  /// What this rank waits for in an exchange, for the watchdog.
  Wait wait_for(const char* what, std::uint64_t run, const int& peer) const {
    return {what, mesh.rank(), &peer, number, run, &names};
  }

  MeshState& mesh;
  const std::string names;  // of the fields
  const Tuning tuning;
  const std::uint32_t number;
  std::uint64_t sequence = 0;
  ToolProbe tool;
  const bool check;  // SHARD_CHECK=1
  const std::vector<PeerMessage> sends, receives;
  std::vector<int> peers;  // of either, ascending
  std::size_t send_bytes = 0, receive_bytes = 0;
  // of fields in host memory: some move in several steps, each begun by a call
  const bool has_long;
  const bool may_poll;  // before the end of an exchange whether its messages have arrived
  const Entries entries;
  Channels channels;
  // of this rank's fields, as it sent them to its peers, and of the peers' with mapped memory, in
  // the order of their messages
  const std::vector<FieldStrides> strides;
  std::vector<std::vector<FieldStrides>> senders, readers;
  std::vector<std::unique_ptr<BufferSet<Memory>>> sets;

 private:
  void exchange_strides();

  const int exceptions_;  // in flight when it was made
  std::vector<bool> sent_direct_, received_direct_;
};

}  // namespace shard::impl

#endif
