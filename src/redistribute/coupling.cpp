// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plans of couplings.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <list>
#include <string>
#include <utility>
#include <vector>

#include "../exchange/for_each_space.hpp"
#include "../exchange/plan.hpp"
#include "coupling_route.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/log.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/redistribute/impl/coupling_plan.hpp"

namespace shard::impl {

namespace {

/// The side as its ranks describe it, the same on all ranks. Sets `wrong` where this rank describes
/// it otherwise. Collective over the mesh of the coupling.
CoupledSide gathered_side(const MeshState& mesh, const char* name, bool is_in,
                          const std::vector<FieldArgs>& fields, std::string& wrong) {
  const MPI_Comm comm = mesh.comm();
  std::vector<int> mesh_rank(static_cast<std::size_t>(mesh.size()));
  const int mine = !is_in ? -1 : fields.empty() ? -2 : fields.front().geometry->mesh->rank();
  await_mpi("MPI_Allgather", MPI_Allgather, &mine, 1, MPI_INT, mesh_rank.data(), 1, MPI_INT, comm);
  const auto first =
      std::find_if(mesh_rank.begin(), mesh_rank.end(), [](int r) { return r != -1; });
  CoupledSide side;
  if (first == mesh_rank.end()) {
    wrong = std::string("no rank is on the side ") + name + "; at least one gives its fields";
    return side;
  }
  const std::vector<index_t> own = numbers_of(side_of(fields));
  std::vector<index_t> numbers   = own;
  auto size                      = static_cast<index_t>(numbers.size());
  const int root                 = static_cast<int>(first - mesh_rank.begin());
  await_mpi("MPI_Bcast", MPI_Bcast, static_cast<void*>(&size), 1, MPI_INT64_T, root, comm);
  numbers.resize(static_cast<std::size_t>(size));
  await_mpi("MPI_Bcast", MPI_Bcast, static_cast<void*>(numbers.data()), static_cast<int>(size),
            MPI_INT64_T, root, comm);
  const bool differs = is_in && numbers != own;
  side               = side_from(std::move(numbers));
  if (differs)
    wrong = std::string("the ranks of the side ") + name +
            " give different fields: " + disagreement(side, root, side_of(fields), mesh.rank());
  std::vector<int> ranks(side.mesh_rank.size(), -1);
  for (std::size_t r = 0; r < mesh_rank.size(); ++r)
    if (mesh_rank[r] >= 0 && static_cast<std::size_t>(mesh_rank[r]) < ranks.size())
      ranks[static_cast<std::size_t>(mesh_rank[r])] = static_cast<int>(r);
  side.set_ranks(std::move(ranks), mesh.size());
  for (std::size_t r = 0; r < side.rank.size() && wrong.empty(); ++r)
    if (side.rank[r] < 0)
      wrong = std::string("the communicator lacks rank ") + text(static_cast<index_t>(r)) +
              " of the mesh of the side " + name;
  return side;
}

bool is_replicated(const CoupledSide& side) {
  for (const CoupledField& field : side.fields)
    for (std::size_t a = 0; a < side.shape.size(); ++a)
      if (const auto axis = static_cast<index_t>(a);
          side.shape[a] > 1 && !field.is_sharded(axis) && !field.is_partial(axis))
        return true;
  return false;
}

/// The strides of a side's field, in the order of the dimensions of `to`.
Strides strides_of(const std::vector<FieldArgs>& fields, std::size_t f,
                   const std::vector<int>& permute = {}) {
  if (f >= fields.size()) return {};
  Strides strides = fields[f].stride;
  for (std::size_t d = 0; d < permute.size(); ++d)
    strides[d] = fields[f].stride[static_cast<std::size_t>(permute[d])];
  return strides;
}

std::vector<std::array<index_t, max_rank>> strides_of(const CouplingRequest& request,
                                                      std::size_t fields, bool adds) {
  std::vector<std::array<index_t, max_rank>> strides;
  for (std::size_t f = 0; f < fields; ++f) {
    strides.push_back(strides_of(request.from, f, request.permute));
    strides.push_back(strides_of(request.to, f));
    if (adds) std::swap(strides[2 * f], strides[2 * f + 1]);
  }
  return strides;
}

std::vector<FieldStrides> pairs_of(const std::vector<std::array<index_t, max_rank>>& strides) {
  std::vector<FieldStrides> pairs;
  for (std::size_t f = 0; f < strides.size(); f += 2) pairs.push_back({strides[f], strides[f + 1]});
  return pairs;
}

/// A number of a mesh, which no other mesh of this process has had: for keys of plans between two.
/// Kept by the mesh, so that ranks which look it up together agree whether it is new.
struct MeshNumber : CachedPlan {
  ~MeshNumber() override {}  // NOLINT(modernize-use-equals-default): hipcc, as in plan_find.cpp
  std::uint64_t number = 0;
};
std::uint64_t number_of(MeshState& mesh) {
  static std::atomic<std::uint64_t> count{0};
  const PlanKey key = PlanKey::of(KeyKind::mesh_number);
  auto kept         = std::static_pointer_cast<MeshNumber>(mesh.find(key));
  if (!kept) {
    kept         = std::make_shared<MeshNumber>();
    kept->number = ++count;
    mesh.keep(KeptKind::one_of_its_kind, key, kept);
  }
  return kept->number;
}

/// The transport of a coupling, for `asked`. Where sends and receives are started apart it isn't
/// NCCL: a send blocks the stream until the peer's receive has started, so two opposite couplings
/// would wait for each other.
template <class Memory>
TransportKind transport_of(const MeshState& mesh, const CouplingRequest& request,
                           TransportKind asked) {
  if (std::is_same_v<Memory, Kokkos::HostSpace>) {
    if (asked == TransportKind::nccl)
      throw_argument(request.function,
                     {"NCCL is requested for fields in host memory; it needs device memory: "
                      "request automatic"});
    return asked;
  }
  if (!request.in_halves) return asked;
  if (asked == TransportKind::nccl)
    log_once(mesh.comm(),
             "messages of a Coupling go by MPI: NCCL can't send and receive at different times");
  return TransportKind::mpi;
}

template <class Memory>
PlanKey key_of(const CouplingRequest& request) {
  const std::uint64_t numbers[] = {number_of(*request.from.front().geometry->mesh),
                                   request.adds ? 1U : 0U, request.to.size(), request.from.size()};
  PlanKey key                   = PlanKey::of(KeyKind::coupling);
  key.mix(numbers, sizeof(numbers));
  for (const auto* fields : {&request.to, &request.from})
    for (const FieldArgs& field : *fields) {
      // not strides, which may differ between ranks
      const index_t same[max_rank] = {std::is_same_v<Memory, Kokkos::HostSpace> ? 1 : 0,
                                      field.layout, field.geometry->partials.count};
      add_to_key(key, *field.geometry, field.types, field.kind, field.value_size, same);
      const PartialAxes& partials = field.geometry->partials;
      key.mix(partials.axes.data(), sizeof(partials.axes));
      key.mix(&partials.reduction, sizeof(partials.reduction));
    }
  return key;
}

}  // namespace

namespace {

/// Receives messages that nobody asked for: MPI may refuse to free a communicator that has some.
void drop_messages(MPI_Comm comm) {
  while (true) {
    int found = 0, bytes = 0;
    MPI_Status status;
    check_mpi(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &found, &status), "MPI_Iprobe");
    if (found == 0) return;
    check_mpi(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    if (bytes == MPI_UNDEFINED) return;  // longer than MPI counts
    std::vector<std::byte> dropped(static_cast<std::size_t>(bytes));
    await_mpi("MPI_Recv", MPI_Recv, static_cast<void*>(dropped.data()), bytes, MPI_BYTE,
              status.MPI_SOURCE, status.MPI_TAG, comm, MPI_STATUS_IGNORE);
  }
}

/// The last messages of couplings that have ended on this rank, which the other side hasn't read:
/// perhaps it never will, so nobody waits for it. Looked at when a coupling is made or ends; what
/// is left when Kokkos is finalized is abandoned.
template <class Memory>
class LastMessages {
 public:
  static LastMessages& instance() {
    static auto* const all = new LastMessages;  // couplings may outlive static objects
    return *all;
  }
  void keep(std::shared_ptr<MeshState> mesh, std::shared_ptr<Plan<Memory>> plan) {
    kept_.push_back({std::move(mesh), std::move(plan)});
  }
  void free_received() {
    // of a list: moving entries onto others would end a mesh before its plan
    std::erase_if(kept_, [](const Kept& one) { return one.plan->was_received(); });
  }

 private:
  struct Kept {
    std::shared_ptr<MeshState> mesh;
    std::shared_ptr<Plan<Memory>> plan;  // ends before its mesh
  };
  LastMessages() {
    Kokkos::push_finalize_hook([this] {
      for (const Kept& one : kept_) one.plan->abandon();
      kept_.clear();
    });
  }
  std::list<Kept> kept_;
};

}  // namespace

template <class Memory>
std::unique_ptr<CouplingPlan<Memory>> CouplingPlan<Memory>::make(MPI_Comm comm,
                                                                 const CouplingRequest& request) {
  std::unique_ptr<CouplingPlan> made(new CouplingPlan);
  made->own_mesh_ = MeshState::make(comm, {0}, {});
  LastMessages<Memory>::instance().free_received();
  CouplingRequest packed   = request;
  packed.in_halves         = true;
  packed.tuning.direct_run = std::numeric_limits<std::size_t>::max();
  made->build(*made->own_mesh_, packed);
  return made;
}

template <class Memory>
std::shared_ptr<CouplingPlan<Memory>> CouplingPlan<Memory>::find(const CouplingRequest& request) {
  MeshState& mesh   = *request.to.front().geometry->mesh;
  const PlanKey key = key_of<Memory>(request);
  auto plan         = std::static_pointer_cast<CouplingPlan>(mesh.find(key));
  if (!plan) {
    const Geometry& from = *request.from.front().geometry;
    int same             = MPI_UNEQUAL;
    check_mpi(MPI_Comm_compare(mesh.comm(), from.mesh->comm(), &same), "MPI_Comm_compare");
    if (same == MPI_UNEQUAL)
      throw_argument(request.function,
                     {"field \"", from.label, "\" is on a mesh of other ranks than \"",
                      request.to.front().geometry->label, "\"; make a shard::Coupling for them"});
    plan.reset(new CouplingPlan);
    plan->build(mesh, request);
    mesh.keep(KeptKind::redistribution, key, plan);
  }
  auto strides = strides_of(request, request.to.size(), plan->adds_);
  if (strides != plan->strides_) {
    plan->plan_    = plan->plan_->sibling(plan->route_, pairs_of(strides));
    plan->strides_ = std::move(strides);
  }
  return plan;
}

template <class Memory>
void CouplingPlan<Memory>::build(MeshState& mesh, const CouplingRequest& request) {
  const Watched watched({.what = "other ranks to make a coupling", .rank = mesh.rank()});
  std::string wrong;
  for (const auto* fields : {&request.to, &request.from})
    for (const FieldArgs& field : *fields)
      if (field.geometry->mesh != fields->front().geometry->mesh)
        wrong = "field \"" + field.geometry->label + "\" lives on another mesh than \"" +
                fields->front().geometry->label + "\"; the fields of one side share a mesh";
  const CoupledSide target = gathered_side(mesh, "`to`", request.is_to, request.to, wrong);
  CoupledSide source       = gathered_side(mesh, "`from`", request.is_from, request.from, wrong);
  require_no_error(mesh.comm(), request.function, wrong);  // before the sides are compared
  permute_dims(source, request.permute, wrong);
  if (wrong.empty()) wrong = difference(target, source);
  require_no_error(mesh.comm(), request.function, wrong);
  adds_ = request.adds || std::any_of(source.fields.begin(), source.fields.end(),
                                      [](const auto& f) { return !f.partials.empty(); });

  Tuning used = request.tuning;
  const std::string variable =
      take_from_environment(used.transport, !std::is_same_v<Memory, Kokkos::HostSpace>);
  std::string asked = to_text(used) + variable;
  if (request.sums_replicas) asked += ", sums replicas";
  for (const int d : request.permute) asked += ", dimension " + text(d);
  require_agreement(mesh.comm(), request.function, asked);
  if (!variable.empty()) throw_argument(request.function, {variable});
  used.transport = transport_of<Memory>(mesh, request, used.transport);
  std::vector<std::string> labels;
  const auto& named = request.is_from ? request.from : request.to;
  for (std::size_t f = 0; f < target.fields.size(); ++f)
    labels.push_back(f < named.size() ? named[f].geometry->label : std::string());
  is_to_   = request.is_to;
  is_from_ = request.is_from;
  nothing_.assign(target.fields.size(), nullptr);
  const auto matchings =
      matchings_of(mesh.comm(), target, source, request.to, request.from, request.permute, wrong);
  require_no_error(mesh.comm(), request.function, wrong);
  route_   = route_between(target, source, mesh.rank(), adds_, labels, matchings);
  strides_ = strides_of(request, target.fields.size(), adds_);
  plan_    = Plan<Memory>::make(mesh, route_, pairs_of(strides_), used, mesh.next_plan_number());
  if (!request.in_halves || !(adds_ || (request.sums_replicas && is_replicated(source)))) return;
  transpose_ = Plan<Memory>::make(
      mesh,
      route_between(target, source, mesh.rank(), false, labels, matchings, request.sums_replicas),
      pairs_of(strides_of(request, target.fields.size(), false)), used, mesh.next_plan_number());
}

template <class Memory>
CouplingPlan<Memory>::~CouplingPlan() {
  try {
    if (wait_ != nullptr && !is_to_)
      plan_->leave(started_);
    else if (wait_ != nullptr)
      wait_(*this);
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (own_mesh_ == nullptr || finalized != 0) return;
    if (is_to_ && plan_ != nullptr) drop_messages(own_mesh_->comm());
    transpose_.reset();
    auto& last = LastMessages<Memory>::instance();
    if (plan_ != nullptr && !plan_->was_received())
      last.keep(std::move(own_mesh_), std::move(plan_));
    last.free_received();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "shard: a coupling could not be finished: %s\n", error.what());
    std::abort();
  }
}

template <class Memory>
FieldAddresses CouplingPlan<Memory>::addresses(void* const* to, void* const* from) const {
  void* const* const source = is_from_ ? from : nothing_.data();
  void* const* const target = is_to_ ? to : nothing_.data();
  return {adds_ ? target : source, adds_ ? source : target};
}

template <class Memory>
void CouplingPlan<Memory>::refuse(const char* function, const std::string& why) const {
  std::vector<index_t> peers(plan_->messages().peers.begin(), plan_->messages().peers.end());
  throw_argument(function, {"the coupling of ", plan_->messages().names, " with the ranks ",
                            text(peers.data(), static_cast<int>(peers.size())), ": ", why});
}

template <class Memory>
template <class Space>
void CouplingPlan<Memory>::start(const Space& space, void* const* to, void* const* from) {
  started_ = plan_->start(space, addresses(to, from), forward());
  wait_    = [](CouplingPlan& plan) {
    // this isn't the instance that started it, nor the one that will read the fields
    Kokkos::fence("shard::Coupling: before its last message is finished");
    plan.finish(Space());
    Kokkos::fence("shard::Coupling: its last message is finished");
  };
}

template <class Memory>
template <class Space>
void CouplingPlan<Memory>::finish(const Space& space) {
  if (std::exchange(wait_, nullptr) != nullptr) plan_->finish(space, std::exchange(started_, {}));
}

template <class Memory>
template <class Space>
void CouplingPlan<Memory>::send(const Space& space, void* const* to, void* const* from) {
  if (!is_from_) refuse("Coupling::send", "this rank isn't on the side `from`, which sends");
  if (wait_ != nullptr)
    refuse("Coupling::send",
           is_to_ ? "the message before is under way; call receive between two sends"
                  : "the message before is under way; call finish between two sends");
  start(space, to, from);
}

template <class Memory>
template <class Space>
void CouplingPlan<Memory>::start_receive(const Space& space, void* const* to, void* const* from) {
  if (!is_to_)
    refuse("Coupling::start_receive", "this rank isn't on the side `to`, which receives");
  if (is_from_) refuse("Coupling::start_receive", "on a rank on both sides send starts both");
  if (wait_ != nullptr)
    refuse("Coupling::start_receive", "the receive before is under way; call receive first");
  start(space, to, from);
}

template <class Memory>
template <class Space>
void CouplingPlan<Memory>::receive(const Space& space, void* const* to, void* const* from) {
  if (!is_to_) refuse("Coupling::receive", "this rank isn't on the side `to`, which receives");
  if (is_from_ && wait_ == nullptr)
    refuse("Coupling::receive", "a rank on both sides calls send first");
  if (wait_ == nullptr) start(space, to, from);
  finish(space);
}

template <class Memory>
template <class Space>
void CouplingPlan<Memory>::adjoint(const Space& space, void* const* to, void* const* from) {
  if (wait_ != nullptr) refuse("Coupling::adjoint", "a message is under way; finish it first");
  Plan<Memory>& plan = transpose_ ? *transpose_ : *plan_;
  const FieldAddresses both{is_from_ ? from : nothing_.data(), is_to_ ? to : nothing_.data()};
  plan.finish(space, plan.start(space, both, Direction::adjoint));
}

template <class Memory>
template <class Space>
void CouplingPlan<Memory>::run(const Space& space, void* const* to, void* const* from) {
  plan_->finish(space, plan_->start(space, addresses(to, from), forward()));
}

template <class Memory>
int CouplingPlan<Memory>::sends() const {
  return static_cast<int>((adds_ ? plan_->messages().receives : plan_->messages().sends).size());
}
template <class Memory>
int CouplingPlan<Memory>::receives() const {
  return static_cast<int>((adds_ ? plan_->messages().sends : plan_->messages().receives).size());
}
template <class Memory>
std::size_t CouplingPlan<Memory>::bytes() const {
  std::size_t all = 0;
  for (const auto& plan : {plan_, transpose_})
    if (plan) all += plan->table_bytes() + plan->messages().bytes();
  return all;
}
template <class Memory>
bool CouplingPlan<Memory>::may_end() {
  return plan_->messages().may_end();
}

#define SHARD_COUPLING(Memory) template class CouplingPlan<Memory>;
SHARD_FOR_EACH_MEMORY(SHARD_COUPLING)
#undef SHARD_COUPLING
#define SHARD_COUPLING(Memory, Space)                                                          \
  template void CouplingPlan<Memory>::send(const Space&, void* const*, void* const*);          \
  template void CouplingPlan<Memory>::start_receive(const Space&, void* const*, void* const*); \
  template void CouplingPlan<Memory>::receive(const Space&, void* const*, void* const*);       \
  template void CouplingPlan<Memory>::finish(const Space&);                                    \
  template void CouplingPlan<Memory>::adjoint(const Space&, void* const*, void* const*);       \
  template void CouplingPlan<Memory>::run(const Space&, void* const*, void* const*);
SHARD_FOR_EACH_SPACE(SHARD_COUPLING)
#undef SHARD_COUPLING

}  // namespace shard::impl
