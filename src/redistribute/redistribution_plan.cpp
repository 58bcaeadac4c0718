// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "redistribution_plan.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "shard/base/impl/environment_variable.hpp"
#include "shard/base/error.hpp"
#include "shard/base/impl/watchdog.hpp"

namespace shard::impl {

namespace {

using Role        = Placed::Role;
using Coordinates = std::array<int, max_axes>;

constexpr index_t small_buffer = index_t{1}
                                 << 20U;  // the buffer of a small field may have this size
constexpr index_t most_rounds      = 4096;
constexpr const char* step_names[] = {"local copy", "all-to-all", "all-gather", "reduce-scatter",
                                      "all-reduce", "scatter",    "gather"};

/// Calls use(rank, coordinates) for every rank of the mesh, in the order of coordinates.
template <class Use>
void for_ranks(const MeshState& mesh, const Use& use) {
  for (int place = 0; place < mesh.size(); ++place) {
    Coordinates c{};
    for (int a = mesh.axes(), rest = place; a-- > 0;) {
      c[Geometry::at(a)] = rest % mesh.extent(a);
      rest /= mesh.extent(a);
    }
    use(mesh.rank_at(c.data()), c);
  }
}

bool contributes_everywhere(ReductionKind op) { return op != ReductionKind::sum; }

/// One phase of a redistribution: which rank sends which box to which rank.
struct Traffic {
  const Redistribution& redistribution;
  const MeshState& mesh;
  const Placed& from;
  const Placed& to;
  const std::array<bool, max_axes>&
      carried;  // along these axes contributions are moved, not combined
  bool within_target;
  PieceBox read_box,
      written_box;  // what this rank's memory holds that is read, and that is written

  bool reduced(int axis) const {
    return from.role[Geometry::at(axis)] == Role::partial && !carried[Geometry::at(axis)];
  }
  int contributions() const {
    int n = 1;
    for (int a = 0; a < mesh.axes(); ++a)
      if (reduced(a)) n *= mesh.extent(a);
    return n;
  }
  /// The number of the contribution that a rank has.
  int contribution(const Coordinates& c) const {
    int n = 0;
    for (int a = 0; a < mesh.axes(); ++a)
      if (reduced(a)) n = n * mesh.extent(a) + c[Geometry::at(a)];
    return n;
  }
  /// Whether a rank receives the values of its elements; else its contribution is zero.
  bool wants(int rank, const Coordinates& c) const {
    if (to.array) return rank == to.root;
    if (contributes_everywhere(to.reduction)) return true;
    for (int a = 0; a < mesh.axes(); ++a)
      if (to.role[Geometry::at(a)] == Role::partial && !carried[Geometry::at(a)] &&
          c[Geometry::at(a)] != 0)
        return false;
    return true;
  }
  /// Whether `source`, of the ranks with the same elements, sends them to `target`. Of replicas it
  /// is the one with the target's coordinates, so that all replicas send, and a rank that has the
  /// elements copies its own.
  bool serves(int source_rank, const Coordinates& source, const Coordinates& target) const {
    if (from.array) return source_rank == from.root;
    for (int a = 0; a < mesh.axes(); ++a) {
      const auto i = Geometry::at(a);
      if (from.split[i] || from.role[i] == Role::cut || reduced(a)) continue;
      const bool pinned = a == redistribution.pinned_axis && !within_target;
      if (source[i] != (pinned ? redistribution.pinned_to : target[i])) return false;
    }
    return true;
  }
};

/// A box of one phase before it is divided into rounds.
struct Pair {
  int peer;
  PieceBox box;
  int contribution;
};

struct PhasePairs {
  std::vector<Pair> sends, receives;  // receives: this rank too, if it keeps cells
};

PhasePairs pairs_of(const Traffic& t) {
  PhasePairs pairs;
  const MeshState& mesh = t.mesh;
  const int rank = t.redistribution.rank, me = mesh.rank();
  Coordinates mine{};
  std::copy_n(mesh.coordinates().begin(), mesh.axes(), mine.begin());
  const PieceBox have = t.from.box(mesh, me, mine.data()), want = t.to.box(mesh, me, mine.data());
  const bool wanting = t.wants(me, mine);
  for_ranks(mesh, [&](int peer, const Coordinates& c) {
    if (wanting && t.serves(peer, c, mine)) {
      const PieceBox box = intersection(t.from.box(mesh, peer, c.data()), want, rank);
      if (box.elements(rank) > 0) pairs.receives.push_back({peer, box, t.contribution(c)});
    }
    if (peer != me && t.wants(peer, c) && t.serves(me, mine, c)) {
      const PieceBox box = intersection(have, t.to.box(mesh, peer, c.data()), rank);
      if (box.elements(rank) > 0) pairs.sends.push_back({peer, box, 0});
    }
  });
  return pairs;
}

/// A box of global indices in the local indices of the rank that owns `owned`.
PieceBox local(PieceBox box, const PieceBox& owned, int rank) {
  for (int d = 0; d < rank; ++d) box.begin[Geometry::at(d)] -= owned.begin[Geometry::at(d)];
  return box;
}

/// The step of one round of a phase. Field 1 is read where it is written.
TransferStep make_step(const Traffic& t, const PhasePairs& pairs, bool left, int round,
                       int rounds) {
  const int rank = t.redistribution.rank, field = t.within_target ? 1 : 0;
  RouteField described;
  described.kind            = t.redistribution.kind;
  described.value_size      = t.redistribution.value_size;
  described.rank            = rank;
  described.left            = left;
  const bool adds           = t.redistribution.adds && !t.within_target;
  const Reduction reduction = {t.redistribution.op, adds, 1};
  BoxRoute route(described, field + 1, adds || t.contributions() > 1 ? &reduction : nullptr);
  const auto part = [&](const PieceBox& box) { return part_of(box, rank, left, round, rounds); };
  for (const Pair& pair : pairs.sends)
    route.send(pair.peer, local(part(pair.box), t.read_box, rank), field);
  for (const Pair& pair : pairs.receives) {
    const PieceBox box = part(pair.box), written = local(box, t.written_box, rank);
    if (pair.peer == t.mesh.rank())
      route.keep(local(box, t.read_box, rank), written, pair.contribution, field);
    else
      route.receive(pair.peer, written, pair.contribution, field);
  }
  return route.step();
}

/// Appends a phase in `agreed` rounds, or in as many as keep the buffer within its limit.
void add_phase(const Traffic& t, const PhasePairs& pairs, bool left, int agreed, index_t limit,
               int& rounds, std::vector<TransferStep>& steps) {
  for (rounds = std::max(agreed, 1);;) {
    std::vector<TransferStep> phase;
    index_t buffer = 0;
    for (int round = 0; round < rounds; ++round) {
      phase.push_back(make_step(t, pairs, left, round, rounds));
      buffer = std::max(buffer, size_of(phase.back()).buffer);
    }
    if (agreed > 0 || buffer <= limit || rounds >= most_rounds) {
      std::move(phase.begin(), phase.end(), std::back_inserter(steps));
      return;
    }
    rounds = static_cast<int>(std::max<index_t>(rounds + 1, rounds * buffer / limit));
  }
}

}  // namespace

Placed::Placed(const Redistribution& redistribution, const RedistributionSide& side)
    : array(side.geometry == nullptr), root(redistribution.root), rank(redistribution.rank) {
  const Geometry& geometry =
      array ? *(side.geometry == redistribution.to.geometry ? redistribution.from.geometry
                                                            : redistribution.to.geometry)
            : *side.geometry;
  for (int d = 0; d < rank; ++d) {
    const auto i           = Geometry::at(d);
    const DimGeometry& dim = geometry.dims[i];
    if (array) {
      partition[i] = Partition::balanced(dim.partition.size(), 1);
      continue;
    }
    partition[i]  = dim.partition;
    axes[i]       = dim.axes;
    axis_count[i] = dim.axis_count;
    for (int a = 0; a < dim.axis_count; ++a)
      role[Geometry::at(dim.axes[Geometry::at(a)])] = Role::cut;
  }
  if (array) return;
  reduction = geometry.partials.reduction;
  for (int p = 0; p < geometry.partials.count; ++p)
    role[Geometry::at(geometry.partials.axes[Geometry::at(p)])] = Role::partial;
}

PieceBox Placed::box(const MeshState& mesh, int rank_of_mesh, const int* coordinates) const {
  PieceBox box;
  for (int d = 0; d < rank; ++d) {
    const auto i   = Geometry::at(d);
    int coordinate = 0;
    for (int a = 0; a < axis_count[i]; ++a) {
      const int axis = axes[i][Geometry::at(a)];
      coordinate     = coordinate * mesh.extent(axis) + coordinates[axis];
    }
    box.begin[i]  = partition[i].begin(coordinate);
    box.extent[i] = partition[i].count(coordinate);
  }
  if (array && rank_of_mesh != root) box.extent.fill(0);
  if (is_split) {
    int part = 0, parts = 1;
    for (int a = 0; a < mesh.axes(); ++a)
      if (split[Geometry::at(a)]) {
        part = part * mesh.extent(a) + coordinates[a];
        parts *= mesh.extent(a);
      }
    box = part_of(box, rank, false, part, parts);
  }
  return box;
}

RedistributionLayout::RedistributionLayout(const Redistribution& redistribution,
                                           const std::array<int, 2>& agreed) {
  const MeshState& mesh = *redistribution.mesh;
  const Placed from(redistribution, redistribution.from), to(redistribution, redistribution.to);
  const bool left = redistribution.from.left && redistribution.to.left;

  std::array<bool, max_axes> carried{};
  int reduced = 1, spread = 1;
  Placed pieces = to;
  for (int a = 0; a < mesh.axes(); ++a) {
    const auto i = Geometry::at(a);
    carried[i]   = from.role[i] == Role::partial && to.role[i] == Role::partial &&
                 from.reduction == to.reduction && !to.array;
    const bool is_reduced = from.role[i] == Role::partial && !carried[i];
    const bool everywhere = !to.array && !carried[i] &&
                            (to.role[i] == Role::replicated ||
                             (to.role[i] == Role::partial && contributes_everywhere(to.reduction)));
    gathers = gathers || (from.role[i] == Role::cut && to.role[i] == Role::replicated);
    if (is_reduced) reduced *= mesh.extent(a);
    // several ranks need these values, and each would have to combine them
    pieces.split[i] = everywhere && (is_reduced || from.role[i] == Role::cut);
    if (pieces.split[i]) spread *= mesh.extent(a);
  }
  const bool reduces = reduced > 1, two_phases = reduces && spread > 1;
  pieces.is_split = two_phases;

  Coordinates mine{};
  std::copy_n(mesh.coordinates().begin(), mesh.axes(), mine.begin());
  const PieceBox source = from.box(mesh, mesh.rank(), mine.data()),
                 target = to.box(mesh, mesh.rank(), mine.data());
  report.source         = source.elements(redistribution.rank) * redistribution.value_size;
  report.target         = target.elements(redistribution.rank) * redistribution.value_size;
  report.buffer_limit   = std::max({report.source, report.target, small_buffer});

  bool clears    = false;  // the target's elements are set to zero: its contribution is zero
  const auto add = [&](const Placed& read, const Placed& written, std::size_t phase) {
    const Traffic traffic{
        redistribution, mesh, read, written, carried, phase == 1, phase == 1 ? target : source,
        target};
    const PhasePairs pairs = pairs_of(traffic);
    clears = clears || (!redistribution.adds && !traffic.wants(mesh.rank(), mine) && !to.array);
    const index_t whole = read.box(mesh, mesh.rank(), mine.data()).elements(redistribution.rank);
    for (const Pair& pair : pairs.sends)
      only_sends_whole = only_sends_whole && pair.box.elements(redistribution.rank) == whole;
    add_phase(traffic, pairs, left, agreed[phase], report.buffer_limit, rounds[phase], steps);
  };
  add(from, two_phases ? pieces : to, 0);
  if (two_phases) {
    Placed combined = pieces;
    for (Role& role : combined.role)
      if (role == Role::partial) role = Role::replicated;  // each of these ranks gathers for itself
    add(combined, to, 1);
  }

  report.rounds = static_cast<int>(steps.size());
  for (const TransferStep& step : steps) {
    const TransferSize size = size_of(step);
    report.buffer           = std::max(report.buffer, size.buffer);
    report.messages += size.messages;
    report.sent += size.sent;
    report.received += size.received;
  }
  if (clears) {
    RouteField described = steps.front().route.fields.front();
    BoxRoute zeros(described);
    zeros.clear(local(target, target, redistribution.rank));
    steps.insert(steps.begin(), zeros.step());
  }
  report.kind = from.array   ? RedistributionKind::scatter
                : to.array   ? RedistributionKind::gather
                : two_phases ? RedistributionKind::all_reduce
                : reduces    ? RedistributionKind::reduce_scatter
                             : RedistributionKind::all_to_all;
}

namespace {

std::string describe(const Geometry* geometry, bool left) {
  if (geometry == nullptr) return left ? "an array of LayoutLeft" : "an array";
  std::string words = left ? "a field of LayoutLeft, " : "a field of";
  for (int d = 0; d < geometry->rank; ++d) {
    const DimGeometry& dim = geometry->dims[Geometry::at(d)];
    words += " [" + dim.partition.describe();
    for (int a = 0; a < dim.axis_count; ++a) words += ", axis " + text(dim.axes[Geometry::at(a)]);
    words += "]";
  }
  constexpr const char* names[] = {"sums", "largest", "smallest"};
  for (int p = 0; p < geometry->partials.count; ++p)
    words += std::string(p == 0 ? ", partial " : ", ") +
             names[static_cast<std::size_t>(geometry->partials.reduction)] + " over axis " +
             text(geometry->partials.axes[Geometry::at(p)]);
  return words;
}

template <class T>
void mix(PlanKey& key, const T& value) {
  key.mix(&value, sizeof(value));
}

void mix(PlanKey& key, const RedistributionSide& side) {
  mix(key, side.left);
  mix(key, side.geometry != nullptr);
  if (side.geometry == nullptr) return;
  const Geometry& geometry = *side.geometry;
  for (int d = 0; d < geometry.rank; ++d) {
    const DimGeometry& dim = geometry.dims[Geometry::at(d)];
    key.a                  = dim.partition.hash(key.a);
    key.b                  = dim.partition.hash(key.b);
    mix(key, dim.axis_count);
    mix(key, dim.axes);
  }
  mix(key, geometry.partials.count);
  mix(key, geometry.partials.axes);
  mix(key, geometry.partials.reduction);
}

}  // namespace

std::string describe(const Redistribution& redistribution) {
  return "to " + describe(redistribution.to.geometry, redistribution.to.left) + " from " +
         describe(redistribution.from.geometry, redistribution.from.left) + ", " +
         text(redistribution.value_size) + "-byte values of kind " +
         text(static_cast<index_t>(redistribution.kind)) + ", root " + text(redistribution.root) +
         (redistribution.adds ? ", added" : "") +
         (redistribution.pinned_axis < 0 ? std::string()
                                         : ", from coordinate " + text(redistribution.pinned_to) +
                                               " of axis " + text(redistribution.pinned_axis));
}

PlanKey key_of(const Redistribution& redistribution, bool on_host) {
  PlanKey key = PlanKey::of(KeyKind::redistribution);
  mix(key, redistribution.to);
  mix(key, redistribution.from);
  mix(key, redistribution.rank);
  mix(key, redistribution.value_size);
  mix(key, redistribution.kind);
  mix(key, redistribution.root);
  mix(key, redistribution.adds);
  mix(key, redistribution.pinned_axis);
  mix(key, redistribution.pinned_to);
  mix(key, on_host);
  if (const auto limit = environment_text("SHARD_MESSAGE_LIMIT"))
    key.mix(limit->data(), limit->size());
  return key;
}

bool holds_values(const Geometry& geometry) {
  if (contributes_everywhere(geometry.partials.reduction)) return true;
  for (int p = 0; p < geometry.partials.count; ++p)
    if (geometry.mesh->coordinate(geometry.partials.axes[Geometry::at(p)]) != 0) return false;
  return true;
}

void require_coordinate(const char* function, const MeshState& mesh, int axis, int coordinate) {
  if (coordinate < 0 || coordinate >= mesh.extent(axis))
    throw_argument(function, {"the root is at ", text(coordinate), " along an axis of ",
                              text(mesh.extent(axis)), " ranks"});
}

void require_same_cells(const char* function, const Geometry& to, const Geometry& from) {
  if (to.mesh != from.mesh)
    throw_argument(function, {"field \"", from.label, "\" is on another mesh than \"", to.label,
                              "\"; both must be on the same mesh"});
  for (int d = 0; d < to.rank; ++d)
    if (to.global(d) != from.global(d))
      throw_argument(function,
                     {"dimension ", text(d), " has ", text(from.global(d)), " elements in \"",
                      from.label, "\" and ", text(to.global(d)), " in \"", to.label, "\"",
                      from.dims[Geometry::at(d)].partition.block_space() != nullptr
                          ? "; a shard::Coupling moves fields between grids of other blocks"
                          : ""});
}

bool is_between_index_spaces(const Geometry& to, const Geometry& from) {
  for (std::size_t d = 0; d < static_cast<std::size_t>(to.rank); ++d) {
    const IndexHalo *target = to.dims[d].partition.index_halo(),
                    *source = from.dims[d].partition.index_halo();
    if (target != nullptr && source != nullptr && target != source) return true;
  }
  return false;
}

void require_array(const char* function, const Geometry& field, int root, const index_t* extents) {
  const MeshState& mesh = *field.mesh;
  std::string wrong;
  if (root < 0 || root >= mesh.size())
    wrong = "the root is " + text(root) + "; the mesh has ranks 0 to " + text(mesh.size() - 1);
  for (int d = 0; d < field.rank && wrong.empty() && mesh.rank() == root; ++d)
    if (extents[d] != field.global(d))
      wrong = "dimension " + text(d) + " has " + text(extents[d]) +
              " elements in the array of the root and " + text(field.global(d)) + " in \"" +
              field.label + "\"";
  const Watched watched({.what = "other ranks to check the root's array, for field",
                         .rank = mesh.rank(),
                         .of   = &field.label});
  require_no_error(mesh.comm(), function, wrong);
}

void require_axes(const char* function, const MeshState& mesh, const AxisId* ids, int count,
                  int* positions) {
  for (int i = 0; i < count; ++i) {
    positions[i] = mesh.position_of(ids[i]);
    if (positions[i] < 0)
      throw_argument(function, {"the wanted type names the axis ", text(ids[i]->name),
                                ", and the field's mesh has the axes ", mesh.axis_names()});
  }
}

}  // namespace shard::impl

namespace shard {

std::string RedistributionReport::text() const {
  using impl::text;
  return std::string(impl::step_names[static_cast<std::size_t>(kind)]) + ", " + text(messages) +
         " messages, " + text(sent) + " bytes sent, " + text(received) + " received, " +
         text(rounds) + " rounds, a buffer of " + text(buffer) + " bytes beside " + text(source) +
         " that are read and " + text(target) + " that are written";
}

}  // namespace shard
