// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <utility>

#include "shard/exchange/plan_spec.hpp"
#include "shard/view/index_map.hpp"

namespace shard::impl {

namespace {

/// Cells of the world along a dimension.
index_t world_of(const DimSpec& dim) { return dim.padded ? dim.from.size() : dim.to.size(); }

/// The cells of the rank with this coordinate, without its halo, by their indices in the world.
std::pair<index_t, index_t> own_cells(const DimSpec& dim, int coordinate) {
  const index_t shift = dim.padded ? dim.lo : 0;
  return {dim.to.begin(coordinate) - shift, dim.to.end(coordinate) - shift};
}

/// Appends the cells [first, last) inside the world, cut where the owner changes, where the rank's
/// own cells begin and end and, if turned, where longitude wraps.
void append_inside(const DimSpec& dim, int coordinate, bool turned, index_t first, index_t last,
                   std::vector<Segment>& segments) {
  const index_t n         = world_of(dim);
  const auto [begin, end] = own_cells(dim, coordinate);
  for (index_t g = first; g < last;) {
    Segment s;
    s.source   = turned ? (g + n / 2) % n : g;
    s.target   = g;
    s.owner    = dim.from.owner(s.source);
    s.halo     = g < begin || g >= end;
    s.count    = std::min((g < begin ? std::min(begin, last)
                           : g < end ? std::min(end, last)
                                     : last) -
                              g,
                          dim.from.end(s.owner) - s.source);
    s.turned   = turned;
    s.identity = !turned && s.owner == coordinate;
    segments.push_back(s);
    g += s.count;
  }
}

/// Appends the cells [first, last) beyond one side of the world. Neighbouring cells with
/// neighbouring sources at one owner become one segment.
void append_beyond(const DimSpec& dim, const BoundarySide& side, bool turned, index_t first,
                   index_t last, std::vector<Segment>& segments) {
  const index_t n         = world_of(dim);
  const std::size_t start = segments.size();
  for (index_t g = first; g < last; ++g) {
    const Image image = image_of(side.kind, g, n);
    Segment s;
    s.target   = g;
    s.count    = 1;
    s.halo     = !dim.padded;
    s.turned   = turned;
    s.constant = image.constant;
    s.value    = side.value;
    if (!image.constant) {
      s.source    = turned ? (image.source + n / 2) % n : image.source;
      s.owner     = dim.from.owner(s.source);
      s.crossed   = image.crossed % 2 != 0;
      s.odd       = side.odd && s.crossed;
      s.longitude = side.longitude;
    }
    if (segments.size() > start) {
      Segment& last_one  = segments.back();
      const index_t step = s.source - (last_one.source + last_one.step * (last_one.count - 1));
      const bool same    = s.constant == last_one.constant && s.owner == last_one.owner &&
                        s.crossed == last_one.crossed;
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

/// For a combed dimension: the rank's cells of each stretch.
std::vector<Segment> combed_segments_of(const DimSpec& dim, int coordinate) {
  std::vector<Segment> segments;
  const index_t begin = dim.to.begin(coordinate), count = dim.to.count(coordinate) / dim.comb;
  for (index_t tooth = 0; tooth < dim.comb; ++tooth) {
    const index_t first     = tooth * (dim.to.size() / dim.comb) + begin / dim.comb;
    const std::size_t start = segments.size();
    append_inside(dim, coordinate, false, first, first + count, segments);
    for (std::size_t i = start; i < segments.size(); ++i) {
      segments[i].target += begin + tooth * count - first;
      segments[i].halo = false;
    }
  }
  return segments;
}

}  // namespace

std::vector<Segment> segments_of(const DimSpec& dim, int coordinate, bool turned) {
  if (dim.comb > 1) return combed_segments_of(dim, coordinate);
  const index_t n         = world_of(dim);
  const auto [begin, end] = own_cells(dim, coordinate);
  const index_t first = begin - (dim.padded ? 0 : dim.lo), last = end + (dim.padded ? 0 : dim.hi);
  std::vector<Segment> segments;
  append_beyond(dim, dim.low, turned, first, std::min<index_t>(last, 0), segments);
  append_inside(dim, coordinate, turned, std::max<index_t>(first, 0), std::min(last, n), segments);
  append_beyond(dim, dim.high, turned, std::max(first, n), last, segments);
  if (dim.padded)
    for (Segment& s : segments) s.target += dim.lo;
  return segments;
}

namespace {

/// For a renewal: the segments of rank `coordinate`, cut where their sources begin or end to lie
/// among its own cells or in its halo.
std::vector<Segment> renewed_segments_of(const DimSpec& dim, int coordinate, bool turned) {
  std::vector<Segment> segments;
  if (dim.to.count(coordinate) == 0) return segments;  // computes nothing
  const index_t n = dim.to.size(), first = dim.to.begin(coordinate) - dim.lo,
                last = dim.to.end(coordinate) + dim.hi;
  const auto image   = [&](const Segment& s, index_t cell) {
    const index_t source = s.source + s.step * cell;
    if (!dim.wraps) return source;
    return s.turned ? first + ((source - first) % n + n) % n : s.target + cell;
  };
  for (const Segment& whole : segments_of(dim, coordinate, turned))
    for (index_t cell = 0; cell < whole.count;) {
      const auto near = [&](index_t source) { return source >= first && source < last; };
      Segment s       = whole;
      s.beyond        = !dim.wraps && (whole.target < 0 || whole.target >= n);
      s.source += s.step * cell;
      s.target += cell;
      s.near_source = image(whole, cell);
      s.near        = near(s.near_source);
      index_t end   = whole.count;
      if (!s.constant) {
        end = cell + 1;
        while (end < whole.count && near(image(whole, end)) == s.near &&
               image(whole, end) == s.near_source + s.step * (end - cell))
          ++end;
      }
      s.count = end - cell;
      segments.push_back(s);
      cell = end;
    }
  return segments;
}

/// For HaloPart::edges: the halo's cells but those beyond the world next to the rank's own are
/// constants.
std::vector<Segment> edge_segments_of(const DimSpec& dim, int coordinate, bool turned) {
  const index_t n = dim.to.size(), begin = dim.to.begin(coordinate), end = dim.to.end(coordinate);
  std::vector<Segment> segments = segments_of(dim, coordinate, turned);
  for (Segment& s : segments) {
    const bool at_edge =
        begin < end && ((s.target < 0 && begin == 0) || (s.target >= n && end == n));
    if (!s.halo || at_edge) continue;
    s.constant = true;
    s.value    = 0.0;
    s.crossed = s.odd = false;
  }
  return segments;
}

/// For HaloPart::inside: those inside the world.
std::vector<Segment> inner_segments_of(const DimSpec& dim, int coordinate, bool turned) {
  std::vector<Segment> segments = segments_of(dim, coordinate, turned);
  std::erase_if(segments,
                [&](const Segment& s) { return s.target < 0 || s.target >= dim.to.size(); });
  return segments;
}

struct Wanted {
  int coordinate;  // of the rank that wants the segment
  Segment segment;
};

/// The coordinates of ranks that may want cells which this rank owns, in ascending order.
std::vector<int> candidates(const DimSpec& dim, bool turned) {
  const index_t n = world_of(dim), begin = dim.from.begin(dim.coordinate),
                end = dim.from.end(dim.coordinate), above = dim.padded ? -dim.lo : dim.hi;
  std::vector<int> found;
  if (begin == end) return found;
  // ranks whose wanted range [to.begin - lo, to.end + above) meets [first, last)
  const auto meeting = [&](index_t first, index_t last) {
    for (int q = dim.to.first_ending_after(first - above);
         q < dim.to.parts() && dim.to.begin(q) - dim.lo < last; ++q)
      found.push_back(q);
  };
  if (dim.comb > 1) {
    const index_t period = n / dim.comb;
    for (index_t first = begin / period * period; first < end; first += period)
      meeting((std::max(begin, first) - first) * dim.comb,
              (std::min(end, first + period) - first) * dim.comb);
  } else if (turned) {
    const index_t first = (begin + n - n / 2) % n, last = first + (end - begin);
    meeting(first, std::min(last, n));
    if (last > n) meeting(0, last - n);
  } else {
    meeting(begin, end);
  }
  // those that look beyond the world, where the boundary may lead back here
  if (dim.lo > 0 && dim.low.kind != BoundaryKind::constant) meeting(-dim.lo, 0);
  if (dim.hi > 0 && dim.high.kind != BoundaryKind::constant) meeting(n, n + dim.hi);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

/// Whether some dimension folds with dimension `d` as its longitude.
bool turns(const FieldSpec& spec, int d) {
  for (int f = 0; f < spec.rank; ++f) {
    const DimSpec& dim = spec.dims[Geometry::at(f)];
    if ((dim.lo > 0 && dim.low.longitude == d) || (dim.hi > 0 && dim.high.longitude == d))
      return true;
  }
  return false;
}

/// All products of one entry per dimension whose turns agree with the poles crossed, in
/// lexicographic order: the order of cells in messages, on both ends alike.
template <class Visit>
class Products {
 public:
  Products(const FieldSpec& spec, const std::array<std::vector<Wanted>, max_rank>& lists,
           Visit visit)
      : spec_(spec), lists_(lists), visit_(visit) {}

  void run(int d = 0) {
    if (d >= spec_.rank || d >= max_rank) {  // the second to tell the compiler where it ends
      if (turns_agree() && !(spec_.faces && is_corner())) visit_(chosen_);
      return;
    }
    for (const Wanted& w : lists_[Geometry::at(d)]) {
      chosen_[Geometry::at(d)] = &w;
      run(d + 1);
    }
  }

 private:
  bool is_corner() const {
    int outside = 0;
    for (int d = 0; d < spec_.rank; ++d) outside += chosen_[Geometry::at(d)]->segment.halo ? 1 : 0;
    return outside > 1;
  }

  bool turns_agree() const {
    std::array<bool, max_rank> parity{};
    for (int d = 0; d < spec_.rank; ++d) {
      const Segment& s = chosen_[Geometry::at(d)]->segment;
      if (s.crossed) parity[Geometry::at(s.longitude)] = !parity[Geometry::at(s.longitude)];
    }
    for (int d = 0; d < spec_.rank; ++d)
      if (chosen_[Geometry::at(d)]->segment.turned != parity[Geometry::at(d)]) return false;
    return true;
  }

  const FieldSpec& spec_;
  const std::array<std::vector<Wanted>, max_rank>& lists_;
  Visit visit_;
  std::array<const Wanted*, max_rank> chosen_{};
};

template <class Visit>
void for_products(const FieldSpec& spec, const std::array<std::vector<Wanted>, max_rank>& lists,
                  Visit visit) {
  Products<Visit>(spec, lists, visit).run();
}

/// The rank whose coordinate along dimension d's axes is coordinate(d), and which stands where this
/// rank does along all other axes.
template <class Coordinate>
int rank_of(const MeshState& mesh, const FieldSpec& spec, Coordinate coordinate) {
  std::array<int, max_axes> place{};
  for (int a = 0; a < mesh.axes(); ++a) place[Geometry::at(a)] = mesh.coordinate(a);
  for (int d = 0; d < spec.rank; ++d) {
    const DimSpec& dim = spec.dims[Geometry::at(d)];
    int rest           = coordinate(d);
    for (int a = dim.axis_count - 1; a >= 0; --a) {
      const int axis            = dim.axes[Geometry::at(a)];
      place[Geometry::at(axis)] = rest % mesh.extent(axis);
      rest /= mesh.extent(axis);
    }
  }
  return mesh.rank_at(place.data());
}

}  // namespace

PlanBoxes boxes_of(const MeshState& mesh, const FieldSpec& spec, int field) {
  PlanBoxes boxes;
  using Choice        = std::array<const Wanted*, max_rank>;
  const auto segments = spec.renewal                    ? renewed_segments_of
                        : spec.part == HaloPart::edges  ? edge_segments_of
                        : spec.part == HaloPart::inside ? inner_segments_of
                                                        : segments_of;
  const auto any      = [&](const Choice& choice, bool Segment::*flag) {
    bool found = false;
    for (int d = 0; d < spec.rank; ++d) found = found || choice[Geometry::at(d)]->segment.*flag;
    return found;
  };
  const auto all = [&](const Choice& choice, bool Segment::*flag) {
    bool holds = true;
    for (int d = 0; d < spec.rank; ++d) holds = holds && choice[Geometry::at(d)]->segment.*flag;
    return holds;
  };
  const auto box = [&](const Choice& choice, int peer) {
    PlanBox b;
    b.field = field;
    b.peer  = peer;
    for (int d = 0; d < spec.rank; ++d) {
      b.segments[Geometry::at(d)] = choice[Geometry::at(d)]->segment;
      b.odd ^= b.segments[Geometry::at(d)].odd;
    }
    return b;
  };

  std::array<std::vector<Wanted>, max_rank> here, there;
  for (int d = 0; d < spec.rank; ++d) {
    const DimSpec& dim = spec.dims[Geometry::at(d)];
    for (const bool turned : {false, true}) {
      if (turned && !turns(spec, d)) continue;
      for (const Segment& s : segments(dim, dim.coordinate, turned))
        here[Geometry::at(d)].push_back({dim.coordinate, s});
      for (const int q : candidates(dim, turned))
        for (const Segment& s : segments(dim, q, turned))
          if (!s.constant && s.owner == dim.coordinate) there[Geometry::at(d)].push_back({q, s});
    }
  }

  for_products(spec, here, [&](const Choice& choice) {
    if (spec.renewal && !any(choice, &Segment::beyond)) return;
    bool constant = false, identity = !spec.move, mine = true;
    BoundaryValue value;
    for (int d = 0; d < spec.rank; ++d) {
      const Segment& s = choice[Geometry::at(d)]->segment;
      if (s.constant && !constant) value = s.value;
      constant = constant || s.constant;
      identity = identity && s.identity;
      mine     = mine && s.owner == spec.dims[Geometry::at(d)].coordinate;
    }
    if (constant) {
      boxes.constants.push_back(box(choice, mesh.rank()));
      boxes.constants.back().value = value;
    } else if (spec.renewal && all(choice, &Segment::near)) {
      boxes.locals.push_back(box(choice, mesh.rank()));
      for (Segment& s : boxes.locals.back().segments) s.source = s.near_source;
    } else if (mine) {
      if (!identity) boxes.locals.push_back(box(choice, mesh.rank()));
    } else {
      boxes.receives.push_back(box(choice, rank_of(mesh, spec, [&](int d) {
                                     return choice[Geometry::at(d)]->segment.owner;
                                   })));
    }
  });
  for_products(spec, there, [&](const Choice& choice) {
    if (spec.renewal && (!any(choice, &Segment::beyond) || all(choice, &Segment::near))) return;
    const int peer =
        rank_of(mesh, spec, [&](int d) { return choice[Geometry::at(d)]->coordinate; });
    if (peer != mesh.rank()) boxes.sends.push_back(box(choice, peer));
  });

  const auto by_peer = [](const PlanBox& a, const PlanBox& b) { return a.peer < b.peer; };
  std::stable_sort(boxes.receives.begin(), boxes.receives.end(), by_peer);
  std::stable_sort(boxes.sends.begin(), boxes.sends.end(), by_peer);
  return boxes;
}

}  // namespace shard::impl
