// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Routes that renew the halo outside the domain between two exchanges of a deep halo. Each rank
// reads its own halo, which is valid inside the domain.
#include <algorithm>

#include "segments.hpp"

namespace shard::impl {

namespace {

/// The segments of the rank with this coordinate, cut where their sources enter or leave its own
/// range and halo.
std::vector<Segment> renewed_segments(const DimSpec& dim, int coordinate, const Turn& turned) {
  std::vector<Segment> segments;
  if (dim.to.count(coordinate) == 0) return segments;  // computes nothing
  const index_t n = dim.to.size(), first = dim.to.begin(coordinate) - dim.lo,
                last = dim.to.end(coordinate) + dim.hi;
  const auto image   = [&](const Segment& s, index_t cell) {
    const index_t source = s.source + s.step * cell;
    if (!dim.wraps) return source;
    return s.turned.kind == Turn::Kind::half ? first + ((source - first) % n + n) % n
                                               : s.target + cell;
  };
  const auto near = [&](index_t source) { return source >= first && source < last; };
  for (const Segment& whole : halo_segments(dim, coordinate, turned))
    for (index_t cell = 0; cell < whole.count;) {
      Segment s            = whole;
      const index_t source = image(whole, cell);
      s.source += s.step * cell;
      s.target += cell;
      if (near(source)) s.near = source;
      index_t end = whole.count;
      if (!s.constant) {
        end = cell + 1;
        while (end < whole.count && near(image(whole, end)) == s.near.has_value() &&
               image(whole, end) == source + s.step * (end - cell))
          ++end;
      }
      s.count = end - cell;
      segments.push_back(s);
      cell = end;
    }
  return segments;
}

template <class Predicate>
bool any_segment(const FieldSpec& spec, const Choice& choice, const Predicate& is) {
  return std::any_of(choice.begin(), choice.begin() + spec.rank,
                     [&](const Wanted* w) { return is(w->segment); });
}

}  // namespace

void append_renewal(const MeshState& mesh, const FieldSpec& spec, int field, Route& route) {
  const SegmentLists lists = segment_lists(spec, renewed_segments, halo_candidates);
  const auto is_outside    = [&](const Choice& choice) {
    for (int d = 0; d < spec.rank; ++d) {
      const DimSpec& dim   = spec.dims[Geometry::at(d)];
      const index_t target = choice[Geometry::at(d)]->segment.target;
      if (!dim.wraps && (target < 0 || target >= dim.to.size())) return true;
    }
    return false;
  };
  // the rank that needs it reads its own range and halo
  const auto is_near = [&](const Choice& choice) {
    return !any_segment(spec, choice, [](const Segment& s) { return s.constant || !s.near; });
  };
  append_pieces(
      mesh, spec, field, lists,
      [&](const Choice& choice) { return is_outside(choice) && !is_near(choice); }, route,
      [](const auto&...) {});
  for_choices(spec, lists.here, [&](const Choice& choice) {
    if (!is_outside(choice) || !is_near(choice)) return;
    Piece piece = piece_of(spec, choice, field, mesh.rank());
    for (int d = 0; d < spec.rank; ++d) {
      const auto i    = Geometry::at(d);
      piece.source[i] = *choice[i]->segment.near - spec.dims[i].from.begin(spec.dims[i].coordinate);
    }
    route.locals.push_back(piece);
  });
}

}  // namespace shard::impl
