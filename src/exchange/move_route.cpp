// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Routes between two fields of other partitions or indices: redistributed, padded, rolled,
// selected.
#include <algorithm>

#include "segments.hpp"
#include "shard/base/error.hpp"
#include "shard/view/impl/index_halo.hpp"

namespace shard::impl {

namespace {

/// The elements of the ranges whose targets a rank has, cut where the owner changes.
std::vector<Segment> ranged_segments(const DimSpec& dim, int coordinate) {
  const auto& ranges  = dim.ranges->list;
  const index_t begin = dim.to.begin(coordinate), end = dim.to.end(coordinate);
  auto range = std::partition_point(ranges.begin(), ranges.end(), [&](const SourceRange& r) {
    return r.target + r.count <= begin;
  });
  std::vector<Segment> segments;
  for (; range != ranges.end() && range->target < end; ++range)
    for (index_t target = std::max(begin, range->target),
                 last   = std::min(end, range->target + range->count);
         target < last;) {
      Segment s;
      s.source = range->source + range->step * (target - range->target);
      s.target = target;
      s.step   = static_cast<int>(range->step);
      s.owner  = dim.from.owner(s.source);
      s.count  = std::min(last - target, range->step > 0 ? dim.from.end(s.owner) - s.source
                                                         : s.source - dim.from.begin(s.owner) + 1);
      target += s.count;
      segments.push_back(s);
    }
  return segments;
}

/// The ranks that have targets of these elements.
void append_ranged(const DimSpec& dim, index_t begin, index_t end, std::vector<int>& found) {
  for (const SourceRange& r : dim.ranges->list) {
    const index_t first = r.step > 0 ? begin - r.source : r.source - end + 1,
                  last  = r.step > 0 ? end - r.source : r.source - begin + 1;
    const index_t low = std::max<index_t>(first, 0), high = std::min(last, r.count);
    if (low < high) append_overlapping(dim, 0, 0, r.target + low, r.target + high, found);
  }
}

std::vector<Segment> moved_segments(const DimSpec& dim, int coordinate, const Turn& turned) {
  if (dim.ranges) return ranged_segments(dim, coordinate);
  // in indices of the field that is read; the first written element has index -lo
  const index_t n = dim.from.size(), begin = dim.to.begin(coordinate) - dim.lo,
                end = dim.to.end(coordinate) - dim.lo;
  std::vector<Segment> segments;
  append_range(dim, n, begin, end, turned, begin, end, segments);
  for (Segment& s : segments) s.target += dim.lo;
  return segments;
}

std::vector<int> moved_candidates(const DimSpec& dim, const Turn& turned) {
  const index_t n = dim.from.size(), begin = dim.from.begin(dim.coordinate),
                end = dim.from.end(dim.coordinate);
  std::vector<int> found;
  if (begin == end) return found;
  const auto append = [&](index_t first, index_t last) {
    append_overlapping(dim, dim.lo, -dim.lo, first, last, found);
  };
  if (dim.ranges)
    append_ranged(dim, begin, end, found);
  else
    for_targets(turned, n, begin, end, append);
  if (dim.lo > 0 && dim.low.kind != BoundaryKind::constant) append(-dim.lo, 0);
  if (dim.hi > 0 && dim.high.kind != BoundaryKind::constant) append(n, n + dim.hi);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

struct CachedMove : CachedPlan {
  std::shared_ptr<const IndexHalo> moved;
  ~CachedMove() override {}  // NOLINT(modernize-use-equals-default): hipcc, as in plan_find.cpp
};

}  // namespace

std::shared_ptr<const IndexHalo> index_move(MeshState& mesh, const DimGeometry& to,
                                            const DimGeometry& from) {
  const IndexHalo *target = to.partition.index_halo(), *source = from.partition.index_halo();
  if (target == source) return nullptr;
  if (target == nullptr || source == nullptr || to.axis_count != 1 || from.axis_count != 1 ||
      to.axes[0] != from.axes[0] || target->space != source->space)
    throw_argument("redistribute", {"a dimension of an index space can only be moved to another "
                                    "one of the same type over the same axis"});
  const std::uint64_t both[] = {target->identity, source->identity};
  PlanKey key                = PlanKey::of(KeyKind::index_move);
  key.mix(both, sizeof(both));
  auto kept = std::static_pointer_cast<CachedMove>(mesh.find(key));
  if (!kept) {
    const auto known = [](const IndexHalo& halo) {
      return static_cast<index_t>(halo.ids.size()) >= halo.owned;
    };
    IndexInput input;
    input.function = "redistribute";
    if (known(*target) && known(*source)) {
      input.ids.assign(source->ids.begin(), source->ids.begin() + source->owned);
      input.owned = source->owned;
      input.ids.insert(input.ids.end(), target->ids.begin(), target->ids.begin() + target->owned);
    }
    require_no_error(mesh.comm(), "redistribute",
                     known(*target) && known(*source)
                         ? std::string()
                         : "an index space was described by owners; to move a field between two "
                           "spaces, describe both by global ids");
    kept        = std::make_shared<CachedMove>();
    kept->moved = make_index_halo(mesh.axis_comm(to.axes[0]), target->space, input);
    mesh.keep(KeptKind::redistribution, key, kept);
  }
  return kept->moved;
}

void append_move(const MeshState& mesh, const FieldSpec& spec, int field, Route& route) {
  // an element that several targets read gets their cotangents in the order of targets
  const auto in_order = [&](const Choice& choice, std::vector<Piece>& list) {
    for (int d = 0; d < spec.rank; ++d)
      if (spec.dims[Geometry::at(d)].ranges)
        list.back().order = static_cast<int>(choice[Geometry::at(d)]->segment.target);
  };
  append_pieces(
      mesh, spec, field, segment_lists(spec, moved_segments, moved_candidates),
      [](const Choice&) { return true; }, route, in_order);
}

}  // namespace shard::impl
