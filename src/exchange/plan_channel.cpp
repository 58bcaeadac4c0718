// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "plan_channel.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "shard/base/impl/environment_variable.hpp"
#include "shard/base/error.hpp"

namespace shard::impl {

namespace {

std::size_t total(const std::vector<PeerMessage>& messages) {
  std::size_t bytes = 0;
  for (const PeerMessage& m : messages)
    if (!m.shared) bytes += m.bytes;
  return bytes;
}

int count_shared(const std::vector<PeerMessage>& messages) {
  return static_cast<int>(std::count_if(messages.begin(), messages.end(),
                                        [](const PeerMessage& m) { return m.shared; }));
}

}  // namespace

template <class Memory>
BufferSet<Memory>::BufferSet(const PlanChannel<Memory>& channel)
    : bytes("shard::messages",
            (channel.carrier.staged ? 0 : channel.send_bytes + channel.receive_bytes) +
                message_alignment),
      addresses(Kokkos::view_alloc("shard::addresses"),
                static_cast<std::size_t>(channel.entries.count())) {
  if constexpr (std::is_same_v<Memory, Kokkos::HostSpace>)
    host_addresses = addresses;
  else
    host_addresses = Kokkos::View<Address*, Kokkos::HostSpace>(
        Kokkos::view_alloc("shard::addresses to come"), addresses.extent(0));
  if (channel.carrier.staged)
    staged = decltype(staged)("shard::staged messages",
                              channel.send_bytes + channel.receive_bytes + message_alignment);
  send                = channel.carrier.staged ? staged.data() : bytes.data();
  receive             = send + channel.send_bytes;
  const auto sends    = messages_of(channel.sends, false),
             receives = messages_of(channel.receives, false);
  if (channel.carrier.group) {
    nccl[0].emplace(*channel.carrier.group, sends, send, receives, receive);
    nccl[1].emplace(*channel.carrier.group, receives, receive, sends, send);
  }
  const std::vector<Message> none;
  const auto& out = channel.carrier.group ? none : sends;
  const auto& in  = channel.carrier.group ? none : receives;
  mpi[0].emplace(channel.mesh.comm(), channel.tag(0), out, send, in, receive);
  mpi[1].emplace(channel.mesh.comm(), channel.tag(1), in, receive, out, send);
  if (channel.shared) {
    shared_buffer.piece = channel.shared->allocate();
    shared[0].emplace(*channel.shared, shared_buffer, false);
    shared[1].emplace(*channel.shared, shared_buffer, true);
  }
}

template <class Memory>
BufferSet<Memory>::~BufferSet() {
  const auto is_open = [](const std::optional<MpiTransport>& way) {
    return way && !way->has_ended();
  };
  if (!is_open(mpi[0]) && !is_open(mpi[1])) return;
  using Memories              = std::vector<std::pair<decltype(bytes), decltype(staged)>>;
  static Memories* const kept = new Memories;  // which Kokkos would not let go of after its end
  kept->emplace_back(bytes, staged);
}

template <class Memory>
PlanChannel<Memory>::PlanChannel(MeshState& on, const Route& route,
                                 std::vector<FieldStrides> of_fields, const Tuning& t,
                                 std::uint32_t n, Carrier by,
                                 std::shared_ptr<SharedPool> shared_pool, PlanLayout& layout)
    : mesh(on),
      names(names_of(route.fields)),
      tuning(t),
      number(n),
      check(environment_flag("SHARD_CHECK")),
      sends(layout.sends),
      receives(layout.receives),
      send_bytes(total(sends)),
      receive_bytes(total(receives)),
      entries{static_cast<int>(route.fields.size()), count_shared(sends), count_shared(receives)},
      carrier(std::move(by)),
      pool(std::move(shared_pool)),
      strides(std::move(of_fields)),
      exceptions_(std::uncaught_exceptions()) {
  for (const auto* list : {&sends, &receives})
    for (const PeerMessage& m : *list) peers.push_back(m.peer);
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  if (pool) {
    const auto out = messages_of(sends, true), in = messages_of(receives, true);
    shared = std::make_unique<SharedChannel>(pool, mesh.comm(), tag(0), out, in, entries.fields);
    exchange_strides();
  }
  const auto is_direct = [&](const Piece& piece, const std::vector<FieldStrides>& reads,
                             const std::vector<FieldStrides>& writes) {
    const auto f            = static_cast<std::size_t>(piece.field);
    const RouteField& field = route.fields[f];
    return run_of(field, piece, source_elements(field, piece, 0, reads[f].read),
                  target_elements(field, piece, 0, writes[f].written)) >= tuning.direct_run;
  };
  for (PackedPiece& p : layout.sent) {
    const PeerMessage& m = sends[p.message];
    p.direct             = m.shared && is_direct(*p.piece, strides, readers[m.index]);
    sent_direct_.push_back(p.direct);
  }
  for (PackedPiece& p : layout.received) {
    const PeerMessage& m = receives[p.message];
    p.direct             = m.shared && is_direct(*p.piece, senders[m.index], strides);
    received_direct_.push_back(p.direct);
  }
  for (int i = 0; i < (shared ? 2 : 1); ++i)
    sets.push_back(std::make_unique<BufferSet<Memory>>(*this));
}

/// Waits until the peers have read what it sent last, unless they may never do: this rank leaves by
/// an exception, or MPI is over and the windows are gone.
template <class Memory>
PlanChannel<Memory>::~PlanChannel() {
  if (!shared) return;
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0 || std::uncaught_exceptions() > exceptions_) {
    shared->abandon();
    for (const auto& set : sets) set->shared_buffer.piece.abandon();
    return;
  }
  const Watched watched(
      wait_for("the reading of its last values", sequence, shared->waiting_for()));
  sets.clear();
  shared.reset();
}

template <class Memory>
void PlanChannel<Memory>::exchange_strides() {
  static_assert(std::is_trivially_copyable_v<FieldStrides>);
  const int bytes = static_cast<int>(strides.size() * sizeof(FieldStrides));
  std::vector<std::vector<FieldStrides>> theirs(peers.size(), strides);
  std::vector<MPI_Request> requests;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    if (pool->place_of(peers[i]) < 0) continue;
    MPI_Request both[2];
    check_mpi(MPI_Irecv(theirs[i].data(), bytes, MPI_BYTE, peers[i], tag(0), mesh.comm(), &both[0]),
              "MPI_Irecv");
    check_mpi(MPI_Isend(strides.data(), bytes, MPI_BYTE, peers[i], tag(0), mesh.comm(), &both[1]),
              "MPI_Isend");
    requests.insert(requests.end(), both, both + 2);
  }
  await_mpi("MPI_Waitall", MPI_Waitall, static_cast<int>(requests.size()), requests.data(),
            MPI_STATUSES_IGNORE);
  const auto of = [&](int peer) {
    return theirs[static_cast<std::size_t>(std::find(peers.begin(), peers.end(), peer) -
                                           peers.begin())];
  };
  for (const PeerMessage& m : sends)
    if (m.shared) readers.push_back(of(m.peer));
  for (const PeerMessage& m : receives)
    if (m.shared) senders.push_back(of(m.peer));
}

template <class Memory>
std::size_t PlanChannel<Memory>::bytes() const {
  std::size_t sum = 0;
  for (const auto& set : sets)
    sum += set->bytes.size() + set->staged.size() + set->addresses.size() * sizeof(Address);
  return sum;
}

template <class Memory>
void PlanChannel<Memory>::mark(PlanLayout& layout) const {
  for (std::size_t i = 0; i < layout.sent.size(); ++i) layout.sent[i].direct = sent_direct_[i];
  for (std::size_t i = 0; i < layout.received.size(); ++i)
    layout.received[i].direct = received_direct_[i];
}

template <class Memory>
int PlanChannel<Memory>::free_set() {
  int waiting = -1;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (sets[i]->busy || sets[i]->captured) continue;
    if (!shared || sets[i]->shared[0]->buffer_is_free()) return static_cast<int>(i);
    if (waiting < 0) waiting = static_cast<int>(i);
  }
  if (waiting >= 0) return waiting;
  sets.push_back(std::make_unique<BufferSet<Memory>>(*this));
  return static_cast<int>(sets.size()) - 1;
}

template struct BufferSet<Kokkos::HostSpace>;
template class PlanChannel<Kokkos::HostSpace>;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct BufferSet<Kokkos::DefaultExecutionSpace::memory_space>;
template class PlanChannel<Kokkos::DefaultExecutionSpace::memory_space>;
#endif

}  // namespace shard::impl
