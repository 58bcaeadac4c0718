// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shard/layers/impl/outside_kernels.hpp"

#include "launch.hpp"
#include "shard/view/index_map.hpp"

namespace shard::impl {

template <class T>
struct FillOutsideKernel {
  RowSplit split;
  Block<T> cells;
  DomainEdges edges;
  bool tangent;

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r      = split.row(item);
    const index_t end = r.x + r.count;
    if (edges.is_outside(0, r.z) || edges.is_outside(1, r.y)) {
      set(r, r.x, end);
    } else if (edges.filled[2]) {
      set(r, r.x, end < edges.first[2] ? end : edges.first[2]);
      set(r, r.x > edges.last[2] ? r.x : edges.last[2], end);
    }
  }

  KOKKOS_FUNCTION void set(const RowSplit::Row& r, index_t begin, index_t end) const {
    for (index_t x = begin; x < end; ++x) cells.at(r.n, r.c, r.z, r.y, x) = value_at(r, x);
  }

  KOKKOS_FUNCTION T value_at(const RowSplit::Row& r, index_t x) const {
    index_t at[3] = {r.z, r.y, x};
    bool turns[3] = {}, negative = false;
    for (int d = 0; d < 3; ++d) {
      if (!edges.is_outside(d, at[d])) continue;
      const BoundarySide& side = at[d] < edges.first[d] ? edges.low[d] : edges.high[d];
      const Image image =
          image_of(side.kind, at[d] - edges.first[d], edges.last[d] - edges.first[d]);
      if (image.constant) return tangent ? T(0) : side.value.as<T>();
      at[d] = edges.first[d] + image.source;
      if (image.crossed % 2 != 0) {
        if (side.longitude >= 0) turns[side.longitude] = !turns[side.longitude];
        negative = negative != side.odd;
      }
    }
    for (int d = 0; d < 3; ++d)
      if (turns[d]) at[d] = edges.turned(d, at[d]);
    const T value = cells.at(r.n, r.c, at[0], at[1], at[2]);
    return negative ? -value : value;
  }
};

template <class T>
struct GatherOutsideKernel {
  RowSplit split;
  Block<T> cells;
  DomainEdges edges;

  /// The target cell, and the cell outside the domain that is being examined.
  struct Search {
    index_t n, c, target[3];
    bool negative, beyond;
  };

  KOKKOS_FUNCTION void operator()(index_t item) const {
    const auto r     = split.row(item);
    const bool whole = edges.has_images(0, r.z) || edges.has_images(1, r.y);
    for (index_t x = r.x; x < r.x + r.count; ++x) {
      if (!whole && !edges.has_images(2, x)) continue;
      T& cell = cells.at(r.n, r.c, r.z, r.y, x);
      T sum   = cell;
      index_t from[3];
      add_images<0>(sum, from, {r.n, r.c, {r.z, r.y, x}, false, false});
      cell = sum;
    }
  }

  /// Adds the cells outside the domain whose source is the target, dimension by dimension.
  template <int K>
  KOKKOS_FUNCTION void add_images(T& sum, index_t* from, const Search& search) const {
    if constexpr (K == 3) {
      if (!search.beyond) return;
      const T value = cells.at(search.n, search.c, from[0], from[1], from[2]);
      sum += search.negative ? -value : value;
    } else {
      const int d = edges.order[K];
      from[d]     = search.target[d];
      add_images<K + 1>(sum, from, search);
      if (!edges.filled[d]) return;
      add_side<K>(sum, from, search, edges.low[d], cells.begin[d], edges.first[d]);
      add_side<K>(sum, from, search, edges.high[d], edges.last[d], cells.end[d]);
    }
  }
  template <int K>
  KOKKOS_FUNCTION void add_side(T& sum, index_t* from, const Search& search,
                                const BoundarySide& side, index_t begin, index_t end) const {
    const int d = edges.order[K];
    for (index_t g = begin; g < end; ++g) {
      const Image image = image_of(side.kind, g - edges.first[d], edges.last[d] - edges.first[d]);
      if (image.constant || edges.first[d] + image.source != search.target[d]) continue;
      Search next = search;
      next.beyond = true;
      if (image.crossed % 2 != 0) {
        if (side.longitude >= 0)
          next.target[side.longitude] = edges.turned(side.longitude, next.target[side.longitude]);
        next.negative = next.negative != side.odd;
      }
      from[d] = g;
      add_images<K + 1>(sum, from, next);
    }
  }
};

template <class Space, class T>
void OutsideKernels<Space, T>::fill(const Space& space, const Block<T>& cells,
                                    const DomainEdges& edges, bool tangent) {
  const RowSplit split = RowSplit::of(space, cells);
  launch("shard::fill_outside", space, split.items(),
         FillOutsideKernel<T>{split, cells, edges, tangent});
}

template <class Space, class T>
void OutsideKernels<Space, T>::gather(const Space& space, const Block<T>& cells,
                                      const DomainEdges& edges) {
  Block<T> inside = cells;
  for (int d = 0; d < 3; ++d) {
    if (!edges.filled[d]) continue;
    inside.begin[d] = cells.begin[d] > edges.first[d] ? cells.begin[d] : edges.first[d];
    inside.end[d]   = cells.end[d] < edges.last[d] ? cells.end[d] : edges.last[d];
  }
  const RowSplit split = RowSplit::of(space, inside);
  launch("shard::gather_outside", space, split.items(),
         GatherOutsideKernel<T>{split, cells, edges});
}

SHARD_KERNELS(OutsideKernels)

}  // namespace shard::impl
