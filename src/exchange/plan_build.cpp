// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Making a plan: agreement, messages, jobs.
#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "copy_builder.hpp"
#include "plan_channel.hpp"
#include "plan_phases.hpp"
#include "sum_builder.hpp"
#include "upload.hpp"
#include "shard/base/environment_variable.hpp"
#include "shard/base/error.hpp"
#include "shard/base/log.hpp"
#include "shard/view/region.hpp"

namespace shard::impl {

namespace {

struct StoreConstant {
  BoundaryValue value;
  std::byte* to;

  template <class T>
  void operator()() const {
    const T typed = value.as<T>();
    std::memcpy(to, &typed, sizeof(T));
  }
};

/// The sides of the owned cells, as in region.hpp, whose halos come in messages. Where sides meet
/// (a corner) one of them is enough, for a kernel sees the corner across both: the one that is
/// awaited anyway, or the one whose cells are farthest apart in memory.
unsigned awaited_sides(const std::vector<FieldSpec>& fields, const PlanLayout& layout) {
  unsigned awaited = 0;
  for (const bool faces : {true, false})
    for (const PlacedBox& b : layout.received) {
      const FieldSpec& spec = fields[static_cast<std::size_t>(b.box->field)];
      unsigned crossed = 0, outermost = 0;
      int count = 0;
      for (const int d : message_order(spec)) {
        if (d >= spec.rank) continue;
        const DimSpec& dim  = spec.dims[Geometry::at(d)];
        const index_t begin = dim.to.begin(dim.coordinate),
                      cell  = b.box->segments[Geometry::at(d)].target;
        if (cell >= begin && cell < begin + dim.to.count(dim.coordinate)) continue;
        outermost = cell < begin ? low_side(d) : high_side(d);
        crossed |= outermost;
        ++count;
      }
      if ((count == 1) == faces && (crossed & awaited) == 0) awaited |= outermost;
    }
  return awaited;
}

/// What carries the messages of a plan: the pool of the mesh, if it is wanted and there is room on
/// every rank of the node. Collective.
template <class Memory>
std::shared_ptr<SharedPool> pool_for(MeshState& mesh, const std::vector<FieldSpec>& fields,
                                     const Tuning& tuning) {
  if constexpr (!std::is_same_v<Memory, Kokkos::HostSpace>)
    return nullptr;
  else {
    if (tuning.transport == TransportKind::mpi) return nullptr;
    auto pool         = SharedPool::of(mesh);
    std::size_t bytes = 0;
    std::string wrong;
    try {
      const PlanLayout layout(mesh, fields, pool->usable() ? pool.get() : nullptr, tuning);
      bytes = SharedChannel::buffer_bytes(messages_of(layout.sends, true),
                                          messages_of(layout.receives, true));
    } catch (const std::exception& e) {
      wrong = e.what();
    }
    require_no_error(mesh.comm(), "Exchange", wrong);
    // from here each node for itself
    return pool->usable() &&
                   pool->reserve(bytes, 2,
                                 SharedChannel::flag_bytes(static_cast<int>(fields.size())))
               ? pool
               : nullptr;
  }
}

/// What carries messages beyond shared memory. Collective.
template <class Memory>
Carrier carrier_for(MeshState& mesh, const std::vector<FieldSpec>& fields, const Tuning& tuning) {
  if constexpr (!std::is_same_v<Memory, Kokkos::HostSpace>)
    return DeviceCarriers::choose(mesh, device_kind_of<Memory>, tuning);
  if (tuning.transport == TransportKind::nccl)
    throw_argument("Exchange", {"NCCL is asked for and field \"", fields.front().label,
                                "\" is in host memory, which it can't carry; ask for automatic"});
  return {};
}

}  // namespace

template <class Memory>
std::shared_ptr<Plan<Memory>> Plan<Memory>::make(MeshState& mesh, std::vector<FieldSpec> fields,
                                                 const Tuning& wanted) {
  Tuning tuning = wanted;
  const std::string wrong_variable =
      take_from_environment(tuning.transport, !std::is_same_v<Memory, Kokkos::HostSpace>);
  std::string description =
      to_text(tuning) + (environment_flag("SHARD_CHECK") ? ", checked" : ", not checked");
  if (!wrong_variable.empty()) description += ", " + wrong_variable;
  for (const FieldSpec& field : fields) description += "; " + field.describe();
  const std::uint32_t number = mesh.next_plan_number();
  const Watched watched({.what     = "the agreement about a new plan",
                         .rank     = mesh.rank(),
                         .plan     = number,
                         .sequence = 0,
                         .of       = &description,
                         .times    = false});
  require_agreement(mesh.comm(), "Exchange", description);
  if (!wrong_variable.empty()) throw_argument("Exchange", {wrong_variable});
  if (tuning.messages != MessageLayout::by_dimension)
    return make_agreed(mesh, std::move(fields), tuning, number);

  PhasedFields phased(fields);
  if (!phased.wrong.empty())
    log_once(mesh.comm(),
             "corners are sent at once and not dimension by dimension: " + phased.wrong);
  Tuning direct   = tuning;
  direct.messages = MessageLayout::one_per_peer;
  if (phased.specs.empty()) return make_agreed(mesh, std::move(fields), direct, number);
  auto phases = std::make_unique<PlanPhases<Memory>>();
  phases->places.resize(fields.size());
  phases->shifts = std::move(phased.shifts);
  for (auto& specs : phased.specs) {
    // The last phase is finished with the exchange and may not wait until it was read: a neighbour
    // that starts another exchange first waits there for this rank.
    if (phases->plans.size() + 1 == phased.specs.size())
      direct.direct_run = std::numeric_limits<std::size_t>::max();
    phases->plans.push_back(make_agreed(mesh, std::move(specs), direct, mesh.next_plan_number()));
    phases->plans.back()->is_phase_ = true;
  }
  auto plan     = make_agreed(mesh, std::move(fields), tuning, number);
  plan->phases_ = std::move(phases);
  return plan;
}

/// What all ranks have agreed about. Collective.
template <class Memory>
std::shared_ptr<Plan<Memory>> Plan<Memory>::make_agreed(MeshState& mesh,
                                                        std::vector<FieldSpec> fields,
                                                        const Tuning& tuning,
                                                        std::uint32_t number) {
  const Carrier carrier = carrier_for<Memory>(mesh, fields, tuning);
  const auto pool       = pool_for<Memory>(mesh, fields, tuning);
  std::shared_ptr<Plan> plan;
  std::string wrong;  // on this rank alone: a message too large, no memory
  try {
    PlanLayout layout(mesh, fields, pool.get(), tuning);
    auto channel =
        std::make_shared<PlanChannel<Memory>>(mesh, fields, tuning, number, carrier, pool, layout);
    plan.reset(new Plan(std::move(fields), std::move(channel), layout));
  } catch (const std::exception& e) {
    wrong = e.what();
  }
  require_no_error(mesh.comm(), "Exchange", wrong);
  return plan;
}

template <class Memory>
std::shared_ptr<Plan<Memory>> Plan<Memory>::sibling(std::vector<FieldSpec> fields) const {
  PlanLayout layout(channel_->mesh, fields, channel_->pool.get(), channel_->tuning);
  channel_->mark(layout);
  return std::shared_ptr<Plan>(new Plan(std::move(fields), channel_, layout));
}

template <class Memory>
Plan<Memory>::Plan(std::vector<FieldSpec> fields, std::shared_ptr<PlanChannel<Memory>> channel,
                   const PlanLayout& layout)
    : fields_(std::move(fields)), channel_(std::move(channel)) {
  for (std::size_t f = 0; f < fields_.size(); ++f)
    as_told_ = as_told_ && channel_->told.read[f].stride == fields_[f].from_stride &&
               channel_->told.written[f].stride == fields_[f].to_stride;
  build(layout);
}

template <class Memory>
Plan<Memory>::~Plan() = default;

template <class Memory>
const Tuning& Plan<Memory>::tuning() const {
  return channel_->tuning;
}

template <class Memory>
int Plan<Memory>::sends() const {
  if (phases_) return phases_->total([](const Plan& phase) { return phase.sends(); });
  return static_cast<int>(channel_->sends.size());
}

template <class Memory>
int Plan<Memory>::receives() const {
  if (phases_) return phases_->total([](const Plan& phase) { return phase.receives(); });
  return static_cast<int>(channel_->receives.size());
}

template <class Memory>
std::size_t Plan<Memory>::bytes_sent() const {
  if (phases_) return phases_->total([](const Plan& phase) { return phase.bytes_sent(); });
  std::size_t bytes = 0;
  for (const PeerMessage& m : channel_->sends) bytes += m.bytes;
  return bytes;
}

template <class Memory>
std::size_t Plan<Memory>::bytes() const {
  return tables_.size() + channel_->bytes() +
         (phases_ ? phases_->total([](const Plan& phase) { return phase.bytes(); }) : 0);
}

template <class Memory>
bool Plan<Memory>::may_end() {
  if (phases_)
    for (const auto& phase : phases_->plans)
      if (!phase->may_end()) return false;
  return channel_->may_end();
}

template <class Memory>
std::optional<bool> Plan<Memory>::wants_shared() const {
  if (!channel_->pool) return std::nullopt;
  bool wants = read_directly_[0] || read_directly_[1];
  if (phases_)
    for (const auto& phase : phases_->plans) wants = wants || phase->read_directly_[0];
  return wants;
}

template <class Memory>
void Plan<Memory>::build(const PlanLayout& layout) {
  const Entries& entry = channel_->entries;
  awaited_             = awaited_sides(fields_, layout);
  // `unpack` begins with what needs no message, `received` follows
  CopyJobList pack, unpack, received, adjoint_pack, read, returned;
  std::vector<std::vector<Contribution>> contributions(fields_.size());
  const auto spec_of = [&](const PlanBox& box) -> const FieldSpec& {
    return fields_[static_cast<std::size_t>(box.field)];
  };
  const BufferBox zero{entry.constants(), 0};
  std::vector<FieldPlace> written;
  for (const FieldSpec& spec : fields_) written.push_back(place_written(spec));

  // this rank's own images first, then those of peers in ascending order: the order of every sum
  for (const PlacedBox& b : layout.local) {
    const PlanBox& box = *b.box;
    const auto f       = static_cast<std::size_t>(box.field);
    add_local(spec_of(box), box, entry.from(box.field), entry.to(box.field), unpack);
    // no buffer: what stands in the halo is added as it is
    contributions[f].push_back(
        {&box, {entry.to(box.field)}, {entry.to(box.field), &written[f]}, true});
  }
  for (const PlacedBox& b : layout.sent) {
    const PlanBox& box   = *b.box;
    const PeerMessage& m = layout.sends[b.message];
    const auto f         = static_cast<std::size_t>(box.field);
    const auto first     = static_cast<index_t>(m.first) + b.offset;
    const int unless     = b.direct ? entry.offered() : -1;
    read_directly_[0]    = read_directly_[0] || b.direct;
    if (!m.shared) {
      add_pack(spec_of(box), box, entry.from(box.field), {entry.send(), first}, -1, pack);
      contributions[f].push_back({&box, {entry.send(), first}, {}, false});
      continue;
    }
    // forward this rank writes at its own buffer, which begins where the first message does
    add_pack(spec_of(box), box, entry.from(box.field), {entry.outgoing(true, m.index), b.offset},
             unless, pack);
    DirectBox direct;
    if (b.direct)
      direct = {entry.peer_field(false, m.index, box.field),
                &channel_->readers[m.index].written[f]};
    contributions[f].push_back({&box, {entry.incoming(false, m.index), b.offset}, direct, false});
  }
  for (const PlacedBox& b : layout.received) {
    const PlanBox& box   = *b.box;
    const PeerMessage& m = layout.receives[b.message];
    const auto f         = static_cast<std::size_t>(box.field);
    read_directly_[1]    = read_directly_[1] || b.direct;
    const BufferBox place{entry.receive(), static_cast<index_t>(m.first) + b.offset};
    if (!m.shared) {
      add_unpack(spec_of(box), box, place, {}, entry.to(box.field), received);
      add_adjoint_pack(spec_of(box), box, entry.to(box.field), place, -1, adjoint_pack);
      continue;
    }
    DirectBox direct;
    if (b.direct)
      direct = {entry.peer_field(true, m.index, box.field), &channel_->senders[m.index].read[f]};
    add_unpack(spec_of(box), box, {entry.incoming(true, m.index), b.offset}, direct,
               entry.to(box.field), received);
    add_adjoint_pack(spec_of(box), box, entry.to(box.field),
                     {entry.outgoing(false, m.index), b.offset}, b.direct ? entry.offered() : -1,
                     adjoint_pack);
  }

  if (channel_->check) {
    for (const auto* list : {&layout.local, &layout.sent})
      for (const PlacedBox& b : *list)
        add_pack(spec_of(*b.box), *b.box, entry.from(b.box->field), zero, -1, read);
    for (const auto* list : {&layout.local, &layout.received})
      for (const PlacedBox& b : *list)
        add_adjoint_pack(spec_of(*b.box), *b.box, entry.to(b.box->field), zero, -1, returned);
  }

  // zero first, as wide as the widest value: what the transpose leaves where a constant was
  std::size_t widest = message_alignment;
  for (const FieldSpec& spec : fields_)
    widest = std::max(widest, static_cast<std::size_t>(spec.value_size));
  std::vector<std::byte> values(widest, std::byte{0});
  for (const PlanBoxes& b : layout.boxes)
    for (const PlanBox& box : b.constants) {
      const FieldSpec& spec = spec_of(box);
      index_t first         = 0;
      if (!box.value.is_zero()) {
        first = static_cast<index_t>((values.size() + message_alignment - 1) / message_alignment *
                                     message_alignment);
        values.resize(static_cast<std::size_t>(first) + message_alignment, std::byte{0});
        if (spec.kind == ValueKind::boolean)
          values[static_cast<std::size_t>(first)] = std::byte{box.value.as<bool>()};
        else
          visit_arithmetic(spec.kind, StoreConstant{box.value, values.data() + first});
      }
      add_constant(spec, box, {entry.constants(), first}, entry.to(box.field), unpack);
      if (!spec.move) add_constant(spec, box, zero, entry.to(box.field), adjoint_pack);
    }

  // `sums` begins likewise
  SumJobList sums, received_sums;
  for (std::size_t f = 0; f < fields_.size(); ++f)
    add_sums(fields_[f], contributions[f], entry.from(static_cast<int>(f)), received_sums, sums);

  const auto local_copies = static_cast<index_t>(unpack.chunks.size()), local_cells = unpack.cells,
             local_sums = static_cast<index_t>(sums.chunks.size());
  unpack.append(received);
  sums.append(received_sums);

  Tables tables;
  const auto packs = tables.add(pack), unpacks = tables.add(unpack),
             adjoint_packs = tables.add(adjoint_pack), reads = tables.add(read),
             returns          = tables.add(returned);
  const auto summed           = tables.add(sums);
  const std::size_t constants = tables.add(values);
  tables_                     = tables.upload<Memory>("shard::plan");
  const std::byte* there      = tables_.data();
  pack_                       = jobs_at(there, packs, pack);
  unpack_                     = jobs_at(there, unpacks, unpack);
  adjoint_pack_               = jobs_at(there, adjoint_packs, adjoint_pack);
  read_                       = jobs_at(there, reads, read);
  returned_                   = jobs_at(there, returns, returned);
  sum_                        = jobs_at(there, summed, sums);
  unpack_.local_chunks        = local_copies;
  unpack_.local_cells         = local_cells;
  sum_.local_chunks           = local_sums;
  constants_                  = there + constants;
}

template class Plan<Kokkos::HostSpace>;
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP) || defined(KOKKOS_ENABLE_SYCL)
template class Plan<Kokkos::DefaultExecutionSpace::memory_space>;
#endif

}  // namespace shard::impl
