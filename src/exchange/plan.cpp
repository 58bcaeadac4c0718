// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Running a plan.
#include "plan.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "for_each_space.hpp"
#include "run_jobs.hpp"
#include "shard/base/error.hpp"
#include "shard/view/region.hpp"

namespace shard::impl {

namespace {

/// A profiling region, if a tool is attached.
class ToolRegion {
 public:
  ToolRegion(const char* label, bool has_tool) : has_tool_(has_tool) {
    if (has_tool_) Kokkos::Profiling::pushRegion(label);
  }
  ~ToolRegion() {
    if (has_tool_) Kokkos::Profiling::popRegion();
  }
  ToolRegion(const ToolRegion&)            = delete;
  ToolRegion& operator=(const ToolRegion&) = delete;

 private:
  bool has_tool_;
};

/// The set for an exchange that is captured. No other instance used it last, because a graph can't
/// wait for that. If kernels read the addresses in memory, it has those of these fields already: a
/// graph would copy them from the host again when it is launched.
template <class Memory, class Space>
std::size_t set_for_graph(PlanMessages<Memory>& m, const Space& space,
                          const FieldAddresses& addresses, const std::byte* constants) {
  const auto refuse = [&](const std::string& why) {
    throw Error("shard::Exchange: rank " + text(m.mesh.rank()) + ": plan " + text(m.number) + " (" +
                m.names + ") can't be captured in a graph: " + why);
  };
  if (m.host_waits())
    refuse("its messages go by MPI, which the host waits for; NCCL can be captured");
  if (m.check) refuse("SHARD_CHECK=1 makes the host wait; unset it");
  for (std::size_t i = 0; i < m.sets.size(); ++i) {
    BufferSet<Memory>& set = *m.sets[i];
    if (set.state != SetState::free || !set.last || *set.last != space) continue;
    const auto holds = [&](int entry, const void* address) {
      return set.host_addresses(entry).bytes == address;
    };
    bool all = holds(m.entries.constants(), constants);
    for (int f = 0; f < m.entries.fields; ++f)
      all = all && holds(m.entries.from(f), addresses.from[f]) &&
            holds(m.entries.to(f), addresses.to[f]);
    if (!all && !set.passes_addresses()) continue;
    set.captured = true;
    return i;
  }
  refuse(
      "run it once before, on the same instance and as the last exchange of this plan, so that "
      "all memory is allocated" +
      std::string(m.entries.count() > Addresses::most
                      ? "; a plan of more than six fields can be captured only for the fields of "
                        "that exchange"
                      : ""));
  return 0;
}

constexpr std::size_t way_of(bool forward) { return forward ? 0 : 1; }

}  // namespace

/// The steps of an exchange: take_set, post_receives, pack, send.
template <class Memory>
template <class Space>
StartedExchange Plan<Memory>::start(const Space& space, const FieldAddresses& addresses,
                                    Direction direction) {
  constexpr bool host     = std::is_same_v<Memory, Kokkos::HostSpace>;
  const bool forward      = direction == Direction::forward;
  const std::size_t index = take_set(space, addresses);
  BufferSet<Memory>& set  = *messages_->sets[index];
  if constexpr (host) post_receives(set, addresses, forward);
  enter_addresses(space, set, addresses, forward);
  pack(space, set, forward);
  if constexpr (!host) {
    // the kernel that last read the receive buffer may still run: MPI's messages begin after this
    // fence, NCCL's after the kernel on the stream
    static const std::string label = "shard: messages are packed";  // else made for each exchange
    if (messages_->host_waits()) space.fence(label);
    post_receives(set, addresses, forward);
  }
  send(space, set, forward);
  set.state     = SetState::started;
  set.direction = direction;
  if constexpr (host)
    if (set.mapped[0] != nullptr) set.in_flight.enter(&Plan::unpack_if_arrived, this, &set);
  return {static_cast<int>(index), direction};
}

template <class Memory>
template <class Space>
std::size_t Plan<Memory>::take_set([[maybe_unused]] const Space& space,
                                   [[maybe_unused]] const FieldAddresses& addresses) {
  PlanMessages<Memory>& m = *messages_;
  std::size_t index       = m.sets.size();
  if constexpr (!std::is_same_v<Memory, Kokkos::HostSpace>)
    if (is_captured(space)) index = set_for_graph(m, space, addresses, constants_);
  if (index == m.sets.size()) index = m.free_set();
  BufferSet<Memory>& set = *m.sets[index];
  set.sequence           = m.sequence;
  set.has_tool           = m.tool.is_attached();
  set.done               = 0;
  if constexpr (!std::is_same_v<Memory, Kokkos::HostSpace>) {
    if (set.last && *set.last != space) run_after(*set.last, space);
    set.last = space;
  }
  return index;
}

/// Posts the receives. Publishes this rank's fields, so that peers read them in place, if peers
/// can read them and the fields have the strides that this rank sent to its peers. Else they are
/// packed. With SHARD_CHECK=1 an adjoint publishes no halo: the peer would zero it, and the
/// checksum could not tell that from a write by the user.
template <class Memory>
void Plan<Memory>::post_receives(BufferSet<Memory>& set, const FieldAddresses& addresses,
                                 bool forward) const {
  const std::size_t way = way_of(forward);
  for (const auto& transport : set.transports[way]) {
    const Watched watched([&] {
      return messages_->wait_for("the reading of earlier values", set.sequence,
                                 transport->waiting_for());
    });
    transport->post_receives(set.sequence);
  }
  set.published = false;
  if (set.mapped[way] == nullptr) return;
  const bool may = read_directly_[way] && strides_are_sent_ && (forward || !messages_->check);
  void* const* const fields = forward ? addresses.from : addresses.to;
  set.published             = set.mapped[way]->publish(may ? fields : nullptr);
}

/// Enters the addresses of fields and buffers.
template <class Memory>
template <class Space>
void Plan<Memory>::enter_addresses(const Space& space, BufferSet<Memory>& set,
                                   const FieldAddresses& addresses, bool forward) const {
  constexpr bool host  = std::is_same_v<Memory, Kokkos::HostSpace>;
  const Entries& entry = messages_->entries;
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
  enter(entry.published(), set.published ? set.send : nullptr);
  if (Transport* const mapped = set.mapped[way_of(forward)]) {
    const int count = forward ? entry.mapped_sends : entry.mapped_receives;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
      enter(entry.outgoing(forward, i), mapped->outgoing(i));
  }
  if constexpr (!host)
    if (changed && !set.passes_addresses())
      Kokkos::deep_copy(space, set.addresses, set.host_addresses);
}

template <class Memory>
template <class Space>
void Plan<Memory>::pack(const Space& space, BufferSet<Memory>& set, bool forward) const {
  const CopyJobs& packed = forward ? pack_owned_ : pack_halo_;
  if (!set.published || !packed.conditional)
    run_copies<moves_lines_v<Memory, Space>>(forward ? "shard::pack" : "shard::unhalo",
                                             set.has_tool, space, packed, set.table());
}

/// Transports of mapped memory come first in the list and start last: MPI's messages may take
/// longer.
template <class Memory>
template <class Space>
void Plan<Memory>::send(const Space& space, BufferSet<Memory>& set, bool forward) {
  if (messages_->check) start_check(space, set, forward);
  const ToolRegion region("shard::messages", set.has_tool);
  auto& transports = set.transports[way_of(forward)];
  for (auto t = transports.rbegin(); t != transports.rend(); ++t) (*t)->send_all(stream_of(space));
  ++messages_->sequence;
}

/// Copies that need no message, while messages are on their way. `asked`: by the caller, who needs
/// them now; else only where they cost no launch of their own, and the unpack kernel does the rest.
template <class Memory>
template <class Space>
void Plan<Memory>::copy_local(const Space& space, BufferSet<Memory>& set, bool forward,
                              bool asked) const {
  constexpr bool by_lines = moves_lines_v<Memory, Space>;
  const auto runs         = [&](const auto& jobs) {
    return asked || (by_lines && runs_here<by_lines>(set.has_tool, space, jobs));
  };
  if (set.done > 0) return;
  if (forward && runs(unpack_)) {
    set.done = local_items_of<by_lines>(unpack_);
    run_copies<by_lines>("shard::local", set.has_tool, space, unpack_, set.table(), 0, set.done);
  } else if (!forward && runs(sum_)) {
    set.done = local_items_of<by_lines>(sum_);
    run_sums<by_lines>("shard::sum", set.has_tool, space, sum_, set.table(), 0, set.done);
  }
}

template <class Memory>
template <class Space>
unsigned Plan<Memory>::fill_local(const Space& space, const StartedExchange& started) {
  copy_local(space, *messages_->sets[static_cast<std::size_t>(started.set)], true, true);
  return awaited_;
}

/// Waits until every message has arrived: those of MPI first, which it transfers only inside its
/// calls.
template <class Memory>
void Plan<Memory>::receive(BufferSet<Memory>& set, bool forward) {
  const ToolRegion region("shard::messages", set.has_tool);
  if (messages_->check) check_peers(set);
  auto& transports = set.transports[way_of(forward)];
  for (auto t = transports.rbegin(); t != transports.rend(); ++t) {
    const Watched watched(
        [&] { return messages_->wait_for((*t)->awaited(), set.sequence, (*t)->waiting_for()); });
    (*t)->wait({});
  }
}

/// Copies received values to their places, or adds them there, and tells the senders.
template <class Memory>
template <class Space>
void Plan<Memory>::unpack(const Space& space, BufferSet<Memory>& set, bool forward) const {
  const Entries& entry    = messages_->entries;
  constexpr bool by_lines = moves_lines_v<Memory, Space>;
  if (messages_->check && !forward) set.checksum_before_adding = checksum_of(space, set, forward);
  if (Transport* const mapped = set.mapped[way_of(forward)]) {
    const int count = forward ? entry.mapped_receives : entry.mapped_sends;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      set.host_addresses(entry.incoming(forward, i)).bytes =
          const_cast<std::byte*>(mapped->incoming(i));
      Address* const fields = set.host_addresses.data() + entry.peer_field(forward, i, 0);
      for (int f = 0; f < entry.fields; ++f) fields[f].bytes = mapped->published(i, f);
    }
  }
  const Addresses addresses = set.table();
  if (forward)
    run_copies<by_lines>("shard::unpack", set.has_tool, space, unpack_, addresses, set.done,
                         items_of<by_lines>(unpack_));
  else
    run_sums<by_lines>("shard::sum", set.has_tool, space, sum_, addresses, set.done,
                       items_of<by_lines>(sum_));
  for (const auto& transport : set.transports[way_of(forward)]) transport->release();
}

/// For peers that wait for this rank to read while it waits for something else.
template <class Memory>
void Plan<Memory>::unpack_if_arrived(void* one, void* its_set) {
  if constexpr (std::is_same_v<Memory, Kokkos::HostSpace>) {
    auto& plan         = *static_cast<Plan*>(one);
    auto& set          = *static_cast<BufferSet<Memory>*>(its_set);
    const bool forward = set.direction == Direction::forward;
    if (set.state != SetState::started) return;
    for (const auto& transport : set.transports[way_of(forward)])
      if (!transport->has_arrived()) return;
    if (plan.messages_->check && !set.announcement.is_confirmed()) return;
    plan.unpack(Kokkos::DefaultHostExecutionSpace(), set, forward);
    set.state = SetState::unpacked;
  }
}

/// The exchange is over on this rank, although peers may still read its fields in place.
template <class Memory>
void Plan<Memory>::end(BufferSet<Memory>& set, bool forward) const {
  set.state = SetState::free;
  set.in_flight.leave();
  for (const auto& transport : set.transports[way_of(forward)]) transport->end();
}

/// Waits until peers have read the fields that this rank published.
template <class Memory>
void Plan<Memory>::wait_read(BufferSet<Memory>& set, bool forward) const {
  if (!set.published) return;
  Transport& mapped = *set.mapped[way_of(forward)];
  const Watched watched([&] {
    return messages_->wait_for("the reading of its values", set.sequence, mapped.waiting_for());
  });
  mapped.wait_read();
}

/// After an error: lets the peers go on, and uses the set again only if its messages are complete.
template <class Memory>
void Plan<Memory>::abandon(BufferSet<Memory>& set, bool forward) const {
  set.in_flight.leave();
  set.state = SetState::free;
  for (const auto& transport : set.transports[way_of(forward)])
    if (!transport->abandon()) set.state = SetState::lost;
}

template <class Memory>
void Plan<Memory>::leave(const StartedExchange& started) const {
  BufferSet<Memory>& set = *messages_->sets[static_cast<std::size_t>(started.set)];
  set.in_flight.leave();
  end(set, started.direction == Direction::forward);
}

template <class Memory>
bool Plan<Memory>::was_received() const {
  const auto has_arrived = [](const auto& transport) { return transport->has_arrived(); };
  return messages_->may_end() &&
         std::all_of(messages_->sets.begin(), messages_->sets.end(), [&](const auto& set) {
           return set->announcement.is_over() &&
                  std::all_of(set->transports[0].begin(), set->transports[0].end(), has_arrived) &&
                  std::all_of(set->transports[1].begin(), set->transports[1].end(), has_arrived);
         });
}

template <class Memory>
void Plan<Memory>::abandon() const {
  for (const auto& set : messages_->sets) set->state = SetState::lost;
  for (const auto& channel : messages_->channels) channel->abandon();
}

template <class Memory>
template <class Space>
Progress Plan<Memory>::advance(const Space& space, const StartedExchange& started) {
  PlanMessages<Memory>& m = *messages_;
  BufferSet<Memory>& set  = *m.sets[static_cast<std::size_t>(started.set)];
  const bool forward      = started.direction == Direction::forward;
  Transport* const mapped = set.mapped[way_of(forward)];
  if (!m.may_poll) return Progress::needs_finish;
  if (set.state == SetState::started) {
    bool all = true;
    try {
      for (const auto& transport : set.transports[way_of(forward)])
        all = transport->has_arrived() && all;
    } catch (const Error&) {
      abandon(set, forward);
      throw;
    }
    if (!all) return m.has_long ? Progress::needs_calls : Progress::may_advance;
    unpack(space, set, forward);
    set.state = SetState::unpacked;
  }
  if (set.published && !mapped->was_read()) return Progress::filled;
  end(set, forward);
  return Progress::finished;
}

/// The steps of an exchange: receive, unpack.
template <class Memory>
template <class Space>
void Plan<Memory>::finish(const Space& space, const StartedExchange& started) {
  BufferSet<Memory>& set = *messages_->sets[static_cast<std::size_t>(started.set)];
  const bool forward     = started.direction == Direction::forward;
  const bool check       = messages_->check;
  set.in_flight.leave();
  const bool is_unpacked = set.state == SetState::unpacked;
  if (!is_unpacked || check) {
    // under SHARD_CHECK=1 receive may find that this isn't the neighbours' exchange
    if (!check) copy_local(space, set, forward, false);
    try {
      receive(set, forward);
    } catch (const Error&) {
      abandon(set, forward);
      throw;
    }
  }
  end(set, forward);
  if (!is_unpacked) unpack(space, set, forward);
  wait_read(set, forward);
  if (check) check_unchanged(space, set, forward);
}

// SHARD_CHECK=1

/// Tells the peers which exchange this is, and keeps a checksum of what must not change until it is
/// finished.
template <class Memory>
template <class Space>
void Plan<Memory>::start_check(const Space& space, BufferSet<Memory>& set, bool forward) const {
  const PlanMessages<Memory>& m = *messages_;
  set.announcement.start(m.mesh.comm(), m.mesh.announcement_tag(),
                         {m.number, forward ? 0U : 1U, set.sequence}, m.peers);
  set.checksum = checksum_of(space, set, forward);
}

/// Throws MessageError if a peer started another exchange.
template <class Memory>
void Plan<Memory>::check_peers(BufferSet<Memory>& set) const {
  const Watched watched(
      messages_->wait_for("its next exchange", set.sequence, set.announcement.waiting_for()));
  set.announcement.compare(messages_->mesh.rank());
}

/// Throws MessageError if elements of the exchange were written between start and finish.
template <class Memory>
template <class Space>
void Plan<Memory>::check_unchanged(const Space& space, const BufferSet<Memory>& set,
                                   bool forward) const {
  const PlanMessages<Memory>& m = *messages_;
  const std::uint64_t now = forward ? checksum_of(space, set, forward) : set.checksum_before_adding;
  if (now == set.checksum) return;
  throw MessageError(
      "shard::Exchange: rank " + text(m.mesh.rank()) + ": between start and finish of exchange " +
      text(static_cast<index_t>(set.sequence)) + " of plan " + text(m.number) + " (" + m.names +
      ") " +
      (forward ? "owned elements that neighbours read were written"
               : "its halo was written, or owned elements to which halos are added") +
      "; finish first");
}

/// A checksum of the elements that must not change between start and finish.
template <class Memory>
template <class Space>
std::uint64_t Plan<Memory>::checksum_of(const Space& space, const BufferSet<Memory>& set,
                                        bool forward) const {
  const Addresses addresses = set.table();
  std::uint64_t sum         = run_checksum(space, read_, addresses);
  if (!forward) sum += 3 * run_checksum(space, returned_, addresses);
  return sum;
}

#define SHARD_PLAN(Memory)                                         \
  template void Plan<Memory>::leave(const StartedExchange&) const; \
  template bool Plan<Memory>::was_received() const;                \
  template void Plan<Memory>::abandon() const;
SHARD_FOR_EACH_MEMORY(SHARD_PLAN)
#undef SHARD_PLAN
#define SHARD_PLAN(Memory, Space)                                                               \
  template StartedExchange Plan<Memory>::start(const Space&, const FieldAddresses&, Direction); \
  template unsigned Plan<Memory>::fill_local(const Space&, const StartedExchange&);             \
  template Progress Plan<Memory>::advance(const Space&, const StartedExchange&);                \
  template void Plan<Memory>::finish(const Space&, const StartedExchange&);
SHARD_FOR_EACH_SPACE(SHARD_PLAN)
#undef SHARD_PLAN

}  // namespace shard::impl
