// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "segments.hpp"

#include "shard/view/impl/index_halo.hpp"

#include <algorithm>

#include "shard/view/index_map.hpp"

namespace shard::impl {

void append_inside(const DimSpec& dim, index_t n, index_t begin, index_t end, bool turned,
                   index_t first, index_t last, std::vector<Segment>& segments) {
  for (index_t g = first; g < last;) {
    Segment s;
    s.source = turned ? (g + n / 2) % n : g;
    s.target = g;
    s.owner  = dim.from.owner(s.source);
    s.count  = std::min((g < begin ? std::min(begin, last)
                         : g < end ? std::min(end, last)
                                   : last) -
                            g,
                        dim.from.end(s.owner) - s.source);
    s.turned = turned;
    segments.push_back(s);
    g += s.count;
  }
}

void append_outside(const DimSpec& dim, index_t n, const BoundarySide& side, bool turned,
                    index_t first, index_t last, std::vector<Segment>& segments) {
  const std::size_t start = segments.size();
  for (index_t g = first; g < last; ++g) {
    const Image image = image_of(side.kind, g, n);
    Segment s;
    s.target   = g;
    s.count    = 1;
    s.turned   = turned;
    s.constant = image.constant;
    s.value    = side.value;
    if (!image.constant) {
      const bool crossed = image.crossed % 2 != 0;
      s.source           = turned ? (image.source + n / 2) % n : image.source;
      s.owner            = dim.from.owner(s.source);
      s.odd              = side.odd && crossed;
      s.longitude        = crossed ? side.longitude : -1;
    }
    if (segments.size() > start) {
      Segment& last_one  = segments.back();
      const index_t step = s.source - (last_one.source + last_one.step * (last_one.count - 1));
      const bool same    = s.constant == last_one.constant && s.owner == last_one.owner &&
                        s.longitude == last_one.longitude;
      const bool goes_on =
          s.constant || (last_one.count == 1 ? step == 1 || step == -1 : step == last_one.step);
      if (same && goes_on) {
        if (!s.constant) last_one.step = static_cast<int>(step);
        ++last_one.count;
        continue;
      }
    }
    segments.push_back(s);
  }
}

void append_meeting(const DimSpec& dim, index_t below, index_t above, index_t first, index_t last,
                    std::vector<int>& coordinates) {
  for (int q = dim.to.first_ending_after(first - above);
       q < dim.to.parts() && dim.to.begin(q) - below < last; ++q)
    coordinates.push_back(q);
}

bool is_turned(const FieldSpec& spec, int d) {
  for (int f = 0; f < spec.rank; ++f) {
    const DimSpec& dim = spec.dims[Geometry::at(f)];
    if ((dim.lo > 0 && dim.low.longitude == d) || (dim.hi > 0 && dim.high.longitude == d))
      return true;
  }
  return false;
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
  Route route;
  for (const FieldSpec& spec : fields) {
    RouteField field{
        spec.label, spec.kind, spec.value_size,
        spec.rank,  spec.left, spec.route == RouteKind::move || spec.route == RouteKind::reindexed};
    for (int d = 0; d < spec.rank; ++d) {
      const DimSpec& dim           = spec.dims[Geometry::at(d)];
      field.owned[Geometry::at(d)] = dim.to.count(dim.coordinate);
    }
    const int number = static_cast<int>(route.fields.size());
    route.fields.push_back(std::move(field));
    switch (spec.route) {
      case RouteKind::halo: append_halo(mesh, spec, number, route); break;
      case RouteKind::renewal: append_renewal(mesh, spec, number, route); break;
      case RouteKind::move: append_move(mesh, spec, number, route); break;
      case RouteKind::reindexed: append_reindexed(mesh, spec, number, route); break;
    }
  }
  const auto by_peer = [](const Piece& a, const Piece& b) { return a.peer < b.peer; };
  std::stable_sort(route.receives.begin(), route.receives.end(), by_peer);
  std::stable_sort(route.sends.begin(), route.sends.end(), by_peer);
  return route;
}

}  // namespace shard::impl
