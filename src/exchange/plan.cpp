// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/exchange/plan.hpp"

#include <Kokkos_Profiling_ScopedRegion.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "job_builder.hpp"
#include "kernels.hpp"
#include "shard/base/error.hpp"
#include "shard/comm/mpi_transport.hpp"

namespace shard::impl {

namespace {

constexpr std::size_t alignment =
    16;  // of every field's part of a message: what the widest value type needs

std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/// What stands at the head of every message.
struct Header {
  std::uint32_t plan      = 0;
  std::uint32_t direction = 0;
  std::uint64_t sequence  = 0;
};
static_assert(sizeof(Header) == alignment);

/// Where messages are built and read: by kernels of `Memory`'s execution spaces, and by the host.
template <class Memory>
struct BufferMemoryOf {
  using type = Kokkos::SharedHostPinnedSpace;
};
template <>
struct BufferMemoryOf<Kokkos::HostSpace> {
  using type = Kokkos::HostSpace;
};

struct StoreConstant {
  double value;
  std::byte* to;

  template <class T>
  void operator()() const {
    const T typed = static_cast<T>(value);
    std::memcpy(to, &typed, sizeof(T));
  }
};

template <class Memory, class Job>
Kokkos::View<const Job*, Memory> upload(const std::string& label, const std::vector<Job>& jobs) {
  const Kokkos::View<Job*, Memory> there(Kokkos::view_alloc(Kokkos::WithoutInitializing, label),
                                         jobs.size());
  Kokkos::deep_copy(
      there, Kokkos::View<const Job*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(
                 jobs.data(), jobs.size()));
  return there;
}

template <class Job>
void number(std::vector<Job>& jobs, index_t& lines, index_t& cells) {
  for (Job& job : jobs) {
    job.first_line = lines;
    job.first_cell = cells;
    lines += job.lines;
    cells += job.cells;
  }
}

template <class Memory>
CopyJobs<Memory> finished(const std::string& label, std::vector<CopyJob>& jobs) {
  CopyJobs<Memory> done;
  number(jobs, done.lines, done.cells);
  done.jobs = upload<Memory>(label, jobs);
  return done;
}

}  // namespace

/// Buffers and requests of one exchange in flight.
struct BufferSetBase {
  bool busy              = false;
  std::uint64_t sequence = 0;
};

template <class Memory>
struct Plan<Memory>::BufferSet : BufferSetBase {
  using BufferMemory = typename BufferMemoryOf<Memory>::type;

  Kokkos::View<std::byte*, BufferMemory>
      bytes;  // what is sent, what is received, what stays on this rank
  std::byte *send = nullptr, *receive = nullptr, *local = nullptr;
  Kokkos::View<Address*, Memory> addresses;
  typename Kokkos::View<Address*, Memory>::host_mirror_type host_addresses;
  MpiTransport forward, adjoint;
  // whose kernels read this set last: on a device they may still run when another instance comes
  std::optional<Kokkos::DefaultExecutionSpace> last;

  BufferSet(const Plan& plan, const std::string& label)
      : bytes(Kokkos::view_alloc(label),
              plan.send_bytes_ + plan.receive_bytes_ + plan.local_bytes_ + alignment),
        addresses(Kokkos::view_alloc("shard::addresses"), 2 * plan.fields_.size() + 4),
        host_addresses(Kokkos::create_mirror_view(addresses)),
        forward(plan.mesh_->comm(), tag(plan, 0),
                messages(plan.receive_layout_, from_receive(plan)),
                messages(plan.send_layout_, from_send(plan))),
        adjoint(plan.mesh_->comm(), tag(plan, 1), messages(plan.send_layout_, from_send(plan)),
                messages(plan.receive_layout_, from_receive(plan))) {
    send    = from_send(plan);
    receive = from_receive(plan);
    local   = receive + plan.receive_bytes_;
  }

  std::byte* from_send(const Plan&) const {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
    return bytes.data() + (aligned(address) - address);
  }
  std::byte* from_receive(const Plan& plan) const { return from_send(plan) + plan.send_bytes_; }

  static int tag(const Plan& plan, std::uint32_t direction) {
    return static_cast<int>((plan.number_ * 2 + direction) %
                            static_cast<std::uint32_t>(plan.mesh_->tag_limit()));
  }

  static std::vector<Message> messages(const std::vector<MessageLayout>& layout,
                                       std::byte* buffer) {
    std::vector<Message> list;
    for (const MessageLayout& m : layout) list.push_back({m.peer, buffer + m.first, m.bytes});
    return list;
  }
};

template <class Memory>
std::shared_ptr<Plan<Memory>> Plan<Memory>::make(MeshState& mesh, std::vector<FieldSpec> fields) {
  std::string description;
  for (const FieldSpec& field : fields)
    description += (description.empty() ? "" : "; ") + field.describe();
  require_agreement(mesh.comm(), "Exchange", description);
  const std::uint32_t number = mesh.next_plan_number();
  std::shared_ptr<Plan> plan;
  std::string wrong;  // on this rank alone: a message too large, no memory
  try {
    plan.reset(new Plan(mesh, std::move(fields), number, std::make_shared<std::uint64_t>(0)));
  } catch (const std::exception& e) {
    wrong = e.what();
  }
  require_no_error(mesh.comm(), "Exchange", wrong);
  return plan;
}

namespace {

std::vector<FieldSpec> specs_of(const FieldArgs* fields, int count) {
  std::vector<FieldSpec> specs;
  for (int f = 0; f < count; ++f)
    specs.push_back(exchange_spec(*fields[f].geometry, fields[f].types, fields[f].kind,
                                  fields[f].value_size, fields[f].layout == 1,
                                  fields[f].stride.data()));
  return specs;
}

MeshState& mesh_of(const FieldArgs* fields, int count) {
  for (int f = 1; f < count; ++f) {
    const Geometry* const two[] = {fields[0].geometry, fields[f].geometry};
    common_mesh(two, 2);
  }
  return *fields[0].geometry->mesh;
}

}  // namespace

/// The plans for fields that differ in their strides alone. They send the same messages under the
/// same tag: which of them a rank runs is its own business.
template <class Memory>
struct Plan<Memory>::Family : CachedPlan {
  // Written out, so that it is the host's: hipcc makes defaulted destructors for the device too.
  ~Family() override {}  // NOLINT(modernize-use-equals-default)
  std::vector<std::shared_ptr<Plan>> plans;
};

template <class Memory>
std::shared_ptr<Plan<Memory>> Plan<Memory>::make_exchange(const FieldArgs* fields, int count) {
  return make(mesh_of(fields, count), specs_of(fields, count));
}

namespace {

/// Adds a field to a key by what is the same on every rank; strides need not be.
template <class Memory>
void add_to_key(PlanKey& key, const FieldArgs& field) {
  const index_t instead_of_strides[max_rank] = {std::is_same_v<Memory, Kokkos::HostSpace> ? 1 : 0,
                                                field.layout};
  impl::add_to_key(key, *field.geometry, field.types, field.kind, field.value_size,
                   instead_of_strides);
}

}  // namespace

/// The kept plan of this key for whose strides `same` holds; made from `specs()` if there is none,
/// collectively if there is none of the key at all.
template <class Memory>
template <class Specs, class Same>
std::shared_ptr<Plan<Memory>> Plan<Memory>::find(MeshState& mesh, const PlanKey& key,
                                                 const Specs& specs, const Same& same) {
  auto family = std::static_pointer_cast<Family>(mesh.find(key));
  if (!family) {
    auto made = make(mesh, specs());
    family    = std::make_shared<Family>();
    family->plans.push_back(made);
    mesh.keep(key, family);
    return made;
  }
  for (const auto& plan : family->plans)
    if (same(plan->fields_)) return plan;
  const Plan& first = *family->plans.front();
  family->plans.push_back(
      std::shared_ptr<Plan>(new Plan(mesh, specs(), first.number_, first.sequence_)));
  return family->plans.back();
}

template <class Memory>
std::shared_ptr<Plan<Memory>> Plan<Memory>::find_exchange(const FieldArgs* fields, int count) {
  MeshState& mesh = mesh_of(fields, count);
  PlanKey key;
  for (int f = 0; f < count; ++f) add_to_key<Memory>(key, fields[f]);
  return find(
      mesh, key, [&] { return specs_of(fields, count); },
      [&](const std::vector<FieldSpec>& specs) {
        bool same = true;
        for (int f = 0; f < count; ++f)
          same = same && specs[static_cast<std::size_t>(f)].from_stride == fields[f].stride;
        return same;
      });
}

template <class Memory>
std::shared_ptr<Plan<Memory>> Plan<Memory>::find_move(const FieldArgs& to, const FieldArgs& from) {
  const FieldArgs both[] = {to, from};
  MeshState& mesh        = mesh_of(both, 2);
  PlanKey key{~hash_seed, hash_seed};  // not the seeds of exchanges
  add_to_key<Memory>(key, to);
  add_to_key<Memory>(key, from);
  return find(
      mesh, key,
      [&] {
        return std::vector<FieldSpec>{
            move_spec(specs_of(&to, 1).front(), *from.geometry, from.stride.data())};
      },
      [&](const std::vector<FieldSpec>& specs) {
        return specs.front().to_stride == to.stride && specs.front().from_stride == from.stride;
      });
}

template <class Memory>
Plan<Memory>::Plan(MeshState& mesh, std::vector<FieldSpec> fields, std::uint32_t number,
                   std::shared_ptr<std::uint64_t> sequence)
    : mesh_(&mesh),
      fields_(std::move(fields)),
      number_(number),
      sequence_(std::move(sequence)),
      check_(environment_flag("SHARD_CHECK")) {
  build();
  sets_.push_back(std::make_unique<BufferSet>(*this, "shard::messages"));
}

template <class Memory>
Plan<Memory>::~Plan() = default;

template <class Memory>
void Plan<Memory>::build() {
  const int count = static_cast<int>(fields_.size());
  // address table: what each field is read from, what it is written to, and the buffers
  const int send = 2 * count, receive = send + 1, local = send + 2, constants = send + 3;

  std::vector<PlanBoxes> boxes;
  for (int f = 0; f < count; ++f)
    boxes.push_back(boxes_of(*mesh_, fields_[static_cast<std::size_t>(f)], f));

  std::vector<CopyJob> pack, unpack, adjoint_pack;
  std::vector<std::vector<Contribution>> contributions(fields_.size());

  const auto bytes_of = [&](const PlanBox& box) {
    const FieldSpec& spec = fields_[static_cast<std::size_t>(box.field)];
    return static_cast<std::size_t>(cells_of(spec, box)) *
           static_cast<std::size_t>(spec.value_size);
  };
  /// Places the boxes of all fields in messages, one per peer, and hands each box and its place to
  /// `use`.
  const auto lay_out = [&](auto list, std::vector<MessageLayout>& layout, std::size_t& total,
                           const auto& use) {
    std::vector<std::size_t> next(fields_.size(), 0);
    for (;;) {
      int peer = -1;
      for (std::size_t f = 0; f < fields_.size(); ++f)
        if (next[f] < list(f).size() && (peer < 0 || list(f)[next[f]].peer < peer))
          peer = list(f)[next[f]].peer;
      if (peer < 0) return;
      MessageLayout message{peer, total, sizeof(Header)};
      for (std::size_t f = 0; f < fields_.size(); ++f) {
        message.bytes = aligned(message.bytes);
        for (; next[f] < list(f).size() && list(f)[next[f]].peer == peer; ++next[f]) {
          const PlanBox& box = list(f)[next[f]];
          use(box, static_cast<index_t>(message.first + message.bytes));
          message.bytes += bytes_of(box);
        }
      }
      message.bytes = aligned(message.bytes);
      total += message.bytes;
      layout.push_back(message);
    }
  };

  // this rank's own images first, then those of peers in ascending order: the order of every sum
  for (const PlanBoxes& b : boxes)
    for (const PlanBox& box : b.locals) {
      const FieldSpec& spec = fields_[static_cast<std::size_t>(box.field)];
      const BufferBox place{local, static_cast<index_t>(local_bytes_)};
      add_local(spec, box, box.field, count + box.field, unpack);
      add_adjoint_pack(spec, box, count + box.field, place, adjoint_pack);
      contributions[static_cast<std::size_t>(box.field)].push_back({&box, place});
      local_bytes_ = aligned(local_bytes_ + bytes_of(box));
    }
  lay_out(
      [&](std::size_t f) -> const std::vector<PlanBox>& { return boxes[f].sends; }, send_layout_,
      send_bytes_,
      [&](const PlanBox& box, index_t first) {
        add_pack(fields_[static_cast<std::size_t>(box.field)], box, box.field, {send, first}, pack);
        contributions[static_cast<std::size_t>(box.field)].push_back({&box, {send, first}});
      });
  lay_out([&](std::size_t f) -> const std::vector<PlanBox>& { return boxes[f].receives; },
          receive_layout_, receive_bytes_,
          [&](const PlanBox& box, index_t first) {
            const FieldSpec& spec = fields_[static_cast<std::size_t>(box.field)];
            add_unpack(spec, box, {receive, first}, count + box.field, unpack);
            add_adjoint_pack(spec, box, count + box.field, {receive, first}, adjoint_pack);
          });

  // zero first, as wide as the widest value: what the transpose leaves where a constant was
  std::size_t widest = alignment;
  for (const FieldSpec& spec : fields_)
    widest = std::max(widest, aligned(static_cast<std::size_t>(spec.value_size)));
  std::vector<std::byte> values(widest, std::byte{0});
  for (const PlanBoxes& b : boxes)
    for (const PlanBox& box : b.constants) {
      const FieldSpec& spec = fields_[static_cast<std::size_t>(box.field)];
      index_t first         = 0;
      if (box.value != 0.0) {
        first = static_cast<index_t>(values.size());
        values.resize(values.size() + alignment, std::byte{0});
        if (spec.kind == ValueKind::boolean)
          values[static_cast<std::size_t>(first)] = std::byte{1};
        else
          visit_arithmetic(spec.kind, StoreConstant{box.value, values.data() + first});
      }
      add_constant(spec, box, {constants, first}, count + box.field, unpack);
      add_constant(spec, box, {constants, 0}, count + box.field, adjoint_pack);
    }

  std::vector<SumJob> sums;
  std::vector<SumSource> sources;
  for (int f = 0; f < count; ++f)
    add_sums(fields_[static_cast<std::size_t>(f)], contributions[static_cast<std::size_t>(f)], f,
             sums, sources);

  pack_         = finished<Memory>("shard::pack", pack);
  unpack_       = finished<Memory>("shard::unpack", unpack);
  adjoint_pack_ = finished<Memory>("shard::adjoint_pack", adjoint_pack);
  number(sums, sum_.lines, sum_.cells);
  sum_.jobs    = upload<Memory>("shard::sums", sums);
  sum_.sources = upload<Memory>("shard::summands", sources);
  constants_   = Kokkos::View<std::byte*, Memory>(
      Kokkos::view_alloc("shard::constants", Kokkos::WithoutInitializing), values.size());
  Kokkos::deep_copy(
      constants_,
      Kokkos::View<const std::byte*, Kokkos::HostSpace, Kokkos::MemoryTraits<Kokkos::Unmanaged>>(
          values.data(), values.size()));
}

template <class Memory>
typename Plan<Memory>::BufferSet& Plan<Memory>::free_set() {
  for (const auto& set : sets_)
    if (!set->busy) return *set;
  sets_.push_back(std::make_unique<BufferSet>(*this, "shard::messages"));
  return *sets_.back();
}

template <class Memory>
template <class Space>
Flight Plan<Memory>::start(const Space& space, const FieldAddresses& addresses,
                           Direction direction) {
  constexpr bool host   = runs_on_host_v<Space>;
  const bool forward    = direction == Direction::forward;
  BufferSet& set        = free_set();
  MpiTransport& channel = forward ? set.forward : set.adjoint;
  set.busy              = true;
  set.sequence          = (*sequence_)++;

  if constexpr (!host) {
    if (set.last && *set.last != space) set.last->fence("shard: buffers change hands");
    set.last = space;
  }
  bool changed     = false;
  const auto enter = [&](std::size_t i, void* address) {
    auto* bytes                 = static_cast<std::byte*>(address);
    changed                     = changed || set.host_addresses(i).bytes != bytes;
    set.host_addresses(i).bytes = bytes;
  };
  const std::size_t count = fields_.size();
  for (std::size_t f = 0; f < count; ++f) {
    enter(f, addresses.from[f]);
    enter(count + f, addresses.to[f]);
  }
  enter(2 * count, set.send);
  enter(2 * count + 1, set.receive);
  enter(2 * count + 2, set.local);
  enter(2 * count + 3, constants_.data());
  if constexpr (!host)
    if (changed) Kokkos::deep_copy(space, set.addresses, set.host_addresses);

  // on a device the kernel that last read the receive buffer may still run: its messages start
  // after the fence below
  if constexpr (host) channel.start_receives();
  run_copies(forward ? "shard::pack" : "shard::unhalo", space, forward ? pack_ : adjoint_pack_,
             Kokkos::View<const Address*, Memory>(set.addresses));
  if constexpr (!host) {
    space.fence("shard: messages are packed");
    channel.start_receives();
  }
  const Header header{number_, static_cast<std::uint32_t>(direction), set.sequence};
  for (const MessageLayout& m : forward ? send_layout_ : receive_layout_)
    std::memcpy((forward ? set.send : set.receive) + m.first, &header, sizeof(header));
  const Kokkos::Profiling::ScopedRegion region("shard::messages");
  channel.start_sends();
  return {&set, direction};
}

template <class Memory>
template <class Space>
void Plan<Memory>::finish(const Space& space, const Flight& flight) {
  BufferSet& set     = static_cast<BufferSet&>(*flight.set);
  const bool forward = flight.direction == Direction::forward;
  {
    const Kokkos::Profiling::ScopedRegion region("shard::messages");
    (forward ? set.forward : set.adjoint).wait();
  }
  if (check_) check_headers(set, flight.direction);
  if (forward)
    run_copies("shard::unpack", space, unpack_,
               Kokkos::View<const Address*, Memory>(set.addresses));
  else
    run_sums("shard::sum", space, sum_, Kokkos::View<const Address*, Memory>(set.addresses));
  set.busy = false;
}

template <class Memory>
void Plan<Memory>::check_headers(BufferSet& set, Direction direction) {
  const bool forward = direction == Direction::forward;
  for (const MessageLayout& m : forward ? receive_layout_ : send_layout_) {
    Header header;
    std::memcpy(&header, (forward ? set.receive : set.send) + m.first, sizeof(header));
    if (header.plan == number_ && header.sequence == set.sequence &&
        header.direction == static_cast<std::uint32_t>(direction))
      continue;
    set.busy = false;
    throw MessageError("shard::Exchange: rank " + text(mesh_->rank()) + " waited for message " +
                       text(static_cast<index_t>(set.sequence)) + " of plan " + text(number_) +
                       " from rank " + text(m.peer) + " and got message " +
                       text(static_cast<index_t>(header.sequence)) + " of plan " +
                       text(header.plan) +
                       "; all ranks must start the same exchanges in the same order");
  }
}

template class Plan<Kokkos::HostSpace>;
#if defined(KOKKOS_ENABLE_SERIAL)
template Flight Plan<Kokkos::HostSpace>::start(const Kokkos::Serial&, const FieldAddresses&,
                                               Direction);
template void Plan<Kokkos::HostSpace>::finish(const Kokkos::Serial&, const Flight&);
#endif
#if defined(KOKKOS_ENABLE_OPENMP)
template Flight Plan<Kokkos::HostSpace>::start(const Kokkos::OpenMP&, const FieldAddresses&,
                                               Direction);
template void Plan<Kokkos::HostSpace>::finish(const Kokkos::OpenMP&, const Flight&);
#endif
#if defined(KOKKOS_ENABLE_THREADS)
template Flight Plan<Kokkos::HostSpace>::start(const Kokkos::Threads&, const FieldAddresses&,
                                               Direction);
template void Plan<Kokkos::HostSpace>::finish(const Kokkos::Threads&, const Flight&);
#endif
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
using DeviceSpace  = Kokkos::DefaultExecutionSpace;
using DeviceMemory = DeviceSpace::memory_space;
template class Plan<DeviceMemory>;
template Flight Plan<DeviceMemory>::start(const DeviceSpace&, const FieldAddresses&, Direction);
template void Plan<DeviceMemory>::finish(const DeviceSpace&, const Flight&);
#endif

}  // namespace shard::impl
