// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Routes from a field to one of other indices: padded, rolled, combed.
#include <algorithm>

#include "segments.hpp"

namespace shard::impl {

namespace {

/// The rank's elements of each stretch of a combed dimension.
std::vector<Segment> combed_segments(const DimSpec& dim, int coordinate) {
  std::vector<Segment> segments;
  const index_t begin = dim.to.begin(coordinate), count = dim.to.count(coordinate) / dim.comb;
  for (index_t tooth = 0; tooth < dim.comb; ++tooth) {
    const index_t first     = tooth * (dim.to.size() / dim.comb) + begin / dim.comb;
    const std::size_t start = segments.size();
    append_inside(dim, dim.from.size(), first, first + count, {}, first, first + count, segments);
    for (std::size_t i = start; i < segments.size(); ++i)
      segments[i].target += begin + tooth * count - first;
  }
  return segments;
}

std::vector<Segment> reindexed_segments(const DimSpec& dim, int coordinate, const Turn& turned) {
  if (dim.comb > 1) return combed_segments(dim, coordinate);
  // in indices of the field that is read; the first written element has index -lo
  const index_t n = dim.from.size(), begin = dim.to.begin(coordinate) - dim.lo,
                end = dim.to.end(coordinate) - dim.lo;
  std::vector<Segment> segments;
  append_range(dim, n, begin, end, turned, begin, end, segments);
  for (Segment& s : segments) s.target += dim.lo;
  return segments;
}

std::vector<int> reindexed_candidates(const DimSpec& dim, const Turn& turned) {
  const index_t n = dim.from.size(), begin = dim.from.begin(dim.coordinate),
                end = dim.from.end(dim.coordinate);
  std::vector<int> found;
  if (begin == end) return found;
  const auto append = [&](index_t first, index_t last) {
    append_overlapping(dim, dim.lo, -dim.lo, first, last, found);
  };
  if (dim.comb > 1) {
    const index_t period = n / dim.comb;
    for (index_t first = begin / period * period; first < end; first += period)
      append((std::max(begin, first) - first) * dim.comb,
             (std::min(end, first + period) - first) * dim.comb);
  } else {
    for_targets(turned, n, begin, end, append);
  }
  if (dim.lo > 0 && dim.low.kind != BoundaryKind::constant) append(-dim.lo, 0);
  if (dim.hi > 0 && dim.high.kind != BoundaryKind::constant) append(n, n + dim.hi);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace

void append_reindexed(const MeshState& mesh, const FieldSpec& spec, int field, Route& route) {
  append_pieces(
      mesh, spec, field, segment_lists(spec, reindexed_segments, reindexed_candidates),
      [](const Choice&) { return true; }, route, [](const auto&...) {});
}

}  // namespace shard::impl
