// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_IMPL_REGION_KERNELS_HPP
#define SHARD_VIEW_IMPL_REGION_KERNELS_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "shard/base/impl/launch.hpp"
#include "shard/view/box.hpp"
#include "shard/view/impl/geometry.hpp"

/// \file
/// The kernels of a region's parallel_for.

namespace shard::impl {

/// Throws ArgumentError if an index of the region isn't an int.
template <int Rank, int InnerDim>
void require_int_indices(const std::string& label, const Region<Rank, InnerDim>& region) {
  for (int b = 0; b < region.count; ++b)
    for (int d = 0; d < Rank; ++d)
      if (region.boxes[b].end[d] > most_in_box && region.boxes[b].cells() > 0)
        throw_large_box(label, d, region.boxes[b].end[d]);
}

/// Calls a functor with `Rank` int indices; that of dimension Inner is a separate argument.
template <int Inner, class Functor, std::size_t... D>
KOKKOS_FORCEINLINE_FUNCTION void call_at(const Functor& functor, const int* index, int inner,
                                         std::index_sequence<D...>) {
  functor((static_cast<int>(D) == Inner ? inner : index[D])...);
}

/// A work item is some consecutive lines along the inner dimension, which suits a host's cores and
/// vector units. Lines may be as short as one point (an edge), so an item computes its indices once
/// for all its lines.
template <int Rank, int Inner, class Functor>
struct RegionLinesKernel {
  static constexpr int max_boxes = Region<Rank, Inner>::max_boxes;
  Region<Rank, Inner> region;
  Functor functor;
  Kokkos::Array<index_t, max_boxes> lines{};  ///< of a work item, by box
  Kokkos::Array<index_t, max_boxes> first{};  ///< number of the box's first work item
  index_t items = 0;

  /// `threads`: the number of threads that share the work.
  RegionLinesKernel(const Region<Rank, Inner>& r, const Functor& f, int threads)
      : region(r), functor(f) {
    constexpr index_t enough = 2048, items_per_thread = 8;  // points of an item
    const index_t share = r.cells() / (items_per_thread * threads);
    const index_t cells = share < enough ? share : enough;
    for (int b = 0; b < region.count; ++b) {
      const index_t inner = extent(b, Inner);
      lines[b]            = cells > inner && inner > 0 ? cells / inner : 1;
      first[b]            = items;
      if (region.boxes[b].cells() > 0) items += (lines_of(b) + lines[b] - 1) / lines[b];
    }
  }

  KOKKOS_FUNCTION void operator()(index_t item) const {
    int b = 0;
    while (b + 1 < region.count && item >= first[b + 1]) ++b;
    const Box<Rank>& box = region.boxes[b];
    index_t line = (item - first[b]) * lines[b], left = lines_of(b) - line;
    if (left > lines[b]) left = lines[b];
    int index[Rank] = {};
    for (int k = 1; k < Rank; ++k) {
      const int d     = outward(k);
      const index_t n = extent(b, d);
      index[d]        = static_cast<int>(box.begin[d] + line % n);
      line /= n;
    }
    const int begin = static_cast<int>(box.begin[Inner]), end = static_cast<int>(box.end[Inner]);
    while (left > 0) {
      // the lines up to the end of the next dimension
      constexpr int next = outward(Rank > 1 ? 1 : 0);
      const index_t rows = Rank > 1 ? box.end[next] - index[next] : 1,
                    some = rows < left ? rows : left;
      // Points may be computed in any order. g++ can't prove that for kernels of many fields,
      // because it limits the number of its checks for overlapping memory.
      for (index_t row = 0; row < some; ++row, ++index[next])
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#pragma GCC ivdep
#endif
        for (int i = begin; i < end; ++i)
          call_at<Inner>(functor, index, i, std::make_index_sequence<Rank>{});
      left -= some;
      index[next] = static_cast<int>(box.begin[next]);
      for (int k = 2; k < Rank; ++k) {
        const int d = outward(k);
        if (++index[d] < box.end[d]) break;
        index[d] = static_cast<int>(box.begin[d]);
      }
    }
  }

 private:
  /// The k-th dimension, counted from the inner one outwards.
  KOKKOS_FUNCTION static constexpr int outward(int k) { return Inner == 0 ? k : Rank - 1 - k; }
  KOKKOS_FUNCTION index_t extent(int b, int d) const {
    return region.boxes[b].end[d] - region.boxes[b].begin[d];
  }
  KOKKOS_FUNCTION index_t lines_of(int b) const {
    index_t n = 1;
    for (int k = 1; k < Rank; ++k) n *= extent(b, outward(k));
    return n;
  }
};

/// A work item is a point, which suits a device's threads. Most regions are one box, so `Boxes`
/// keeps the functor small. Local indices are ints, so a box fits into 32 bits.
template <int Rank, int Inner, int Boxes, class Functor>
struct RegionCellsKernel {
  struct Place {
    int begin[Rank];
    std::uint32_t extent[Rank];
  };
  Functor functor;
  Place boxes[Boxes] = {};

  RegionCellsKernel(const Region<Rank, Inner>& region, const Functor& what) : functor(what) {
    for (int b = 0; b < region.count; ++b)
      for (int d = 0; d < Rank; ++d) {
        const Box<Rank>& box = region.boxes[b];
        boxes[b].begin[d]    = static_cast<int>(box.begin[d]);
        boxes[b].extent[d] =
            static_cast<std::uint32_t>(box.end[d] > box.begin[d] ? box.end[d] - box.begin[d] : 0);
      }
  }

  KOKKOS_FUNCTION void operator()(index_t cell) const {
    auto item = static_cast<std::uint64_t>(cell);
    int b     = 0;
    if constexpr (Boxes > 1)
      while (item >= cells(boxes[b])) item -= cells(boxes[b++]);
    // a division of 64 bits takes several times as long as one of 32
    if (cells(boxes[b]) >> 32U == 0)
      run(boxes[b], static_cast<std::uint32_t>(item));
    else
      run(boxes[b], item);
  }

 private:
  KOKKOS_FUNCTION static std::uint64_t cells(const Place& box) {
    std::uint64_t n = 1;
    for (int d = 0; d < Rank; ++d) n *= box.extent[d];
    return n;
  }
  template <class Number>
  KOKKOS_FUNCTION void run(const Place& box, Number item) const {
    const int inner = box.begin[Inner] + static_cast<int>(item % box.extent[Inner]);
    item /= box.extent[Inner];
    int index[Rank] = {};
    for (int d = Rank - 1; d >= 0; --d) {
      if (d == Inner) continue;
      index[d] = box.begin[d] + static_cast<int>(item % box.extent[d]);
      item /= box.extent[d];
    }
    call_at<Inner>(functor, index, inner, std::make_index_sequence<Rank>{});
  }
};

}  // namespace shard::impl

#endif
