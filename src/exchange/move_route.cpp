// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Routes between two partitions of the same elements.
#include "segments.hpp"
#include "shard/base/error.hpp"
#include "shard/view/impl/index_halo.hpp"

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
  if (begin < end) append_overlapping(dim, 0, 0, begin, end, found);
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
  append_pieces(
      mesh, spec, field, segment_lists(spec, moved_segments, moved_candidates),
      [](const Choice&) { return true; }, route, [](const auto&...) {});
}

}  // namespace shard::impl
