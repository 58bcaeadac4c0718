// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SRC_EXCHANGE_PLAN_CHANNEL_HPP
#define SHARD_SRC_EXCHANGE_PLAN_CHANNEL_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device_carrier.hpp"
#include "job_builder.hpp"
#include "plan_layout.hpp"
#include "shard/comm/impl/announcement.hpp"
#include "shard/comm/impl/device_space.hpp"
#include "shard/comm/impl/in_flight.hpp"
#include "shard/comm/impl/mpi_transport.hpp"
#include "shard/comm/impl/shared_transport.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/exchange/impl/field_plan.hpp"

namespace shard::impl {

/// Strides of a field that is read, and of one that is written, in values.
struct FieldStrides {
  Strides read{}, written{};
  friend bool operator==(const FieldStrides&, const FieldStrides&) = default;
};

/// Numbers of a plan's address table.
struct Entries {
  int fields = 0, shared_sends = 0, shared_receives = 0;

  int from(int field) const { return field; }
  int to(int field) const { return fields + field; }
  int send() const { return 2 * fields; }
  int receive() const { return 2 * fields + 1; }
  int constants() const { return 2 * fields + 2; }
  /// Not null in a run in which this rank offers its fields.
  int offered() const { return 2 * fields + 3; }
  /// What shared memory brings: message i of a forward or adjoint run, and its sender's field.
  int incoming(bool forward, std::size_t i) const {
    return 2 * fields + 4 + (static_cast<int>(i) + (forward ? 0 : shared_receives)) * (1 + fields);
  }
  int peer_field(bool forward, std::size_t i, int field) const {
    return incoming(forward, i) + 1 + field;
  }
  /// What shared memory carries away: message i of a forward or adjoint run.
  int outgoing(bool forward, std::size_t i) const {
    return incoming(false, static_cast<std::size_t>(shared_sends)) + static_cast<int>(i) +
           (forward ? 0 : shared_sends);
  }
  int count() const { return outgoing(false, static_cast<std::size_t>(shared_receives)); }
};

template <class Memory>
class PlanChannel;

/// Buffers and requests of one exchange in flight.
template <class Memory>
struct BufferSet {
  explicit BufferSet(const PlanChannel<Memory>& channel);
  BufferSet(const BufferSet&)            = delete;
  BufferSet& operator=(const BufferSet&) = delete;
  /// After an error messages may still come: the memory for them is kept then, for good.
  ~BufferSet();

  bool busy              = false;
  bool taken             = false;  // values were taken before finish
  index_t done           = 0;      // work items that needed no message, done before it came
  bool offers            = false;
  bool seen              = false;  // by Kokkos' tools
  bool forward           = true;
  bool captured          = false;  // a graph uses it: nothing but this graph may, from then on
  std::uint64_t sequence = 0;
  // what is sent and what is received, staged or not
  Kokkos::View<std::byte*, Memory> bytes;
  Kokkos::View<std::byte*, StagingMemory<Memory>> staged;
  // an adjoint swaps them: it sends from `receive` and receives into `send`
  std::byte *send = nullptr, *receive = nullptr;
  Kokkos::View<Address*, Memory> addresses;
  // never the memory that kernels read where these may still run: not a mirror, which may be
  Kokkos::View<Address*, Kokkos::HostSpace> host_addresses;
  std::optional<MpiTransport> mpi[2];    // forward, adjoint
  std::optional<NcclTransport> nccl[2];  // carries what MPI would, if there is one
  SharedBuffer shared_buffer;
  std::optional<SharedTransport> shared[2];
  // the next three under SHARD_CHECK=1 only
  Announcement announcement;
  std::uint64_t checksum = 0;      // at the start, of the points that must not change until finish
  bool changed           = false;  // of an adjoint: the checksum differed before it added
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
  // whose kernels read this set last: on a device they may still run when another instance comes
  std::optional<typename Memory::execution_space> last;
  InFlight in_flight;  // while neighbours may wait for what is read of theirs
};

/// What the plans of a family share: they send the same messages, and which of them a rank runs is
/// its own business.
template <class Memory>
class PlanChannel {
 public:
  /// Collective over the mesh. Marks the pieces of `layout` that are read directly.
  PlanChannel(MeshState& mesh, const Route& route, std::vector<FieldStrides> strides,
              const Tuning& tuning, std::uint32_t number, Carrier carrier,
              std::shared_ptr<SharedPool> pool, PlanLayout& layout);
  ~PlanChannel();
  PlanChannel(const PlanChannel&)            = delete;
  PlanChannel& operator=(const PlanChannel&) = delete;

  /// Of its buffers, outside of shared windows.
  std::size_t bytes() const;
  /// Whether the peers have read all that it sent: then its end doesn't wait.
  bool may_end() { return !shared || shared->was_read(); }
  /// Marks the pieces of a sibling's layout as those of the first.
  void mark(PlanLayout& layout) const;
  /// A set that isn't in flight.
  int free_set();

  /// Tag of the plan's messages, forward or adjoint, in the mesh's communicator.
  int tag(std::uint32_t direction) const {
    return static_cast<int>((number * 2 + direction) %
                            static_cast<std::uint32_t>(mesh.plan_tags()));
  }
  /// What this rank waits for in a run, for the watchdog.
  Wait wait_for(const char* what, std::uint64_t run, const int& peer) const {
    return {what, mesh.rank(), &peer, number, run, &names};
  }

  MeshState& mesh;
  const std::string names;  // of the fields
  const Tuning tuning;
  const std::uint32_t number;
  std::uint64_t sequence = 0;
  /// Whether a Kokkos profiling tool is attached. Asking costs as much as packing a small face, so
  /// the answer is kept for 16 runs.
  bool has_tool(std::uint64_t run) {
    if (run % 16 == 0) has_tool_ = Kokkos::Profiling::profileLibraryLoaded();
    return has_tool_;
  }
  const bool check;
  const std::vector<PeerMessage> sends, receives;
  std::vector<int> peers;  // of either, ascending
  std::size_t send_bytes = 0, receive_bytes = 0;
  const Entries entries;
  const Carrier carrier;
  std::shared_ptr<SharedPool> pool;       // null where MPI carries all
  std::unique_ptr<SharedChannel> shared;  // null too
  // of this rank's fields, as it sent them to its peers, and of the peers' on this node, in the
  // order of their messages
  const std::vector<FieldStrides> strides;
  std::vector<std::vector<FieldStrides>> senders, readers;
  std::vector<std::unique_ptr<BufferSet<Memory>>> sets;

 private:
  void exchange_strides();

  const int exceptions_;  // in flight when it was made
  bool has_tool_ = false;
  std::vector<bool> sent_direct_, received_direct_;
};

}  // namespace shard::impl

#endif
