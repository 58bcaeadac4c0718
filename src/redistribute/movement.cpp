// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Running movements.
#include "shard/base/impl/launch.hpp"
#include "shard/redistribute/movement.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "collective_messages.hpp"
#include "join_kernel.hpp"
#include "movement_plan.hpp"
#include "shard/base/impl/environment_variable.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/comm/impl/device_space.hpp"

namespace shard::impl {

namespace {

template <class Space>
using MemoryOf =
    std::conditional_t<is_host_space_v<Space>, Kokkos::HostSpace, typename Space::memory_space>;

/// What all movements of a mesh share: the buffer, which is as large as the largest has needed,
/// with a copy on the host where MPI takes no device memory.
template <class Memory>
struct MovementBuffer : CachedPlan {
  using Bytes     = Kokkos::View<std::byte*, Memory>;
  using HostBytes = Kokkos::View<std::byte*, StagingMemory<Memory>>;
  Bytes here;
  HostBytes near;
  bool staged = false;
  std::vector<MPI_Request> requests;

  MovementBuffer() = default;
  ~MovementBuffer() override {}  // NOLINT(modernize-use-equals-default): hipcc, as in plan_find.cpp
  std::size_t bytes() const override { return here.size() + near.size(); }

  /// Collective over the mesh the first time.
  static std::shared_ptr<MovementBuffer> of(MeshState& mesh) {
    const PlanKey key{0x6d6f76656d656e74ULL, std::is_same_v<Memory, Kokkos::HostSpace> ? 0U : 1U};
    if (auto found = std::static_pointer_cast<MovementBuffer>(mesh.find(key))) return found;
    auto made = std::make_shared<MovementBuffer>();
    if constexpr (!std::is_same_v<Memory, Kokkos::HostSpace>)
      made->staged = !decide_device_messages(mesh.comm(), device_kind_of<Memory>).direct;
    mesh.keep(KeptKind::one_of_its_kind, key, made);
    return made;
  }
  void reserve(index_t bytes) {
    const std::string label = "shard: redistributed";
    const auto size         = static_cast<std::size_t>(bytes);
    if (here.extent(0) < size) {
      here = Bytes();  // the old one first, so that there are never both
      here = Bytes(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), size);
    }
    if (staged && near.extent(0) < size) {
      near = HostBytes();
      near = HostBytes(Kokkos::view_alloc(Kokkos::WithoutInitializing, label), size);
    }
  }
};

template <class Memory>
struct MovementPlan : CachedPlan {
  MovementLayout layout;
  Kokkos::View<const index_t*, Memory> offsets;
  std::shared_ptr<MovementBuffer<Memory>> buffer;
  index_t limit = 0;

  explicit MovementPlan(MovementLayout made) : layout(std::move(made)) {
    const Kokkos::View<index_t*, Memory> there("shard: contributions", layout.offsets.size());
    Kokkos::deep_copy(
        there,
        Kokkos::View<const index_t*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(
            layout.offsets.data(), layout.offsets.size()));
    offsets = there;
  }
  ~MovementPlan() override {}  // NOLINT(modernize-use-equals-default): hipcc, as in plan_find.cpp
  std::size_t bytes() const override { return offsets.size() * sizeof(index_t); }
};

/// In one call: the larger of all ranks' numbers.
void largest_of_all(MPI_Comm comm, int* values, int count) {
  await_mpi("MPI_Allreduce", MPI_Allreduce, MPI_IN_PLACE, values, count, MPI_INT, MPI_MAX, comm);
}

/// Collective.
template <class Memory>
std::shared_ptr<MovementPlan<Memory>> make_plan(const Movement& movement) {
  MeshState& mesh         = *movement.mesh;
  std::string description = describe(movement), wrong;
  const Watched watched(
      {.what = "other ranks to plan a redistribution", .rank = mesh.rank(), .of = &description});
  index_t limit = 0;
  try {
    limit = message_limit();
    description += ", messages of at most " + text(limit) + " bytes";
  } catch (const ArgumentError& error) {
    description = wrong = error.what();
  }
  require_agreement(mesh.comm(), movement.function, description);
  if (!wrong.empty()) throw ArgumentError(wrong);

  MovementLayout layout(movement, {0, 0});
  const auto rounds_of = [&](std::size_t phase) {
    return phase < layout.phases.size() ? static_cast<int>(layout.phases[phase].rounds.size()) : 0;
  };
  int all[] = {rounds_of(0), rounds_of(1), layout.report.messages, layout.only_sends_whole ? 0 : 1};
  largest_of_all(mesh.comm(), all, 4);
  if (all[0] != rounds_of(0) || all[1] != rounds_of(1))
    layout = MovementLayout(movement, {all[0], all[1]});
  MovementKind& kind = layout.report.kind;
  if (all[2] == 0)
    kind = MovementKind::local;
  else if (kind == MovementKind::all_to_all && all[3] == 0 && layout.gathers)
    kind = MovementKind::all_gather;

  auto buffer = MovementBuffer<Memory>::of(mesh);
  std::shared_ptr<MovementPlan<Memory>> plan;
  try {
    buffer->reserve(layout.report.buffer);
    std::size_t requests = 0;
    for (const MovementPhase& phase : layout.phases)
      for (const MovementRound& round : phase.rounds) {
        std::size_t steps = 0;
        for (const auto* list : {&round.sends, &round.receives})
          for (const MovedMessage& m : *list)
            steps += static_cast<std::size_t>((m.bytes + limit - 1) / limit);
        requests = std::max(requests, steps);
      }
    if (buffer->requests.size() < requests) buffer->requests.resize(requests, MPI_REQUEST_NULL);
    plan         = std::make_shared<MovementPlan<Memory>>(std::move(layout));
    plan->buffer = buffer;
    plan->limit  = limit;
  } catch (const std::exception& error) {
    wrong = std::string("no memory for its messages: ") + error.what();
  }
  require_no_error(mesh.comm(), movement.function, wrong);
  return plan;
}

template <class Memory>
std::shared_ptr<MovementPlan<Memory>> find_plan(const Movement& movement) {
  constexpr bool on_host = std::is_same_v<Memory, Kokkos::HostSpace>;
  if (environment_flag("SHARD_CHECK"))
    require_agreement(movement.mesh->comm(), movement.function, describe(movement));
  const PlanKey key = key_of(movement, on_host);
  auto plan         = std::static_pointer_cast<MovementPlan<Memory>>(movement.mesh->find(key));
  if (!plan) {
    plan = make_plan<Memory>(movement);
    movement.mesh->keep(KeptKind::redistribution, key, plan);
  }
  return plan;
}

/// Where a box lies in memory: its first cell, and strides in bytes.
struct BoxPlace {
  std::byte* data = nullptr;
  std::array<index_t, max_rank> stride{};
};

/// One movement from its first round to its last.
template <class Space>
class Moving {
  using Memory = MemoryOf<Space>;

 public:
  Moving(const Space& space, const Movement& movement, MovementPlan<Memory>& plan)
      : space_(space), m_(movement), plan_(plan), layout_(plan.layout), buffer_(*plan.buffer) {}

  void run() {
    if (layout_.clears) clear();
    for (const MovementPhase& phase : layout_.phases) {
      source_ = phase.within_target ? m_.to : m_.from;
      owned_  = phase.within_target ? layout_.target : layout_.source;
      for (const MovementRound& round : phase.rounds) run(round);
    }
  }

 private:
  BoxPlace in_buffer(std::byte* start, const MovedBox& moved) const {
    BoxPlace place{start + moved.offset, {}};
    index_t bytes = m_.value_size;
    for (int k = 0; k < m_.rank; ++k) {
      const auto d    = dim(k);
      place.stride[d] = bytes;
      bytes *= moved.box.extent[d];
    }
    return place;
  }
  BoxPlace in_side(const MovementSide& side, const GlobalBox& owned, const GlobalBox& box) const {
    BoxPlace place{side.data, side.stride};
    for (int d = 0; d < m_.rank; ++d) {
      const auto i = Geometry::at(d);
      place.data += (box.begin[i] - owned.begin[i]) * side.stride[i];
    }
    return place;
  }
  BoxPlace read(const GlobalBox& box) const { return in_side(source_, owned_, box); }
  BoxPlace written(const GlobalBox& box) const { return in_side(m_.to, layout_.target, box); }

  /// The dimension that is the k-th fastest in messages.
  std::size_t dim(int k) const { return Geometry::at(layout_.packs_left ? k : m_.rank - 1 - k); }

  BlockCopy copy(const GlobalBox& box, const BoxPlace& from, const BoxPlace& to) const {
    BlockCopy c;
    c.unit = m_.unit;
    c.from = from.data;
    c.to   = to.data;
    c.add(m_.value_size / m_.unit, m_.unit, m_.unit);
    for (int k = 0; k < m_.rank; ++k)
      c.add(box.extent[dim(k)], from.stride[dim(k)], to.stride[dim(k)]);
    c.close();
    return c;
  }
  BlockCopy packing(const MovedBox& moved) const {
    return copy(moved.box, read(moved.box), in_buffer(buffer_.here.data(), moved));
  }
  BlockCopy unpacking(const MovedBox& moved) const {
    BlockCopy c = copy(moved.box, in_buffer(buffer_.here.data(), moved), written(moved.box));
    c.packs     = false;
    return c;
  }
  /// Whether the message is sent, or received, where the field has it.
  bool in_place(const BlockCopy& c) const { return !buffer_.staged && c.is_contiguous(); }

  void launch(const char* label, const BlockCopy& c) const { run_block_copy(label, space_, c); }

  void launch(const CombinedBox& combined) const {
    const MovedBox in_message{combined.box, 0};
    const BoxPlace to   = written(combined.box);
    const BoxPlace sent = in_buffer(buffer_.here.data(), in_message);
    const bool is_here  = intersection(owned_, combined.box, m_.rank) == combined.box;
    const BoxPlace own  = is_here ? read(combined.box) : BoxPlace{nullptr, sent.stride};
    Join join;
    join.to      = to.data;
    join.own     = own.data;
    join.sent    = buffer_.here.data();
    join.offsets = plan_.offsets.data() + combined.first;
    join.count   = combined.count;
    join.kind    = m_.kind;
    join.op      = m_.op;
    join.adds    = m_.adds;
    for (int k = 0; k < m_.rank; ++k)
      join.add(combined.box.extent[dim(k)], to.stride[dim(k)], own.stride[dim(k)],
               sent.stride[dim(k)]);
    launch(join);
  }
  void launch(Join& join) const {
    if (join.dims == 0) {  // one cell
      join.dims      = 1;
      join.extent[0] = 1;
    }
    constexpr index_t piece = 65536;  // values of a line that one thread takes
    JoinKernel<is_host_space_v<Space>> kernel{join};
    const index_t line  = join.extent[0];
    kernel.pieces       = is_host_space_v<Space> ? (line + piece - 1) / piece : 1;
    const index_t items = join.lines() * (is_host_space_v<Space> ? kernel.pieces : line);
    impl::launch("shard::join", space_, items, kernel);
  }
  void clear() const {
    if (layout_.target.cells(m_.rank) == 0) return;
    Join join;  // of no contributions
    join.to   = m_.to.data;
    join.kind = m_.kind;
    for (int k = 0; k < m_.rank; ++k)
      join.add(layout_.target.extent[dim(k)], m_.to.stride[dim(k)], m_.to.stride[dim(k)],
               m_.to.stride[dim(k)]);
    launch(join);
  }

  void run(const MovementRound& round) {
    for (const MovedBox& box : round.packs) {
      const BlockCopy c = packing(box);
      if (!in_place(c)) launch("shard::pack", c);
    }
    if (!round.sends.empty() || !round.receives.empty()) exchange(round);
    for (const MovedBox& box : round.unpacks) {
      const BlockCopy c = unpacking(box);
      if (!in_place(c)) launch("shard::unpack", c);
    }
    for (const MovedBox& box : round.locals) {
      const BlockCopy c = copy(box.box, read(box.box), written(box.box));
      if (c.from != c.to) launch("shard::copy", c);
    }
    for (const CombinedBox& combined : round.combines) launch(combined);
    space_.fence("shard::moved");
  }

  void exchange(const MovementRound& round) {
    std::byte* const base = buffer_.staged ? buffer_.near.data() : buffer_.here.data();
    index_t sent          = 0;
    for (const MovedMessage& m : round.sends) sent = std::max(sent, m.offset + m.bytes);
    const std::pair<index_t, index_t> outgoing(0, sent), incoming(sent, round.buffer);
    if (buffer_.staged && sent > 0)
      Kokkos::deep_copy(space_, Kokkos::subview(buffer_.near, outgoing),
                        Kokkos::subview(buffer_.here, outgoing));
    space_.fence("shard::packed");
    const MeshState& mesh = *m_.mesh;
    int count             = 0;
    const auto in_steps   = [&](std::byte* data, index_t bytes, const auto& post) {
      for (index_t done = 0; done < bytes; done += plan_.limit)
        post(data + done, static_cast<int>(std::min(plan_.limit, bytes - done)),
               &buffer_.requests[static_cast<std::size_t>(count++)]);
    };
    for (const MovedMessage& m : round.receives) {
      std::byte* data = base + m.offset;
      if (m.box >= 0) {
        const BlockCopy c = unpacking(round.unpacks[static_cast<std::size_t>(m.box)]);
        if (in_place(c)) data = c.to;
      }
      in_steps(data, m.bytes, [&](std::byte* bytes, int n, MPI_Request* request) {
        check_mpi(MPI_Irecv(bytes, n, MPI_BYTE, m.peer, mesh.movement_tag(), mesh.comm(), request),
                  "MPI_Irecv");
      });
    }
    for (const MovedMessage& m : round.sends) {
      std::byte* data   = base + m.offset;
      const BlockCopy c = packing(round.packs[static_cast<std::size_t>(m.box)]);
      if (in_place(c)) data = c.from;
      in_steps(data, m.bytes, [&](std::byte* bytes, int n, MPI_Request* request) {
        check_mpi(MPI_Isend(bytes, n, MPI_BYTE, m.peer, mesh.movement_tag(), mesh.comm(), request),
                  "MPI_Isend");
      });
    }
    {
      const Watched watched({.what = "the cells of a redistribution", .rank = m_.mesh->rank()});
      await_mpi("MPI_Waitall", MPI_Waitall, count, buffer_.requests.data(), MPI_STATUSES_IGNORE);
    }
    if (buffer_.staged && round.buffer > sent)
      Kokkos::deep_copy(space_, Kokkos::subview(buffer_.here, incoming),
                        Kokkos::subview(buffer_.near, incoming));
  }

  const Space& space_;
  const Movement& m_;
  MovementPlan<Memory>& plan_;
  const MovementLayout& layout_;
  MovementBuffer<Memory>& buffer_;
  MovementSide source_;
  GlobalBox owned_;
};

}  // namespace

template <class Space>
void Movements<Space>::run(const Space& space, const Movement& movement) {
  const auto plan = find_plan<MemoryOf<Space>>(movement);
  Moving<Space>(space, movement, *plan).run();
}

template <class Space>
RedistributionReport Movements<Space>::report(const Movement& movement) {
  return find_plan<MemoryOf<Space>>(movement)->layout.report;
}

#if defined(KOKKOS_ENABLE_SERIAL)
template struct Movements<Kokkos::Serial>;
#endif
#if defined(KOKKOS_ENABLE_OPENMP)
template struct Movements<Kokkos::OpenMP>;
#endif
#if defined(KOKKOS_ENABLE_THREADS)
template struct Movements<Kokkos::Threads>;
#endif
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template struct Movements<Kokkos::DefaultExecutionSpace>;
#endif

}  // namespace shard::impl
