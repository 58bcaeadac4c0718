// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Routes of halo exchanges.
#include <algorithm>
#include <utility>

#include "segments.hpp"

namespace shard::impl {

/// The rank's own range comes with the halo; append_halo leaves it out.
std::vector<Segment> halo_segments(const DimSpec& dim, int coordinate, const Turn& turned) {
  const index_t begin = dim.to.begin(coordinate), end = dim.to.end(coordinate);
  std::vector<Segment> segments;
  append_range(dim, dim.to.size(), begin, end, turned, begin - dim.lo, end + dim.hi, segments);
  return segments;
}

std::vector<int> halo_candidates(const DimSpec& dim, const Turn& turned) {
  const index_t n = dim.to.size(), begin = dim.from.begin(dim.coordinate),
                end = dim.from.end(dim.coordinate);
  std::vector<int> found;
  if (begin == end) return found;
  const auto append = [&](index_t first, index_t last) {
    append_overlapping(dim, dim.lo, dim.hi, first, last, found);
  };
  for_targets(turned, n, begin, end, append);
  if (dim.copies) append(n - 1, n);
  // those that look outside the domain, where the boundary may lead back here
  if (dim.lo > 0 && dim.low.kind != BoundaryKind::constant) append(-dim.lo, 0);
  if (dim.hi > 0 && dim.high.kind != BoundaryKind::constant) append(n, n + dim.hi);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

namespace {

/// HaloPart::edges: all of the halo is constant but the elements outside the domain next to the
/// rank's own.
std::vector<Segment> edge_segments(const DimSpec& dim, int coordinate, const Turn& turned) {
  const index_t n = dim.to.size(), begin = dim.to.begin(coordinate), end = dim.to.end(coordinate);
  std::vector<Segment> segments = halo_segments(dim, coordinate, turned);
  for (Segment& s : segments) {
    const bool in_halo = s.target < begin || s.target >= end;
    const bool at_edge =
        begin < end && ((s.target < 0 && begin == 0) || (s.target >= n && end == n));
    if (!in_halo || at_edge) continue;
    s.constant  = true;
    s.value     = 0.0;
    s.longitude = -1;
    s.odd       = false;
  }
  return segments;
}

/// HaloPart::inside.
std::vector<Segment> inner_segments(const DimSpec& dim, int coordinate, const Turn& turned) {
  std::vector<Segment> segments = halo_segments(dim, coordinate, turned);
  std::erase_if(segments,
                [&](const Segment& s) { return s.target < 0 || s.target >= dim.to.size(); });
  return segments;
}

/// Numbers the pieces that the adjoint adds by the global indices of their targets, dimension 0
/// first, those of a turned globe after the others: an order that doesn't depend on the partition.
/// At the edges of the domain each element is in one rank's piece, and two pieces are apart in some
/// dimension or have the same elements in it, so the first element tells.
class GlobalOrder {
 public:
  void add(const FieldSpec& spec, const Choice& choice, std::vector<Piece>& list) {
    std::vector<index_t> key;
    for (int d = 0; d < spec.rank; ++d) {
      const Segment& s = choice[Geometry::at(d)]->segment;
      key.insert(key.end(), {static_cast<index_t>(s.turned.kind), s.target});
    }
    pieces_.push_back({std::move(key), &list, list.size() - 1});
  }
  void number() {
    std::stable_sort(pieces_.begin(), pieces_.end(),
                     [](const Keyed& a, const Keyed& b) { return a.key < b.key; });
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      (*pieces_[i].list)[pieces_[i].index].order = static_cast<int>(i);
  }

 private:
  struct Keyed {
    std::vector<index_t> key;
    std::vector<Piece>* list;
    std::size_t index;
  };
  std::vector<Keyed> pieces_;
};

}  // namespace

void append_halo(const MeshState& mesh, const FieldSpec& spec, int field, Route& route) {
  const auto segments      = spec.part == HaloPart::edges    ? edge_segments
                             : spec.part == HaloPart::inside ? inner_segments
                                                             : halo_segments;
  const SegmentLists lists = segment_lists(spec, segments, halo_candidates);
  const auto wants         = [&](const Choice& choice) {
    int outside = 0;  // dimensions
    bool turned = false;  // also of copies among the own elements, by the plan of the fold's side
    bool folds  = true;
    for (int d = 0; d < spec.rank; ++d) {
      const DimSpec& dim = spec.dims[Geometry::at(d)];
      folds              = folds && !(dim.copies && dim.hi == 0);
      outside += is_halo(spec, choice, d) ? 1 : 0;
      const auto kind = choice[Geometry::at(d)]->segment.turned.kind;
      turned          = turned || kind == Turn::Kind::half || kind == Turn::Kind::opposite ||
               kind == Turn::Kind::copied;
    }
    return (outside > 0 || (turned && folds)) && (spec.part != HaloPart::faces || outside <= 1);
  };
  if (spec.part != HaloPart::edges)
    return append_pieces(mesh, spec, field, lists, wants, route, [](const auto&...) {});
  GlobalOrder order;
  append_pieces(mesh, spec, field, lists, wants, route,
                [&](const Choice& choice, std::vector<Piece>& list) {
                  if (&list != &route.receives) order.add(spec, choice, list);
                });
  order.number();
}

}  // namespace shard::impl
