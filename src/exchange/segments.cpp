// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "segments.hpp"

#include "shard/view/impl/index_halo.hpp"

#include <algorithm>

#include "shard/view/index_map.hpp"

namespace shard::impl {

namespace {

/// Appends a segment of one element, or lengthens the last segment from `start` on by it.
void append_element(const Segment& s, std::size_t start, std::vector<Segment>& segments) {
  if (segments.size() > start) {
    Segment& last      = segments.back();
    const index_t step = s.source - (last.source + last.step * (last.count - 1));
    const bool same    = s.target == last.target + last.count && s.constant == last.constant &&
                      s.owner == last.owner && s.longitude == last.longitude &&
                      s.with == last.with && s.odd == last.odd &&
                      (!s.constant || s.value == last.value);
    if (same && (s.constant || (last.count == 1 ? step == 1 || step == -1 : step == last.step))) {
      if (!s.constant) last.step = static_cast<int>(step);
      ++last.count;
      return;
    }
  }
  segments.push_back(s);
}

}  // namespace

index_t Turn::source(index_t i, index_t n) const {
  const index_t other = ((first - i) % n + n) % n;
  switch (kind) {
    case Kind::all: return i;
    case Kind::half: return (i + n / 2) % n;
    case Kind::opposite: return other;
    case Kind::kept: return i > other ? -1 : i;
    case Kind::copied: return i > other ? other : -1;
    case Kind::range: return i >= first && i < last ? i : -1;
  }
  return -1;
}

void append_inside(const DimSpec& dim, index_t n, index_t begin, index_t end, const Turn& turned,
                   index_t first, index_t last, std::vector<Segment>& segments) {
  const bool in_order = turned.kind == Turn::Kind::all || turned.kind == Turn::Kind::half;
  std::size_t start   = segments.size();
  for (index_t g = first; g < last;) {
    if (g == begin || g == end) start = segments.size();
    Segment s;
    s.source = turned.source(g, n);
    s.target = g;
    s.turned = turned;
    s.count  = 1;
    if (s.source >= 0) s.owner = dim.from.owner(s.source);
    if (in_order) {
      s.count = std::min((g < begin ? std::min(begin, last)
                          : g < end ? std::min(end, last)
                                    : last) -
                             g,
                         dim.from.end(s.owner) - s.source);
      segments.push_back(s);
    } else if (s.source >= 0) {
      append_element(s, start, segments);
    }
    g += s.count;
  }
}

void append_outside(const DimSpec& dim, index_t n, const BoundarySide& side, const Turn& turned,
                    index_t first, index_t last, std::vector<Segment>& segments) {
  const std::size_t start = segments.size();
  if (side.kind == BoundaryKind::given || is_linked(side.kind)) return;
  for (int i = 0; i < side.count; ++i) {
    const std::size_t before = segments.size();
    append_outside(dim, n, side.sides[i], turned, first, last, segments);
    for (std::size_t k = before; k < segments.size(); ++k) {
      segments[k].longitude = side.longitude;
      segments[k].with      = {Turn::Kind::range, i, i + 1};
    }
  }
  if (side.count > 0) return;
  const BoundarySide& north = dim.high;
  for (index_t g = first; g < last; ++g) {
    const Image image = image_of(side.kind, g, n);
    Segment s;
    s.target   = g;
    s.count    = 1;
    s.turned   = turned;
    s.constant = image.constant;
    s.value    = side.value;
    if (image.constant) {
      append_element(s, start, segments);
      continue;
    }
    s.source = turned.source(image.source, n);
    if (s.source < 0) continue;
    const bool crossed = image.crossed % 2 != 0;
    s.odd              = side.odd && crossed;
    const auto go_with = [&](Turn::Kind kind, bool changes) {
      Segment other   = s;
      other.longitude = north.longitude;
      other.with      = {kind, north.opposite, 0};
      other.odd       = other.odd != (changes && north.odd);
      other.owner     = dim.from.owner(other.source);
      append_element(other, start, segments);
    };
    if (dim.copies && s.source == n - 1) {
      // the last row of a NorthFold, from wherever it is read
      if (north.kind == BoundaryKind::north_on_row) {
        go_with(Turn::Kind::kept, false);
        go_with(Turn::Kind::copied, true);
      } else {
        s.source = n - 2;
        go_with(Turn::Kind::opposite, true);
      }
      continue;
    }
    if (crossed && side.longitude >= 0) {
      s.longitude = side.longitude;
      s.with      = is_north(side.kind) ? Turn{Turn::Kind::opposite, side.opposite, 0}
                                        : Turn{Turn::Kind::half, 0, 0};
    }
    s.owner = dim.from.owner(s.source);
    append_element(s, start, segments);
  }
}

void append_range(const DimSpec& dim, index_t n, index_t begin, index_t end, const Turn& turned,
                  index_t first, index_t last, std::vector<Segment>& segments) {
  // the last row of a NorthFold is mapped as those outside, if it holds copies
  const index_t own = dim.copies ? n - 1 : n;
  append_outside(dim, n, dim.low, turned, first, std::min<index_t>(last, 0), segments);
  append_inside(dim, n, begin, end, turned, std::max<index_t>(first, 0), std::min(last, own),
                segments);
  if (own < n)
    append_outside(dim, n, dim.high, turned, std::max(first, own), std::min(last, n), segments);
  append_outside(dim, n, dim.high, turned, std::max(first, n), last, segments);
}

void append_overlapping(const DimSpec& dim, index_t below, index_t above, index_t first,
                        index_t last, std::vector<int>& coordinates) {
  for (int q = dim.to.first_ending_after(first - above);
       q < dim.to.parts() && dim.to.begin(q) - below < last; ++q)
    coordinates.push_back(q);
}

std::vector<Turn> turns_of(const FieldSpec& spec, int d) {
  using Kind = Turn::Kind;
  std::vector<Turn> turns{{}};
  const auto add = [&](const Turn& turn) {
    if (std::find(turns.begin(), turns.end(), turn) == turns.end()) turns.push_back(turn);
  };
  for (int f = 0; f < spec.rank; ++f) {
    const DimSpec& dim = spec.dims[Geometry::at(f)];
    const auto visit   = [&](const BoundarySide& side) {
      if (side.longitude != d) return;
      for (int i = 0; i < side.count; ++i) add({Kind::range, i, i + 1});
      if (side.count > 0) return;
      if (!is_north(side.kind)) return add({Kind::half, 0, 0});
      add({Kind::opposite, side.opposite, 0});
      if (side.kind != BoundaryKind::north_on_row) return;
      add({Kind::kept, side.opposite, 0});
      add({Kind::copied, side.opposite, 0});
    };
    if (dim.lo > 0) visit(dim.low);
    if (dim.hi > 0 || dim.copies) visit(dim.high);
  }
  return turns;
}

bool turns_agree(const FieldSpec& spec, const Choice& choice) {
  using Kind = Turn::Kind;
  std::array<Turn, max_rank> wanted{};
  for (int k = 0; k < spec.rank; ++k) {
    const Segment& s = choice[Geometry::at(k)]->segment;
    if (s.longitude < 0) continue;
    Turn& there = wanted[Geometry::at(s.longitude)];
    if (there.kind == Kind::all)
      there = s.with;
    else if (there.kind == Kind::half && s.with.kind == Kind::half)
      there = {};
    else if (!(there == s.with))
      return false;  // different ranges of an index
  }
  for (int k = 0; k < spec.rank; ++k)
    if (!(choice[Geometry::at(k)]->segment.turned == wanted[Geometry::at(k)])) return false;
  return true;
}

namespace {

/// The runs of an index space as segments: those that this rank wants, and those that others want
/// of it. `target(run, wanting)`: the global index of the first element.
template <class Target>
void append_runs(const DimSpec& dim, const IndexHalo& halo, const Target& target,
                 std::vector<Wanted>& here, std::vector<Wanted>& there) {
  const auto append = [&](const IndexRun& run, int owner, int wanting, std::vector<Wanted>& list) {
    if (dim.layers > 0 && run.layer > dim.layers) return;
    Segment s;
    s.owner  = owner;
    s.source = dim.from.begin(owner) + run.source;
    s.target = target(run, wanting);
    s.count  = run.count;
    list.push_back({wanting, s});
  };
  const int me = dim.coordinate;
  for (const IndexRun& run : halo.received) append(run, static_cast<int>(run.part), me, here);
  for (const IndexRun& run : halo.sent) append(run, me, static_cast<int>(run.part), there);
  for (const IndexRun& run : halo.unowned) {
    const std::size_t before = here.size();
    append(run, me, me, here);
    if (here.size() > before) here.back().segment.constant = true;  // zero
  }
}

}  // namespace

void append_index_halo(const DimSpec& dim, std::vector<Wanted>& here, std::vector<Wanted>& there) {
  const IndexHalo& halo = *dim.to.index_halo();
  if (halo.owned > 0) {  // for halos of other dimensions
    Segment own;
    own.owner  = dim.coordinate;
    own.source = own.target = dim.to.begin(dim.coordinate);
    own.count               = halo.owned;
    here.push_back({dim.coordinate, own});
    there.push_back({dim.coordinate, own});
  }
  append_runs(
      dim, halo,
      [&](const IndexRun& run, int wanting) { return dim.to.begin(wanting) + run.target; }, here,
      there);
}

void append_index_move(const DimSpec& dim, std::vector<Wanted>& here, std::vector<Wanted>& there) {
  // places of the halo count from the end of the source's owned elements
  append_runs(
      dim, *dim.moved,
      [&](const IndexRun& run, int wanting) {
        return dim.to.begin(wanting) + run.target - dim.from.count(wanting);
      },
      here, there);
}

bool is_halo(const FieldSpec& spec, const Choice& choice, int d) {
  const Wanted& w    = *choice[Geometry::at(d)];
  const Partition& p = spec.dims[Geometry::at(d)].to;
  return w.segment.target < p.begin(w.coordinate) || w.segment.target >= p.end(w.coordinate);
}

int owner_of(const MeshState& mesh, const FieldSpec& spec, const Choice& choice) {
  return rank_of(mesh, spec, [&](int d) { return choice[Geometry::at(d)]->segment.owner; });
}
int wanting(const MeshState& mesh, const FieldSpec& spec, const Choice& choice) {
  return rank_of(mesh, spec, [&](int d) { return choice[Geometry::at(d)]->coordinate; });
}

Piece piece_of(const FieldSpec& spec, const Choice& choice, int field, int peer) {
  Piece piece;
  piece.field = field;
  piece.peer  = peer;
  for (int d = 0; d < spec.rank; ++d) {
    const auto i       = Geometry::at(d);
    const Segment& s   = choice[i]->segment;
    const DimSpec& dim = spec.dims[i];
    if (!s.constant) piece.source[i] = s.source - dim.from.begin(s.owner);
    piece.target[i] = s.target - dim.to.begin(choice[i]->coordinate);
    piece.extent[i] = s.count;
    piece.step[i]   = static_cast<std::int8_t>(s.step);
    piece.negative ^= s.odd;
  }
  return piece;
}

Route route_of(const MeshState& mesh, const std::vector<FieldSpec>& fields) {
  require_pairs(fields);
  Route route;
  for (const FieldSpec& spec : fields) {
    RouteField field{spec.label, spec.kind, spec.value_size,
                     spec.rank,  spec.left, spec.route == RouteKind::move};
    for (int d = 0; d < spec.rank; ++d) {
      const DimSpec& dim           = spec.dims[Geometry::at(d)];
      field.owned[Geometry::at(d)] = dim.to.count(dim.coordinate);
    }
    const int number = static_cast<int>(route.fields.size());
    route.fields.push_back(std::move(field));
    switch (spec.route) {
      case RouteKind::halo:
        (is_tiled(spec) ? append_tiles : append_halo)(mesh, spec, number, route);
        break;
      case RouteKind::renewal: append_renewal(mesh, spec, number, route); break;
      case RouteKind::move: append_move(mesh, spec, number, route); break;
    }
  }
  const auto by_peer = [](const Piece& a, const Piece& b) { return a.peer < b.peer; };
  std::stable_sort(route.receives.begin(), route.receives.end(), by_peer);
  std::stable_sort(route.sends.begin(), route.sends.end(), by_peer);
  return route;
}

}  // namespace shard::impl
