// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Couplings: routes between the shards of two meshes.
#include <algorithm>
#include <array>
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
  index_t rank = 0, kind = 0, value_size = 0, left = 0, partials = 0;
  struct Dim {
    std::vector<index_t> begin;  ///< of each part, and the size
    std::vector<index_t> axes;
  };
  std::vector<Dim> dims;
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
      for (index_t* n : {&f.rank, &f.kind, &f.value_size, &f.left, &f.partials}) visit.number(*n);
      visit.structs(f.dims, [&](CoupledField::Dim& d) {
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
    CoupledField field{args.geometry->rank,      static_cast<index_t>(args.kind), args.value_size,
                       args.layout == 1 ? 1 : 0, args.geometry->partials.count,   {}};
    for (int d = 0; d < args.geometry->rank; ++d) {
      const DimGeometry& dim = args.geometry->dims[Geometry::at(d)];
      CoupledField::Dim described;
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
    if (a.partials > 0 || b.partials > 0)
      return of + "`to` or `from` is Partial; redistribute it on its own mesh first";
    for (std::size_t d = 0; d < a.dims.size(); ++d)
      if (a.dims[d].begin.back() != b.dims[d].begin.back())
        return of + "`to` has " + text(a.dims[d].begin.back()) + " points in dimension " +
               text(static_cast<index_t>(d)) + " and that of `from` " +
               text(b.dims[d].begin.back());
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

/// Which of the replicas of `from` sends to a rank: the rank itself where it is one, else they take
/// turns.
bool serves(const CoupledSide& from, const CoupledField& field, index_t place, index_t own_place,
            int receiver) {
  const auto c   = from.coordinates(place);
  const auto own = own_place >= 0 ? from.coordinates(own_place) : c;
  for (std::size_t a = 0; a < from.shape.size(); ++a) {
    bool shards = false;
    for (const auto& dim : field.dims)
      shards = shards || std::find(dim.axes.begin(), dim.axes.end(), static_cast<index_t>(a)) !=
                             dim.axes.end();
    if (shards) continue;
    if (c[a] != (own_place >= 0 ? own[a] : receiver % from.shape[a])) return false;
  }
  return true;
}

/// The place of a rank of the coupling on a side, or -1.
std::vector<index_t> places_by_rank(const CoupledSide& side, int ranks) {
  std::vector<index_t> places(static_cast<std::size_t>(ranks), -1);
  for (index_t p = 0; p < side.places(); ++p) places[static_cast<std::size_t>(side.rank_at(p))] = p;
  return places;
}

Route route_between(const CoupledSide& to, const CoupledSide& from, int ranks, int me) {
  Route route;
  const auto to_place = places_by_rank(to, ranks), from_place = places_by_rank(from, ranks);
  for (std::size_t f = 0; f < to.fields.size(); ++f) {
    const CoupledField &target = to.fields[f], &source = from.fields[f];
    RouteField field;
    field.label      = "field " + text(static_cast<index_t>(f)) + " of a coupling";
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
      p.step.fill(1);
      for (std::size_t d = 0; d < target.dims.size(); ++d) {
        const index_t begin = std::max(a.begin[d], b.begin[d]), end = std::min(a.end[d], b.end[d]);
        if (begin >= end) return;
        p.source[d] = begin - a.begin[d];
        p.target[d] = begin - b.begin[d];
        p.extent[d] = end - begin;
      }
      list.push_back(p);
    };
    const auto own        = [&](int rank) { return from_place[static_cast<std::size_t>(rank)]; };
    const index_t here_to = to_place[static_cast<std::size_t>(me)], here_from = own(me);
    if (here_to >= 0) {
      const IndexBox box = box_at(to, target, here_to);
      for (std::size_t d = 0; d < target.dims.size(); ++d)
        field.owned[d] = box.end[d] - box.begin[d];
      for (index_t p = 0; p < from.places(); ++p)
        if (serves(from, source, p, own(me), me))
          piece(p, here_to, from.rank_at(p), from.rank_at(p) == me ? route.locals : route.receives);
    }
    if (here_from >= 0)
      for (index_t p = 0; p < to.places(); ++p)
        if (const int peer = to.rank_at(p);
            peer != me && serves(from, source, here_from, own(peer), peer))
          piece(here_from, p, peer, route.sends);
    route.fields.push_back(std::move(field));
  }
  for (auto* list : {&route.sends, &route.receives})
    std::stable_sort(list->begin(), list->end(),
                     [](const Piece& a, const Piece& b) { return a.peer < b.peer; });
  return route;
}

Strides strides_of(const std::vector<FieldArgs>& fields, std::size_t f) {
  return f < fields.size() ? fields[f].stride : Strides{};
}

}  // namespace

template <class Memory>
std::unique_ptr<CouplingPlan<Memory>> CouplingPlan<Memory>::make(MPI_Comm comm, bool is_to,
                                                                 const std::vector<FieldArgs>& to,
                                                                 bool is_from,
                                                                 const std::vector<FieldArgs>& from,
                                                                 const Tuning& tuning) {
  std::unique_ptr<CouplingPlan> made(new CouplingPlan);
  made->mesh_     = MeshState::make(comm, {0}, {});
  MeshState& mesh = *made->mesh_;
  const Watched watched({.what = "other ranks to make a coupling", .rank = mesh.rank()});
  std::string wrong;
  for (const auto* fields : {&to, &from})
    for (const FieldArgs& field : *fields)
      if (field.geometry->mesh != fields->front().geometry->mesh)
        wrong = "field \"" + field.geometry->label + "\" lives on another mesh than \"" +
                fields->front().geometry->label + "\"; the fields of one side share a mesh";
  const CoupledSide target = told_side(mesh, "`to`", is_to, to, wrong),
                    source = told_side(mesh, "`from`", is_from, from, wrong);
  if (wrong.empty()) wrong = difference(target, source);
  require_no_error(mesh.comm(), "Coupling", wrong);

  Tuning used     = tuning;
  used.direct_run = std::numeric_limits<std::size_t>::max();  // what was sent may change at once
  const std::string variable =
      take_from_environment(used.transport, !std::is_same_v<Memory, Kokkos::HostSpace>);
  require_agreement(mesh.comm(), "Coupling", to_text(used) + variable);
  if (!variable.empty()) throw_argument("Coupling", {variable});
  std::vector<FieldStrides> strides;
  for (std::size_t f = 0; f < target.fields.size(); ++f)
    strides.push_back({strides_of(from, f), strides_of(to, f)});
  made->is_to_   = is_to;
  made->is_from_ = is_from;
  made->nothing_.assign(target.fields.size(), nullptr);
  made->plan_ = Plan<Memory>::make(mesh, route_between(target, source, mesh.size(), mesh.rank()),
                                   strides, used, mesh.next_plan_number());
  return made;
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
  return {is_from_ ? from : nothing_.data(), is_to_ ? to : nothing_.data()};
}

template <class Memory>
template <class Space>
void CouplingPlan<Memory>::finish(const Space& space) {
  wait_ = nullptr;
  plan_->finish(space, std::exchange(flight_, {}));
}

template <class Memory>
template <class Space>
void CouplingPlan<Memory>::send(const Space& space, void* const* to, void* const* from) {
  if (!is_from_)
    throw_argument("Coupling::send", {"this rank isn't on the side `from`, which sends"});
  if (wait_ != nullptr) {
    if (is_to_)
      throw_argument("Coupling::send",
                     {"the previous message was not received; a rank on both sides "
                      "calls receive between two sends"});
    wait_(*this);
  }
  flight_ = plan_->start(space, addresses(to, from), Direction::forward);
  wait_   = [](CouplingPlan& plan) { plan.finish(Space()); };
}

template <class Memory>
template <class Space>
void CouplingPlan<Memory>::receive(const Space& space, void* const* to, void* const* from) {
  if (!is_to_)
    throw_argument("Coupling::receive", {"this rank isn't on the side `to`, which receives"});
  if (is_from_ && wait_ == nullptr)
    throw_argument("Coupling::receive", {"a rank on both sides calls send first"});
  if (!is_from_) flight_ = plan_->start(space, addresses(to, from), Direction::forward);
  finish(space);
}

template <class Memory>
template <class Space>
void CouplingPlan<Memory>::adjoint(const Space& space, void* const* to, void* const* from) {
  if (wait_ != nullptr) wait_(*this);
  flight_ = plan_->start(space, addresses(to, from), Direction::adjoint);
  finish(space);
}

template <class Memory>
int CouplingPlan<Memory>::sends() const {
  return static_cast<int>(plan_->messages().sends.size());
}
template <class Memory>
int CouplingPlan<Memory>::receives() const {
  return static_cast<int>(plan_->messages().receives.size());
}

#define SHARD_COUPLING(Memory) template class CouplingPlan<Memory>;
SHARD_FOR_EACH_MEMORY(SHARD_COUPLING)
#undef SHARD_COUPLING
#define SHARD_COUPLING(Memory, Space)                                                    \
  template void CouplingPlan<Memory>::send(const Space&, void* const*, void* const*);    \
  template void CouplingPlan<Memory>::receive(const Space&, void* const*, void* const*); \
  template void CouplingPlan<Memory>::adjoint(const Space&, void* const*, void* const*);
SHARD_FOR_EACH_SPACE(SHARD_COUPLING)
#undef SHARD_COUPLING

}  // namespace shard::impl
