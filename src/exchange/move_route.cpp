// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Routes between two partitions of the same elements.
#include "segments.hpp"

namespace shard::impl {

namespace {

std::vector<Segment> moved_segments(const DimSpec& dim, int coordinate, const Turn&) {
  const index_t begin = dim.to.begin(coordinate), end = dim.to.end(coordinate);
  std::vector<Segment> segments;
  append_inside(dim, dim.to.size(), begin, end, {}, begin, end, segments);
  return segments;
}

std::vector<int> moved_candidates(const DimSpec& dim, const Turn&) {
  const index_t begin = dim.from.begin(dim.coordinate), end = dim.from.end(dim.coordinate);
  std::vector<int> found;
  if (begin < end) append_meeting(dim, 0, 0, begin, end, found);
  return found;
}

}  // namespace

void append_move(const MeshState& mesh, const FieldSpec& spec, int field, Route& route) {
  append_pieces(
      mesh, spec, field, segment_lists(spec, moved_segments, moved_candidates),
      [](const Choice&) { return true; }, route, [](const auto&...) {});
}

}  // namespace shard::impl
