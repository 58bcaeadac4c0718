// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Couplings: routes between the shards of two meshes.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <string>
#include <utility>

#include "../exchange/for_each_space.hpp"
#include "../exchange/plan.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"
#include "shard/redistribute/impl/coupling_plan.hpp"

namespace shard::impl {

void throw_no_coupling() {
  throw_argument("Coupling",
                 {"this coupling was made by default; assign one that was made for fields"});
}

namespace {

/// What all ranks know of one field: the same numbers on every rank of its mesh.
struct CoupledField {
  index_t rank = 0, kind = 0, value_size = 0, left = 0, reduction = 0;
  std::vector<index_t> partials;  ///< axes
  struct Dim {
    index_t is_index_space = 0;
    std::vector<index_t> begin;  ///< of each part, and the size
    std::vector<index_t> axes;
  };
  std::vector<Dim> dims;

  bool is_partial(index_t axis) const { return contains(partials, axis); }
  bool is_sharded(index_t axis) const {
    return std::any_of(dims.begin(), dims.end(),
                       [&](const Dim& dim) { return contains(dim.axes, axis); });
  }
  static bool contains(const std::vector<index_t>& list, index_t axis) {
    return std::find(list.begin(), list.end(), axis) != list.end();
  }
};
/// One side: its mesh, and its fields.
struct CoupledSide {
  std::vector<index_t> shape;      ///< of the mesh
  std::vector<index_t> mesh_rank;  ///< by place, in the order of coordinates
  std::vector<CoupledField> fields;
  std::vector<int> rank;  ///< of the coupling, by the mesh's rank; not described

  index_t places() const { return static_cast<index_t>(mesh_rank.size()); }
  /// Coordinates of a place.
  std::array<index_t, max_axes> coordinates(index_t place) const {
    std::array<index_t, max_axes> c{};
    for (std::size_t a = shape.size(); a-- > 0; place /= shape[a]) c[a] = place % shape[a];
    return c;
  }
  int rank_at(index_t place) const {
    return rank[static_cast<std::size_t>(mesh_rank[static_cast<std::size_t>(place)])];
  }
};

/// Writes and reads the numbers of a description.
class Numbers {
 public:
  Numbers() = default;
  explicit Numbers(std::vector<index_t> all) : all_(std::move(all)) {}
  template <class Visit>
  static void visit(CoupledSide& side, const Visit& visit) {
    visit.list(side.shape);
    visit.list(side.mesh_rank);
    visit.structs(side.fields, [&](CoupledField& f) {
      for (index_t* n : {&f.rank, &f.kind, &f.value_size, &f.left, &f.reduction}) visit.number(*n);
      visit.list(f.partials);
      visit.structs(f.dims, [&](CoupledField::Dim& d) {
        visit.number(d.is_index_space);
        visit.list(d.begin);
        visit.list(d.axes);
      });
    });
  }
  const std::vector<index_t>& all() const { return all_; }
  void put(index_t number) { all_.push_back(number); }
  index_t take() { return all_[next_++]; }

 private:
  std::vector<index_t> all_;
  std::size_t next_ = 0;
};
struct Writer {
  Numbers& numbers;
  void number(index_t& n) const { numbers.put(n); }
  void list(std::vector<index_t>& l) const {
    numbers.put(static_cast<index_t>(l.size()));
    for (const index_t n : l) numbers.put(n);
  }
  template <class T, class Use>
  void structs(std::vector<T>& l, const Use& use) const {
    numbers.put(static_cast<index_t>(l.size()));
    for (T& t : l) use(t);
  }
};
struct Reader {
  Numbers& numbers;
  void number(index_t& n) const { n = numbers.take(); }
  void list(std::vector<index_t>& l) const {
    l.resize(static_cast<std::size_t>(numbers.take()));
    for (index_t& n : l) n = numbers.take();
  }
  template <class T, class Use>
  void structs(std::vector<T>& l, const Use& use) const {
    l.resize(static_cast<std::size_t>(numbers.take()));
    for (T& t : l) use(t);
  }
};

CoupledSide side_of(const std::vector<FieldArgs>& fields) {
  CoupledSide side;
  if (fields.empty()) return side;
  const MeshState& mesh = *fields.front().geometry->mesh;
  for (int a = 0; a < mesh.axes(); ++a) side.shape.push_back(mesh.extent(a));
  side.mesh_rank.resize(static_cast<std::size_t>(mesh.size()));
  for (index_t place = 0; place < mesh.size(); ++place) {
    const auto c = side.coordinates(place);
    int place_of[max_axes];
    for (std::size_t a = 0; a < max_axes; ++a) place_of[a] = static_cast<int>(c[a]);
    side.mesh_rank[static_cast<std::size_t>(place)] = mesh.rank_at(place_of);
  }
  for (const FieldArgs& args : fields) {
    const PartialAxes& partials = args.geometry->partials;
    CoupledField field{args.geometry->rank,
                       static_cast<index_t>(args.kind),
                       args.value_size,
                       args.layout == 1 ? 1 : 0,
                       static_cast<index_t>(partials.reduction),
                       {partials.axes.begin(), partials.axes.begin() + partials.count},
                       {}};
    for (int d = 0; d < args.geometry->rank; ++d) {
      const DimGeometry& dim = args.geometry->dims[Geometry::at(d)];
      CoupledField::Dim described;
      described.is_index_space = dim.partition.index_halo() != nullptr ? 1 : 0;
      for (int r = 0; r <= dim.partition.parts(); ++r)
        described.begin.push_back(dim.partition.begin(r));
      for (int a = 0; a < dim.axis_count; ++a) described.axes.push_back(dim.axes[Geometry::at(a)]);
      field.dims.push_back(std::move(described));
    }
    side.fields.push_back(std::move(field));
  }
  return side;
}

/// The side as its ranks describe it, told to all. Sets `wrong` where this rank describes it
/// otherwise. Collective over the mesh of the coupling.
CoupledSide told_side(const MeshState& mesh, const char* name, bool is_in,
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
  Numbers written;
  CoupledSide own = side_of(fields);
  Numbers::visit(own, Writer{written});
  std::vector<index_t> numbers = written.all();
  auto size                    = static_cast<index_t>(numbers.size());
  const int root               = static_cast<int>(first - mesh_rank.begin());
  await_mpi("MPI_Bcast", MPI_Bcast, static_cast<void*>(&size), 1, MPI_INT64_T, root, comm);
  numbers.resize(static_cast<std::size_t>(size));
  await_mpi("MPI_Bcast", MPI_Bcast, static_cast<void*>(numbers.data()), static_cast<int>(size),
            MPI_INT64_T, root, comm);
  Numbers read(numbers);
  Numbers::visit(side, Reader{read});
  if (is_in && numbers != written.all())
    wrong = std::string("the ranks of the side ") + name + " give different fields";
  side.rank.assign(side.mesh_rank.size(), -1);
  for (std::size_t r = 0; r < mesh_rank.size(); ++r)
    if (mesh_rank[r] >= 0 && static_cast<std::size_t>(mesh_rank[r]) < side.rank.size())
      side.rank[static_cast<std::size_t>(mesh_rank[r])] = static_cast<int>(r);
  for (std::size_t r = 0; r < side.rank.size() && wrong.empty(); ++r)
    if (side.rank[r] < 0)
      wrong = std::string("the communicator lacks rank ") + text(static_cast<index_t>(r)) +
              " of the mesh of the side " + name;
  return side;
}

/// The difference between the sides; empty if they fit.
std::string difference(const CoupledSide& to, const CoupledSide& from) {
  if (to.fields.size() != from.fields.size())
    return "the side `to` has " + text(static_cast<index_t>(to.fields.size())) +
           " fields and `from` " + text(static_cast<index_t>(from.fields.size()));
  for (std::size_t f = 0; f < to.fields.size(); ++f) {
    const CoupledField &a = to.fields[f], &b = from.fields[f];
    const std::string of = "field " + text(static_cast<index_t>(f)) + " of the side ";
    if (a.kind != b.kind || a.value_size != b.value_size || a.rank != b.rank)
      return of + "`to` has values of another type or another rank than that of `from`";
    const auto is_extremum = [](const CoupledField& field) {
      return !field.partials.empty() && field.reduction != static_cast<index_t>(ReductionKind::sum);
    };
    if (is_extremum(a) || is_extremum(b))
      return of +
             "`to` or `from` is a Partial maximum or minimum; only sums are added: "
             "redistribute it on its own mesh first";
    for (std::size_t d = 0; d < a.dims.size(); ++d) {
      if (a.dims[d].is_index_space != 0 || b.dims[d].is_index_space != 0)
        return of + "`to` or `from` is over an index space in dimension " +
               text(static_cast<index_t>(d)) + "; couplings are between structured fields";
      if (a.dims[d].begin.back() != b.dims[d].begin.back())
        return of + "`to` has " + text(a.dims[d].begin.back()) + " points in dimension " +
               text(static_cast<index_t>(d)) + " and that of `from` " +
               text(b.dims[d].begin.back());
    }
  }
  return {};
}

struct IndexBox {
  std::array<index_t, max_rank> begin{}, end{};
};
IndexBox box_at(const CoupledSide& side, const CoupledField& field, index_t place) {
  const auto c = side.coordinates(place);
  IndexBox box;
  for (std::size_t d = 0; d < field.dims.size(); ++d) {
    std::size_t part = 0;
    for (const index_t a : field.dims[d].axes) {
      const auto axis = static_cast<std::size_t>(a);
      part = part * static_cast<std::size_t>(side.shape[axis]) + static_cast<std::size_t>(c[axis]);
    }
    box.begin[d] = field.dims[d].begin[part];
    box.end[d]   = field.dims[d].begin[part + 1];
  }
  return box;
}

/// Whether a place of `from` sends to a rank: of the replicas the rank itself where it is one, else
/// they take turns; all contributions to a Partial sum.
bool serves(const CoupledSide& from, const CoupledField& field, index_t place, index_t own_place,
            int receiver) {
  const auto c   = from.coordinates(place);
  const auto own = own_place >= 0 ? from.coordinates(own_place) : c;
  for (std::size_t a = 0; a < from.shape.size(); ++a) {
    const auto axis = static_cast<index_t>(a);
    if (field.is_sharded(axis) || field.is_partial(axis)) continue;
    if (c[a] != (own_place >= 0 ? own[a] : receiver % from.shape[a])) return false;
  }
  return true;
}

/// Whether a place of `to` receives: of a Partial sum one along each of its axes.
bool takes(const CoupledSide& to, const CoupledField& field, index_t place) {
  const auto c = to.coordinates(place);
  return std::all_of(field.partials.begin(), field.partials.end(),
                     [&](index_t axis) { return c[static_cast<std::size_t>(axis)] == 0; });
}

/// The place of a rank of the coupling on a side, or -1.
std::vector<index_t> places_by_rank(const CoupledSide& side, int ranks) {
  std::vector<index_t> places(static_cast<std::size_t>(ranks), -1);
  for (index_t p = 0; p < side.places(); ++p) places[static_cast<std::size_t>(side.rank_at(p))] = p;
  return places;
}

/// The route from `from` to `to` on rank `me`; of a coupling that adds, the route from `to` to
/// `from`, whose transpose is run. Local.
Route route_between(const CoupledSide& to, const CoupledSide& from, int ranks, int me, bool adds,
                    const std::vector<std::string>& labels) {
  Route route;
  const auto to_place = places_by_rank(to, ranks), from_place = places_by_rank(from, ranks);
  for (std::size_t f = 0; f < to.fields.size(); ++f) {
    const CoupledField &target = to.fields[f], &source = from.fields[f];
    RouteField field;
    field.label      = labels[f];
    field.kind       = static_cast<ValueKind>(target.kind);
    field.value_size = static_cast<int>(target.value_size);
    field.rank       = static_cast<int>(target.rank);
    field.left       = target.left != 0;
    field.move       = true;
    const auto piece = [&](index_t source_place, index_t target_place, int peer,
                           std::vector<Piece>& list) {
      const IndexBox a = box_at(from, source, source_place), b = box_at(to, target, target_place);
      Piece p;
      p.field = static_cast<int>(f);
      p.peer  = peer;
      p.order = static_cast<int>(source_place);
      p.step.fill(1);
      for (std::size_t d = 0; d < target.dims.size(); ++d) {
        const index_t begin = std::max(a.begin[d], b.begin[d]), end = std::min(a.end[d], b.end[d]);
        if (begin >= end) return;
        p.source[d] = begin - a.begin[d];
        p.target[d] = begin - b.begin[d];
        p.extent[d] = end - begin;
      }
      if (adds) std::swap(p.source, p.target);
      list.push_back(p);
    };
    const auto own        = [&](int rank) { return from_place[static_cast<std::size_t>(rank)]; };
    const index_t here_to = to_place[static_cast<std::size_t>(me)], here_from = own(me);
    const auto owned_at = [&](const CoupledSide& side, const CoupledField& of, index_t place) {
      const IndexBox box = box_at(side, of, place);
      for (std::size_t d = 0; d < of.dims.size(); ++d) field.owned[d] = box.end[d] - box.begin[d];
    };
    if (here_to >= 0 && !adds) owned_at(to, target, here_to);
    if (here_from >= 0 && adds) owned_at(from, source, here_from);
    if (here_to >= 0 && takes(to, target, here_to))
      for (index_t p = 0; p < from.places(); ++p)
        if (serves(from, source, p, own(me), me))
          piece(p, here_to, from.rank_at(p), from.rank_at(p) == me ? route.locals : route.receives);
    if (here_from >= 0)
      for (index_t p = 0; p < to.places(); ++p)
        if (const int peer = to.rank_at(p);
            peer != me && takes(to, target, p) && serves(from, source, here_from, own(peer), peer))
          piece(here_from, p, peer, route.sends);
    route.fields.push_back(std::move(field));
  }
  if (adds) std::swap(route.sends, route.receives);
  for (auto* list : {&route.sends, &route.receives})
    std::stable_sort(list->begin(), list->end(),
                     [](const Piece& a, const Piece& b) { return a.peer < b.peer; });
  return route;
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

/// Puts the dimensions of the fields into the order of those of the other side.
void permute_dims(CoupledSide& side, const std::vector<int>& permute, std::string& wrong) {
  if (permute.empty()) return;
  std::vector<int> sorted = permute;
  std::sort(sorted.begin(), sorted.end());
  for (CoupledField& field : side.fields) {
    const auto dims = field.dims;
    for (std::size_t d = 0; d < permute.size(); ++d) {
      if (permute.size() != dims.size() || sorted[d] != static_cast<int>(d)) {
        wrong = "permute isn't a permutation of the " + text(static_cast<index_t>(dims.size())) +
                " dimensions";
        return;
      }
      field.dims[d] = dims[static_cast<std::size_t>(permute[d])];
    }
  }
}

/// A number of a mesh, which no other mesh of this process has had: for keys of plans between two.
/// Kept by the mesh, so that ranks which look it up together agree whether it is new.
struct MeshNumber : CachedPlan {
  ~MeshNumber() override {}  // NOLINT(modernize-use-equals-default): hipcc, as in plan_find.cpp
  std::uint64_t number = 0;
};
std::uint64_t number_of(MeshState& mesh) {
  static std::atomic<std::uint64_t> count{0};
  const PlanKey key{hash_seed + 4, ~hash_seed - 4};
  auto kept = std::static_pointer_cast<MeshNumber>(mesh.find(key));
  if (!kept) {
    kept         = std::make_shared<MeshNumber>();
    kept->number = ++count;
    mesh.keep(KeptKind::one_of_its_kind, key, kept);
  }
  return kept->number;
}

template <class Memory>
PlanKey key_of(const CouplingRequest& request) {
  const std::uint64_t numbers[] = {number_of(*request.from.front().geometry->mesh),
                                   request.adds ? 1U : 0U, request.to.size(), request.from.size()};
  PlanKey key{hash_bytes(numbers, sizeof(numbers), hash_seed + 5),
              hash_bytes(numbers, sizeof(numbers), ~hash_seed - 5)};
  for (const auto* fields : {&request.to, &request.from})
    for (const FieldArgs& field : *fields) {
      // not strides, which may differ between ranks
      const index_t same[max_rank] = {std::is_same_v<Memory, Kokkos::HostSpace> ? 1 : 0,
                                      field.layout, field.geometry->partials.count};
      add_to_key(key, *field.geometry, field.types, field.kind, field.value_size, same);
      const PartialAxes& partials = field.geometry->partials;
      for (std::uint64_t* hash : {&key.a, &key.b}) {
        *hash = hash_bytes(partials.axes.data(), sizeof(partials.axes), *hash);
        *hash = hash_bytes(&partials.reduction, sizeof(partials.reduction), *hash);
      }
    }
  return key;
}

}  // namespace

template <class Memory>
std::unique_ptr<CouplingPlan<Memory>> CouplingPlan<Memory>::make(MPI_Comm comm,
                                                                 const CouplingRequest& request) {
  std::unique_ptr<CouplingPlan> made(new CouplingPlan);
  made->own_mesh_          = MeshState::make(comm, {0}, {});
  CouplingRequest packed   = request;
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
  const CoupledSide target = told_side(mesh, "`to`", request.is_to, request.to, wrong);
  CoupledSide source       = told_side(mesh, "`from`", request.is_from, request.from, wrong);
  if (wrong.empty()) permute_dims(source, request.permute, wrong);
  if (wrong.empty()) wrong = difference(target, source);
  require_no_error(mesh.comm(), request.function, wrong);
  adds_ = request.adds || std::any_of(source.fields.begin(), source.fields.end(),
                                      [](const auto& f) { return !f.partials.empty(); });

  Tuning used = request.tuning;
  const std::string variable =
      take_from_environment(used.transport, !std::is_same_v<Memory, Kokkos::HostSpace>);
  std::string asked = to_text(used) + variable;
  for (const int d : request.permute) asked += ", dimension " + text(d);
  require_agreement(mesh.comm(), request.function, asked);
  if (!variable.empty()) throw_argument(request.function, {variable});
  std::vector<std::string> labels;
  const auto& named = request.is_from ? request.from : request.to;
  for (std::size_t f = 0; f < target.fields.size(); ++f)
    labels.push_back(f < named.size() ? named[f].geometry->label : std::string());
  is_to_   = request.is_to;
  is_from_ = request.is_from;
  nothing_.assign(target.fields.size(), nullptr);
  route_   = route_between(target, source, mesh.size(), mesh.rank(), adds_, labels);
  strides_ = strides_of(request, target.fields.size(), adds_);
  plan_    = Plan<Memory>::make(mesh, route_, pairs_of(strides_), used, mesh.next_plan_number());
}

template <class Memory>
CouplingPlan<Memory>::~CouplingPlan() {
  try {
    if (wait_ != nullptr) wait_(*this);
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
void CouplingPlan<Memory>::start(const Space& space, void* const* to, void* const* from,
                                 Direction direction) {
  flight_ = plan_->start(space, addresses(to, from), direction);
  wait_   = [](CouplingPlan& plan) { plan.finish(Space()); };
}

template <class Memory>
template <class Space>
void CouplingPlan<Memory>::finish(const Space& space) {
  if (std::exchange(wait_, nullptr) != nullptr) plan_->finish(space, std::exchange(flight_, {}));
}

template <class Memory>
template <class Space>
void CouplingPlan<Memory>::send(const Space& space, void* const* to, void* const* from) {
  if (!is_from_) refuse("Coupling::send", "this rank isn't on the side `from`, which sends");
  if (wait_ != nullptr)
    refuse("Coupling::send",
           is_to_ ? "the message before is under way; call receive between two sends"
                  : "the message before is under way; call finish between two sends");
  start(space, to, from, forward());
}

template <class Memory>
template <class Space>
void CouplingPlan<Memory>::start_receive(const Space& space, void* const* to, void* const* from) {
  if (!is_to_)
    refuse("Coupling::start_receive", "this rank isn't on the side `to`, which receives");
  if (is_from_) refuse("Coupling::start_receive", "on a rank on both sides send starts both");
  if (wait_ != nullptr)
    refuse("Coupling::start_receive", "the receive before is under way; call receive first");
  start(space, to, from, forward());
}

template <class Memory>
template <class Space>
void CouplingPlan<Memory>::receive(const Space& space, void* const* to, void* const* from) {
  if (!is_to_) refuse("Coupling::receive", "this rank isn't on the side `to`, which receives");
  if (is_from_ && wait_ == nullptr)
    refuse("Coupling::receive", "a rank on both sides calls send first");
  if (wait_ == nullptr) start(space, to, from, forward());
  finish(space);
}

template <class Memory>
template <class Space>
void CouplingPlan<Memory>::adjoint(const Space& space, void* const* to, void* const* from) {
  if (adds_)
    refuse("Coupling::adjoint",
           "its fields `from` are Partial sums, whose cotangents are replicated: couple the "
           "cotangents in the other direction");
  if (wait_ != nullptr) refuse("Coupling::adjoint", "a message is under way; finish it first");
  start(space, to, from, Direction::adjoint);
  finish(space);
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
  return plan_->table_bytes() + plan_->messages().bytes();
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
