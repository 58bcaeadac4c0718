// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "plan_messages.hpp"

#include <algorithm>
#include <exception>
#include <tuple>
#include <utility>

#include "for_each_space.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/environment_variable.hpp"

namespace shard::impl {

namespace {

std::size_t buffer_bytes(const std::vector<PeerMessage>& messages) {
  std::size_t bytes = 0;
  for (const PeerMessage& m : messages)
    if (!m.mapped) bytes += m.bytes;
  return bytes;
}

/// Whether one of these messages can't be handed to the network at once.
bool any_long(const std::vector<PeerMessage>& messages, const Channels& channels) {
  return std::any_of(messages.begin(), messages.end(), [&](const PeerMessage& m) {
    return !m.mapped && (m.bytes > long_message || channels[m.channel]->properties().needs_calls);
  });
}

int count_mapped(const std::vector<PeerMessage>& messages) {
  return static_cast<int>(std::count_if(messages.begin(), messages.end(),
                                        [](const PeerMessage& m) { return m.mapped; }));
}

/// Where the messages of a channel begin in the plan's buffer.
std::size_t first_of(const std::vector<PeerMessage>& messages, std::size_t channel) {
  for (const PeerMessage& m : messages)
    if (m.channel == channel) return m.first;
  return 0;
}

}  // namespace

template <class Memory>
BufferSet<Memory>::BufferSet(const PlanMessages<Memory>& messages) {
  bool is_staged = false;
  for (std::size_t c = 0; c < messages.channels.size(); ++c)
    is_staged = is_staged || (messages.uses(c) && messages.channels[c]->properties().staged);
  const std::size_t size = messages.send_bytes + messages.receive_bytes + message_alignment;
  bytes                  = decltype(bytes)("shard::messages", is_staged ? message_alignment : size);
  addresses              = decltype(addresses)(Kokkos::view_alloc("shard::addresses"),
                                  static_cast<std::size_t>(messages.entries.count()));
  if constexpr (std::is_same_v<Memory, Kokkos::HostSpace>)
    host_addresses = addresses;
  else
    host_addresses = Kokkos::View<Address*, Kokkos::HostSpace>(
        Kokkos::view_alloc("shard::addresses to come"), addresses.extent(0));
  if (is_staged) staged = decltype(staged)("shard::staged messages", size);
  send    = is_staged ? staged.data() : bytes.data();
  receive = send + messages.send_bytes;
  for (std::size_t c = 0; c < messages.channels.size(); ++c) {
    if (!messages.uses(c)) continue;
    Channel& channel = *messages.channels[c];
    auto made =
        channel.make(send + first_of(messages.sends, c), receive + first_of(messages.receives, c));
    for (std::size_t way = 0; way < 2; ++way) {
      if (channel.properties().mapped) mapped[way] = made[way].get();
      transports[way].push_back(std::move(made[way]));
    }
  }
}

template <class Memory>
BufferSet<Memory>::~BufferSet() {
  if (state != SetState::lost) return;
  using Memories = std::vector<std::tuple<decltype(bytes), decltype(staged), Announcement>>;
  static Memories* const kept =
      new Memories;  // never freed: Kokkos can't free memory after its end
  kept->emplace_back(bytes, staged, std::move(announcement));
}

template <class Memory>
PlanMessages<Memory>::PlanMessages(MeshState& on, const Route& route,
                                   std::vector<FieldStrides> of_fields, const Tuning& t,
                                   std::uint32_t n, Channels opened, PlanLayout& layout)
    : mesh(on),
      names(names_of(route.fields)),
      tuning(t),
      number(n),
      check(environment_flag("SHARD_CHECK")),
      sends(layout.send.messages),
      receives(layout.receive.messages),
      send_bytes(buffer_bytes(sends)),
      receive_bytes(buffer_bytes(receives)),
      has_long(std::is_same_v<Memory, Kokkos::HostSpace> &&
               (any_long(sends, opened) || any_long(receives, opened))),
      may_poll(!check && (has_long || send_bytes + receive_bytes == 0)),
      entries{static_cast<int>(route.fields.size()), count_mapped(sends), count_mapped(receives)},
      channels(std::move(opened)),
      strides(std::move(of_fields)),
      exceptions_(std::uncaught_exceptions()) {
  for (const auto* list : {&sends, &receives})
    for (const PeerMessage& m : *list) peers.push_back(m.peer);
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  for (std::size_t c = 0; c < channels.size(); ++c)
    if (uses(c)) channels[c]->connect(of_channel(c));
  exchange_strides();
  const auto is_direct = [&](const Piece& piece, const std::vector<FieldStrides>& reads,
                             const std::vector<FieldStrides>& writes) {
    const auto f            = static_cast<std::size_t>(piece.field);
    const RouteField& field = route.fields[f];
    const auto s            = static_cast<std::size_t>(piece.source_field());
    return run_of(field, piece, source_elements(field, piece, 0, reads[s].read),
                  target_elements(field, piece, 0, writes[f].written)) >= tuning.direct_run;
  };
  for (PackedPiece& p : layout.send.pieces) {
    const PeerMessage& m = sends[p.message];
    p.direct             = m.mapped && is_direct(*p.piece, strides, readers[m.index]);
    sent_direct_.push_back(p.direct);
  }
  for (PackedPiece& p : layout.receive.pieces) {
    const PeerMessage& m = receives[p.message];
    p.direct             = m.mapped && is_direct(*p.piece, senders[m.index], strides);
    received_direct_.push_back(p.direct);
  }
  for (int i = 0; i < (has_mapped() ? 2 : 1); ++i)
    sets.push_back(std::make_unique<BufferSet<Memory>>(*this));
}

template <class Memory>
PlanMessages<Memory>::~PlanMessages() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0 || std::uncaught_exceptions() > exceptions_)
    for (const auto& channel : channels) channel->abandon();
  sets.clear();
  for (; !channels.empty(); channels.pop_back()) {
    const Watched watched(
        wait_for("the reading of its last values", sequence, channels.back()->waiting_for()));
    channels.back().reset();
  }
}

template <class Memory>
void PlanMessages<Memory>::exchange_strides() {
  static_assert(std::is_trivially_copyable_v<FieldStrides>);
  const int bytes = static_cast<int>(strides.size() * sizeof(FieldStrides));
  std::vector<std::vector<FieldStrides>> theirs(peers.size(), strides);
  std::vector<MPI_Request> requests;
  for (std::size_t i = 0; i < peers.size(); ++i) {
    const auto is_mapped = [&](const PeerMessage& m) { return m.peer == peers[i] && m.mapped; };
    if (std::none_of(sends.begin(), sends.end(), is_mapped) &&
        std::none_of(receives.begin(), receives.end(), is_mapped))
      continue;
    MPI_Request both[2];
    check_mpi(MPI_Irecv(theirs[i].data(), bytes, MPI_BYTE, peers[i], tag(0), mesh.comm(), &both[0]),
              "MPI_Irecv");
    check_mpi(MPI_Isend(strides.data(), bytes, MPI_BYTE, peers[i], tag(0), mesh.comm(), &both[1]),
              "MPI_Isend");
    requests.insert(requests.end(), both, both + 2);
  }
  if (requests.empty()) return;
  await_mpi("MPI_Waitall", MPI_Waitall, static_cast<int>(requests.size()), requests.data(),
            MPI_STATUSES_IGNORE);
  const auto of = [&](int peer) {
    return theirs[static_cast<std::size_t>(std::find(peers.begin(), peers.end(), peer) -
                                           peers.begin())];
  };
  for (const PeerMessage& m : sends)
    if (m.mapped) readers.push_back(of(m.peer));
  for (const PeerMessage& m : receives)
    if (m.mapped) senders.push_back(of(m.peer));
}

template <class Memory>
std::size_t PlanMessages<Memory>::bytes() const {
  std::size_t sum = 0;
  for (const auto& set : sets)
    sum += set->bytes.size() + set->staged.size() + set->addresses.size() * sizeof(Address);
  return sum;
}

template <class Memory>
void PlanMessages<Memory>::mark(PlanLayout& layout) const {
  for (std::size_t i = 0; i < layout.send.pieces.size(); ++i)
    layout.send.pieces[i].direct = sent_direct_[i];
  for (std::size_t i = 0; i < layout.receive.pieces.size(); ++i)
    layout.receive.pieces[i].direct = received_direct_[i];
}

template <class Memory>
bool PlanMessages<Memory>::may_end() const {
  return std::all_of(channels.begin(), channels.end(), [](const auto& c) { return c->may_end(); });
}

template <class Memory>
ChannelMessages PlanMessages<Memory>::of_channel(std::size_t c) const {
  return {mesh.comm(),
          {tag(0), tag(1)},
          messages_of(sends, c),
          messages_of(receives, c),
          entries.fields};
}

template <class Memory>
bool PlanMessages<Memory>::uses(std::size_t c) const {
  const auto is_its = [c](const PeerMessage& m) { return m.channel == c; };
  return std::any_of(sends.begin(), sends.end(), is_its) ||
         std::any_of(receives.begin(), receives.end(), is_its);
}

template <class Memory>
bool PlanMessages<Memory>::host_waits() const {
  for (std::size_t c = 0; c < channels.size(); ++c)
    if (!channels[c]->properties().stream_ordered && uses(c)) return true;
  return false;
}

template <class Memory>
bool PlanMessages<Memory>::has_mapped() const {
  return std::any_of(channels.begin(), channels.end(),
                     [](const auto& channel) { return channel->properties().mapped; });
}

template <class Memory>
std::size_t PlanMessages<Memory>::free_set() {
  std::size_t waiting = sets.size();
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const BufferSet<Memory>& set = *sets[i];
    if (set.state != SetState::free || set.captured) continue;
    if (set.mapped[0] == nullptr || set.mapped[0]->is_free()) return i;
    if (waiting == sets.size()) waiting = i;
  }
  if (waiting == sets.size()) sets.push_back(std::make_unique<BufferSet<Memory>>(*this));
  return waiting;
}

#define SHARD_MESSAGES(Memory)       \
  template struct BufferSet<Memory>; \
  template class PlanMessages<Memory>;
SHARD_FOR_EACH_MEMORY(SHARD_MESSAGES)
#undef SHARD_MESSAGES

}  // namespace shard::impl
