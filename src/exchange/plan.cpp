// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Running a plan.
#include "plan.hpp"

#include <string>
#include <utility>

#include "run_jobs.hpp"
#include "shard/base/error.hpp"
#include "shard/view/region.hpp"

namespace shard::impl {

namespace {

/// A region for profiling tools, if one is attached.
class ToolRegion {
 public:
  ToolRegion(const char* label, bool seen) : seen_(seen) {
    if (seen_) Kokkos::Profiling::pushRegion(label);
  }
  ~ToolRegion() {
    if (seen_) Kokkos::Profiling::popRegion();
  }
  ToolRegion(const ToolRegion&)            = delete;
  ToolRegion& operator=(const ToolRegion&) = delete;

 private:
  bool seen_;
};

/// The set for a run that is captured. No other instance used it last, for a graph can't wait for
/// that. Where kernels read the addresses in memory, it holds those of these fields already: a
/// graph would copy them from the host again when it is launched.
template <class Memory, class Space>
std::size_t set_for_graph(PlanChannel<Memory>& c, const Space& space,
                          const FieldAddresses& addresses, const std::byte* constants) {
  const auto refuse = [&](const std::string& why) {
    throw Error("shard::Exchange: rank " + text(c.mesh.rank()) + ": plan " + text(c.number) + " (" +
                c.names + ") can't be captured in a graph: " + why);
  };
  if (!c.carrier.group && !c.peers.empty())
    refuse("its messages go by MPI, which the host waits for; NCCL can be captured");
  if (c.check) refuse("SHARD_CHECK=1 makes the host wait; unset it");
  for (std::size_t i = 0; i < c.sets.size(); ++i) {
    BufferSet<Memory>& set = *c.sets[i];
    if (set.busy || !set.last || *set.last != space) continue;
    const auto holds = [&](int entry, const void* address) {
      return set.host_addresses(entry).bytes == address;
    };
    bool all = holds(c.entries.constants(), constants);
    for (int f = 0; f < c.entries.fields; ++f)
      all = all && holds(c.entries.from(f), addresses.from[f]) &&
            holds(c.entries.to(f), addresses.to[f]);
    if (!all && !set.passes_addresses()) continue;
    set.captured = true;
    return i;
  }
  refuse(
      "run it once before, on the same instance and as the last run of this plan, so that all is "
      "in place" +
      std::string(
          c.entries.count() > Addresses::most
              ? "; a plan of more than six fields can be captured for the fields of that run alone"
              : ""));
  return 0;
}

template <class Memory, class Space>
std::size_t set_for(PlanChannel<Memory>& c, [[maybe_unused]] const Space& space,
                    [[maybe_unused]] const FieldAddresses& addresses,
                    [[maybe_unused]] const std::byte* constants) {
  if constexpr (!std::is_same_v<Memory, Kokkos::HostSpace>)
    if (is_captured(space)) return set_for_graph(c, space, addresses, constants);
  return static_cast<std::size_t>(c.free_set());
}

}  // namespace

/// Offers this rank's fields to be read in place, if peers can read them and all fields are in
/// shared memory with the strides that this rank sent to its peers. Else they are packed. Only one
/// exchange of the mesh may offer at a time, because two ranks could wait for each other to read.
/// With SHARD_CHECK=1 an adjoint offers no halo: the peer would zero it, and the checksum could not
/// tell that from a write by the user.
template <class Memory>
void Plan<Memory>::offer(BufferSet<Memory>& set, const FieldAddresses& addresses,
                         bool forward) const {
  SharedTransport& transport = *set.shared[forward ? 0 : 1];
  const SharedPool& pool     = *channel_->pool;
  bool offers = read_directly_[forward ? 0 : 1] && strides_are_sent_ && pool.in_flight == 0 &&
                (forward || !channel_->check);
  const int fields           = channel_->entries.fields;
  void* const* const offered = forward ? addresses.from : addresses.to;
  PoolAddress* const places  = transport.offers();
  SharedPool::Part part;
  for (int f = 0; f < fields && offers; ++f) {
    if (!part.has(offered[f])) part = pool.part_of(offered[f]);
    offers = part.has(offered[f]);
    if (offers) places[f] = part.address_of(offered[f]);
  }
  if (!offers)
    for (int f = 0; f < fields; ++f) places[f] = no_address;
  set.offers = offers;
}

/// Enters where fields and buffers are.
template <class Memory>
template <class Space>
void Plan<Memory>::enter_addresses(const Space& space, BufferSet<Memory>& set,
                                   const FieldAddresses& addresses, bool forward) const {
  constexpr bool host  = std::is_same_v<Memory, Kokkos::HostSpace>;
  const Entries& entry = channel_->entries;
  Address* const table = set.host_addresses.data();
  bool changed         = false;
  const auto enter     = [&](int i, void* address) {
    auto* bytes = static_cast<std::byte*>(address);
    if constexpr (!host) changed = changed || table[i].bytes != bytes;
    table[i].bytes = bytes;
  };
  for (int f = 0; f < entry.fields; ++f) {
    enter(entry.from(f), addresses.from[f]);
    enter(entry.to(f), addresses.to[f]);
  }
  enter(entry.send(), set.send);
  enter(entry.receive(), set.receive);
  enter(entry.constants(), const_cast<std::byte*>(constants_));
  enter(entry.offered(), set.offers ? set.send : nullptr);
  if (channel_->shared) {
    const std::size_t count =
        static_cast<std::size_t>(forward ? entry.shared_sends : entry.shared_receives);
    for (std::size_t i = 0; i < count; ++i)
      enter(entry.outgoing(forward, i), set.shared[forward ? 0 : 1]->outgoing(i));
  }
  if constexpr (!host)
    if (changed && !set.passes_addresses())
      Kokkos::deep_copy(space, set.addresses, set.host_addresses);
}

template <class Memory>
template <class Space>
void Plan<Memory>::pack(const Space& space, BufferSet<Memory>& set, bool forward) const {
  const CopyJobs& packed = forward ? pack_ : adjoint_pack_;
  if (!set.offers || !packed.conditional)
    run_copies<moves_lines_v<Memory, Space>>(forward ? "shard::pack" : "shard::unhalo", set.seen,
                                             space, packed, set.table());
}

template <class Memory>
template <class Space>
void Plan<Memory>::send(const Space& space, BufferSet<Memory>& set, bool forward) {
  PlanChannel<Memory>& c = *channel_;
  const std::size_t way  = forward ? 0 : 1;
  if (c.check) {
    set.announcement.start(c.mesh.comm(), c.mesh.announcement_tag(),
                           {c.number, static_cast<std::uint32_t>(way), c.sequence}, c.peers);
    set.checksum = checksum_of(space, set, forward);
  }
  const ToolRegion region("shard::messages", set.seen);
  set.mpi[way]->start({});
  if (set.nccl[way]) set.nccl[way]->start(stream_of(space));
  if (c.shared) {
    set.shared[way]->start({});
    ++c.pool->in_flight;
  }
}

template <class Memory>
template <class Space>
Flight Plan<Memory>::start(const Space& space, const FieldAddresses& addresses,
                           Direction direction) {
  constexpr bool host        = std::is_same_v<Memory, Kokkos::HostSpace>;
  const bool forward         = direction == Direction::forward;
  PlanChannel<Memory>& c     = *channel_;
  const std::size_t index    = set_for(c, space, addresses, constants_);
  BufferSet<Memory>& set     = *c.sets[index];
  const std::size_t way      = forward ? 0 : 1;
  const std::uint64_t number = c.sequence;
  set.seen                   = c.has_tool(number);
  if constexpr (!host) {
    if (set.last && *set.last != space) run_after(*set.last, space);
    set.last = space;
  }
  if (c.shared) {
    const Watched watched(
        c.wait_for("the reading of earlier values", number, set.shared[way]->waiting_for()));
    set.shared[way]->begin(number);
    offer(set, addresses, forward);
  }
  enter_addresses(space, set, addresses, forward);
  // on a device the kernel that last read the receive buffer may still run: MPI's messages start
  // after the fence below, NCCL's come after it on the stream
  if constexpr (host) set.mpi[way]->begin(number);
  pack(space, set, forward);
  if constexpr (!host) {
    static const std::string label = "shard: messages are packed";  // else made for each exchange
    if (!c.carrier.group && !c.peers.empty()) space.fence(label);
    set.mpi[way]->begin(number);
  }
  send(space, set, forward);
  set.busy     = true;
  set.forward  = forward;
  set.done     = 0;
  set.sequence = c.sequence++;
  if constexpr (host)
    if (c.shared) set.in_flight.enter(&Plan::help, this, &set);
  return {static_cast<int>(index), direction};
}

/// Copies that need no message, while messages are on their way. On a device the unpack kernel does
/// these copies too.
template <class Memory>
template <class Space>
void Plan<Memory>::do_local(const Space& space, BufferSet<Memory>& set, bool forward) const {
  constexpr bool by_lines = moves_lines_v<Memory, Space>;
  if (!by_lines || set.done > 0) return;
  const Addresses addresses = set.table();
  if (forward && runs_here<by_lines>(set.seen, space, unpack_)) {
    set.done = local_items_of<by_lines>(unpack_);
    run_copies<by_lines>("shard::local", set.seen, space, unpack_, addresses, 0, set.done);
  } else if (!forward && runs_here<by_lines>(set.seen, space, sum_)) {
    set.done = local_items_of<by_lines>(sum_);
    run_sums<by_lines>("shard::sum", set.seen, space, sum_, addresses, 0, set.done);
  }
}

template <class Memory>
template <class Space>
unsigned Plan<Memory>::fill_local(const Space& space, const Flight& flight) {
  constexpr bool by_lines = moves_lines_v<Memory, Space>;
  BufferSet<Memory>& set  = *channel_->sets[static_cast<std::size_t>(flight.set)];
  if (set.done == 0) {
    set.done = local_items_of<by_lines>(unpack_);
    run_copies<by_lines>("shard::local", set.seen, space, unpack_, set.table(), 0, set.done);
  }
  return awaited_;
}

/// Waits until every message of a run is there.
template <class Memory>
void Plan<Memory>::receive(BufferSet<Memory>& set, bool forward) {
  PlanChannel<Memory>& c = *channel_;
  const std::size_t way  = forward ? 0 : 1;
  const ToolRegion region("shard::messages", set.seen);
  if (c.check) {
    const Watched watched(
        c.wait_for("its next exchange", set.sequence, set.announcement.waiting_for()));
    set.announcement.compare(c.mesh.rank());
  }
  {
    const Watched watched(c.wait_for("a message", set.sequence, set.mpi[way]->waiting_for()));
    set.mpi[way]->wait({});
  }
  if (c.shared) {
    const Watched watched(
        c.wait_for("values in shared memory", set.sequence, set.shared[way]->waiting_for()));
    set.shared[way]->wait({});
  }
}

/// Puts what came where it belongs, or adds it there, and tells the senders.
template <class Memory>
template <class Space>
void Plan<Memory>::unpack(const Space& space, BufferSet<Memory>& set, bool forward) const {
  PlanChannel<Memory>& c  = *channel_;
  const Entries& entry    = c.entries;
  const std::size_t way   = forward ? 0 : 1;
  constexpr bool by_lines = moves_lines_v<Memory, Space>;
  if (c.check && !forward) set.changed = checksum_of(space, set, forward) != set.checksum;
  if (c.shared) {
    const std::size_t count =
        static_cast<std::size_t>(forward ? entry.shared_receives : entry.shared_sends);
    for (std::size_t i = 0; i < count; ++i) {
      set.host_addresses(entry.incoming(forward, i)).bytes =
          const_cast<std::byte*>(set.shared[way]->incoming(i));
      const SharedTransport::Offered offered = set.shared[way]->offered(i);
      Address* const fields = set.host_addresses.data() + entry.peer_field(forward, i, 0);
      for (int f = 0; f < entry.fields; ++f) fields[f].bytes = offered[f];
    }
  }
  const Addresses addresses = set.table();
  if (forward)
    run_copies<by_lines>("shard::unpack", set.seen, space, unpack_, addresses, set.done,
                         items_of<by_lines>(unpack_));
  else
    run_sums<by_lines>("shard::sum", set.seen, space, sum_, addresses, set.done,
                       items_of<by_lines>(sum_));
  if (set.nccl[way]) set.nccl[way]->release();
  if (c.shared) set.shared[way]->release();
}

/// A checksum of the cells that must not change between start and finish.
template <class Memory>
template <class Space>
std::uint64_t Plan<Memory>::checksum_of(const Space& space, const BufferSet<Memory>& set,
                                        bool forward) const {
  const Addresses addresses = set.table();
  std::uint64_t sum         = run_checksum(space, read_, addresses);
  if (!forward) sum += 3 * run_checksum(space, returned_, addresses);
  return sum;
}

/// For peers that wait for this rank to read while it waits for something else.
template <class Memory>
void Plan<Memory>::help(void* one, void* its_set) {
  auto& set = *static_cast<BufferSet<Memory>*>(its_set);
  if constexpr (std::is_same_v<Memory, Kokkos::HostSpace>) {
    auto& plan            = *static_cast<Plan*>(one);
    const std::size_t way = set.forward ? 0 : 1;
    if (set.taken || !set.shared[way]->is_there() || !set.mpi[way]->are_there()) return;
    if (plan.channel_->check && !set.announcement.is_confirmed()) return;
    plan.unpack(Kokkos::DefaultHostExecutionSpace(), set, set.forward);
    set.taken = true;
  }
}

/// The run is over, except that peers may still be reading this rank's fields in place.
template <class Memory>
void Plan<Memory>::land(BufferSet<Memory>& set) {
  set.busy  = false;
  set.taken = false;
  set.in_flight.leave();
  if (channel_->shared) --channel_->pool->in_flight;
}

/// After an error: lets the peers go on, and uses the set again only if its messages are through.
template <class Memory>
void Plan<Memory>::give_up(BufferSet<Memory>& set, bool forward) {
  const std::size_t way = forward ? 0 : 1;
  set.in_flight.leave();
  set.taken = false;
  if (channel_->shared) {
    set.shared[way]->release();
    set.shared_buffer.piece.abandon();
    channel_->shared->abandon();
    --channel_->pool->in_flight;
  }
  // of NCCL's messages the host doesn't know whether they end
  set.busy = channel_->carrier.group != nullptr || !set.mpi[way]->ends_soon();
}

template <class Memory>
template <class Space>
Progress Plan<Memory>::advance(const Space& space, const Flight& flight) {
  PlanChannel<Memory>& c = *channel_;
  BufferSet<Memory>& set = *c.sets[static_cast<std::size_t>(flight.set)];
  const bool forward     = flight.direction == Direction::forward;
  // whether a message of MPI has come can't be asked without making it progress
  const bool may = c.shared && c.send_bytes == 0 && c.receive_bytes == 0 && !c.check;
  if (!may) return Progress::needs_finish;
  SharedTransport& shared = *set.shared[forward ? 0 : 1];
  if (!set.taken) {
    if (!shared.is_there()) return Progress::may_advance;
    unpack(space, set, forward);
    set.taken = true;
  }
  if (set.offers && !shared.was_read()) return Progress::filled;
  land(set);
  return Progress::finished;
}

template <class Memory>
template <class Space>
void Plan<Memory>::finish(const Space& space, const Flight& flight) {
  PlanChannel<Memory>& c = *channel_;
  BufferSet<Memory>& set = *c.sets[static_cast<std::size_t>(flight.set)];
  const bool forward     = flight.direction == Direction::forward;
  set.in_flight.leave();
  if (!set.taken || c.check) {
    // under SHARD_CHECK=1 receive may find that this isn't the neighbours' exchange
    if (!c.check) do_local(space, set, forward);
    try {
      receive(set, forward);
    } catch (const Error&) {
      give_up(set, forward);
      throw;
    }
  }
  const bool taken = set.taken;
  land(set);
  if (!taken) unpack(space, set, forward);
  if (c.shared && set.offers) {
    SharedTransport& shared = *set.shared[forward ? 0 : 1];
    const Watched watched(
        c.wait_for("the reading of its values", set.sequence, shared.waiting_for()));
    shared.wait_read();
  }
  if (!c.check || !(forward ? checksum_of(space, set, forward) != set.checksum : set.changed))
    return;
  throw MessageError("shard::Exchange: rank " + text(c.mesh.rank()) +
                     ": between start and finish of exchange " +
                     text(static_cast<index_t>(set.sequence)) + " of plan " + text(c.number) +
                     " (" + c.names + ") " +
                     (forward ? "owned cells were written that neighbours read"
                              : "its halo was written, or owned cells that others' are added to") +
                     "; finish first");
}

#if defined(KOKKOS_ENABLE_SERIAL)
template Flight Plan<Kokkos::HostSpace>::start(const Kokkos::Serial&, const FieldAddresses&,
                                               Direction);
template void Plan<Kokkos::HostSpace>::finish(const Kokkos::Serial&, const Flight&);
template unsigned Plan<Kokkos::HostSpace>::fill_local(const Kokkos::Serial&, const Flight&);
template Progress Plan<Kokkos::HostSpace>::advance(const Kokkos::Serial&, const Flight&);
#endif
#if defined(KOKKOS_ENABLE_OPENMP)
template Flight Plan<Kokkos::HostSpace>::start(const Kokkos::OpenMP&, const FieldAddresses&,
                                               Direction);
template void Plan<Kokkos::HostSpace>::finish(const Kokkos::OpenMP&, const Flight&);
template unsigned Plan<Kokkos::HostSpace>::fill_local(const Kokkos::OpenMP&, const Flight&);
template Progress Plan<Kokkos::HostSpace>::advance(const Kokkos::OpenMP&, const Flight&);
#endif
#if defined(KOKKOS_ENABLE_THREADS)
template Flight Plan<Kokkos::HostSpace>::start(const Kokkos::Threads&, const FieldAddresses&,
                                               Direction);
template void Plan<Kokkos::HostSpace>::finish(const Kokkos::Threads&, const Flight&);
template unsigned Plan<Kokkos::HostSpace>::fill_local(const Kokkos::Threads&, const Flight&);
template Progress Plan<Kokkos::HostSpace>::advance(const Kokkos::Threads&, const Flight&);
#endif
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
using DeviceSpace  = Kokkos::DefaultExecutionSpace;
using DeviceMemory = DeviceSpace::memory_space;
template Flight Plan<DeviceMemory>::start(const DeviceSpace&, const FieldAddresses&, Direction);
template void Plan<DeviceMemory>::finish(const DeviceSpace&, const Flight&);
template unsigned Plan<DeviceMemory>::fill_local(const DeviceSpace&, const Flight&);
template Progress Plan<DeviceMemory>::advance(const DeviceSpace&, const Flight&);
#endif

}  // namespace shard::impl
