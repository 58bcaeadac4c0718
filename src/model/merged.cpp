// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <algorithm>
#include <utility>

#include "shard/base/error.hpp"
#include "shard/layers/impl/layer_checks.hpp"
#include "shard/model/impl/merged_level.hpp"
#include "shard/view/index_map.hpp"

namespace shard::impl {

namespace {

/// The end of a periodic domain, for a pooling.
constexpr index_t no_end = index_t{1} << 40;

/// The smallest range that contains both.
IndexRange hull(const IndexRange& a, const IndexRange& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  return {std::min(a.begin, b.begin), std::max(a.end, b.end)};
}

/// The range of the sources of the points [begin, end) outside one side of a domain of n points.
IndexRange images(const BoundarySide& side, index_t begin, index_t end, index_t n) {
  IndexRange all{0, 0};
  for (index_t g = begin; g < end; ++g) {
    const Image image = image_of(side.kind, g, n);
    if (!image.constant) all = hull(all, {image.source, image.source + 1});
  }
  return all;
}

/// Throws if points outside a domain of n points have no source.
void require_images(const Geometry& x, int d, const MergeDim& dim, index_t n,
                    const index_t* extents) {
  for (const auto& [side, width] :
       {std::pair(dim.low, dim.window.padding_lo), std::pair(dim.high, dim.window.padding_hi)}) {
    if (width == 0) continue;
    if (n == 1 && (side.kind == BoundaryKind::reflect || side.kind == BoundaryKind::fold_on_row))
      throw_argument("domain_parallel",
                     {"dimension ", text(d + 2), " of a merged layer's input, computed from \"",
                      x.label, "\", has one point, which can't be reflected"});
    if (side.longitude >= 0 && extents[side.longitude - 2] % 2 != 0)
      throw_argument(
          "domain_parallel",
          {"dimension ", text(d + 2), " of a merged layer's input, computed from \"", x.label,
           "\", is folded, which needs an even number of longitudes; there are ",
           text(extents[side.longitude - 2])});
  }
}

/// The ranges of a layer's input, global indices, along one dimension.
struct Ranges {
  IndexRange computed, held, low, high;
};

Ranges ranges_of(const MergeDim& dim, bool wraps, bool fills, index_t n, const IndexRange& next) {
  Ranges r{{0, 0}, {0, 0}, {0, 0}, {0, 0}};
  if (next.empty()) return r;
  const IndexRange reads = conv_reads(dim.window, next);
  if (wraps) {
    r.computed = r.held = reads;
    return r;
  }
  r.computed = {std::max<index_t>(reads.begin, 0), std::min(reads.end, n)};
  if (fills && n > 0) {
    r.low      = images(dim.low, reads.begin, std::min<index_t>(reads.end, 0), n);
    r.high     = images(dim.high, std::max(reads.begin, n), reads.end, n);
    r.computed = hull(r.computed, hull(r.low, r.high));
    r.held     = hull(r.computed, reads);
  } else {
    r.held = r.computed;
  }
  if (r.computed.empty()) r.computed = {r.held.begin, r.held.begin};
  return r;
}

IndexRange minus(const IndexRange& r, index_t base) { return {r.begin - base, r.end - base}; }

/// Orders folds before the dimensions that they shift.
void order_dims(DomainEdges& edges) {
  int k = 0;
  for (const bool folded : {true, false})
    for (int d = 0; d < 3; ++d)
      if ((edges.low[d].longitude >= 0 || edges.high[d].longitude >= 0) == folded)
        edges.order[k++] = d;
}

}  // namespace

void plan_levels(const MergeLayer* layers, int count, const Geometry& x, const Partition* outputs,
                 MergedLevel* levels) {
  const int dims = x.rank - 2;
  index_t extents[3];
  for (int d = 0; d < dims; ++d) extents[d] = x.global(d + 2);
  index_t channels = x.global(1);
  for (int l = 0; l <= count; ++l) {
    MergedLevel& level = levels[l];
    level              = {};
    level.channels     = channels;
    for (int d = 0; d < dims; ++d) {
      level.edges.first[d + 3 - dims] = -x.begin(d + 2);
      level.edges.last[d + 3 - dims]  = extents[d] - x.begin(d + 2);
    }
    if (l == count) break;
    const MergeLayer& layer = layers[l];
    if (layer.kind == MergeKind::convolution) {
      require_groups("Conv", layer.in, layer.out, layer.groups);
      require_extent("Conv", x.label, "channels", channels, layer.in);
      channels = layer.out;
    }
    if (l > 0 && layer.fills())
      for (int d = 0; d < dims; ++d) require_images(x, d, layer.at(d), extents[d], extents);
    for (int d = 0; d < dims; ++d) extents[d] = conv_output_extent(layer.at(d).window, extents[d]);
  }
  for (int d = 0; d < dims; ++d) {
    const int to       = d + 3 - dims;
    const index_t base = x.begin(d + 2);
    const int part     = x.dims[Geometry::at(d + 2)].coordinate;
    IndexRange next{outputs[d].begin(part), outputs[d].end(part)};
    levels[count].computed[to] = levels[count].held[to] = minus(next, base);
    for (int l = count - 1; l >= 0; --l) {
      const MergeLayer& layer = layers[l];
      MergedLevel& level      = levels[l];
      DomainEdges& edges      = level.edges;
      const bool wraps        = MergeChain{layers, count}.wraps(l, d);
      const index_t extent    = edges.last[to] + base;
      if (wraps) {
        edges.first[to] = -no_end;
        edges.last[to]  = no_end;
      }
      if (l == 0) break;
      const Ranges r        = ranges_of(layer.at(d), wraps, layer.fills(), extent, next);
      next                  = r.computed;
      level.computed[to]    = minus(r.computed, base);
      level.held[to]        = minus(r.held, base);
      edges.filled[to]      = layer.fills() && !wraps;
      edges.images_low[to]  = minus(r.low, base);
      edges.images_high[to] = minus(r.high, base);
      edges.low[to]         = layer.at(d).low;
      edges.high[to]        = layer.at(d).high;
      for (BoundarySide* side : {&edges.low[to], &edges.high[to]})
        if (side->longitude >= 0) side->longitude += 1 - dims;
      level.any_beyond = level.any_beyond || level.held[to].begin < level.computed[to].begin ||
                         level.held[to].end > level.computed[to].end;
    }
  }
  for (int l = 1; l < count; ++l) order_dims(levels[l].edges);
}

}  // namespace shard::impl
