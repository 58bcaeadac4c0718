// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_REGION_HPP
#define SHARD_VIEW_REGION_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "shard/base/impl/host_space.hpp"
#include "shard/base/impl/launch.hpp"
#include "shard/base/types.hpp"
#include "shard/view/impl/index_halo.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

/// How far from a point a kernel reads: one Halo per dimension with a halo, in the order of the
/// dimensions.
template <class... Halos>
struct Reach {
  static_assert((impl::is_halo_v<Halos> && ...),
                "a Reach is made of Halos, one per dimension with a halo");
};

/// A box of local indices [begin, end) in each dimension.
template <int Rank>
struct Box {
  Kokkos::Array<index_t, static_cast<std::size_t>(Rank)> begin{};  ///< first indices
  Kokkos::Array<index_t, static_cast<std::size_t>(Rank)> end{};    ///< one past the last

  /// Number of points; 0 if the box is empty in some dimension.
  KOKKOS_FUNCTION constexpr index_t cells() const {
    index_t n = 1;
    for (int d = 0; d < Rank; ++d) n *= end[d] > begin[d] ? end[d] - begin[d] : 0;
    return n;
  }
};

/// Disjoint boxes of a field's local indices, over which a kernel runs. At most one box and two
/// more for each of three dimensions with halos.
/// \tparam InnerDim the dimension that is contiguous
/// in memory
template <int Rank, int InnerDim>
struct Region {
  static constexpr int max_boxes = 7;           ///< one and two for each halo
  Kokkos::Array<Box<Rank>, max_boxes> boxes{};  ///< the first `count` of them count
  int count = 0;                                ///< number of boxes

  /// Number of points of all boxes.
  KOKKOS_FUNCTION constexpr index_t cells() const {
    index_t n = 0;
    for (int b = 0; b < count; ++b) n += boxes[b].cells();
    return n;
  }
};

namespace impl {

template <class Field>
using RegionOf =
    Region<Field::rank,
           std::is_same_v<typename Field::layout, Kokkos::LayoutLeft> ? 0 : Field::rank - 1>;

template <int Rank>
using Widths = Kokkos::Array<Kokkos::Array<int, 2>, static_cast<std::size_t>(Rank)>;

template <class Field>
constexpr Widths<Field::rank> widths_of(Reach<>) {
  Widths<Field::rank> w{};
  for (int d = 0; d < Field::rank; ++d) {
    w[d][0] = Field::halo_lo(d);
    w[d][1] = Field::halo_hi(d);
  }
  return w;
}

template <class Field>
constexpr int halo_dims() {
  int count = 0;
  for (int d = 0; d < Field::rank; ++d)
    count += Field::halo_lo(d) > 0 || Field::halo_hi(d) > 0 ? 1 : 0;
  return count;
}

template <class Field, class First, class... Rest>
constexpr Widths<Field::rank> widths_of(Reach<First, Rest...>) {
  static_assert(halo_dims<Field>() == 1 + static_cast<int>(sizeof...(Rest)),
                "a Reach has one Halo per dimension of the field that has a halo");
  constexpr int widths[][2] = {{First::lo, First::hi}, {Rest::lo, Rest::hi}...};
  Widths<Field::rank> w{};
  int next = 0;
  for (int d = 0; d < Field::rank; ++d) {
    if (Field::halo_lo(d) == 0 && Field::halo_hi(d) == 0) continue;
    w[d][0] = widths[next][0];
    w[d][1] = widths[next][1];
    ++next;
  }
  return w;
}

}  // namespace impl

/// All owned points.
template <AnyShardedView Field>
impl::RegionOf<Field> owned_region(const Field& field) {
  impl::RegionOf<Field> region;
  region.count = 1;
  for (int d = 0; d < Field::rank; ++d) region.boxes[0].end[d] = field.extent(d);
  return region;
}

namespace impl {

/// The dimension that `Axis` shards.
template <class Axis, class Field>
constexpr int dim_sharded_by() {
  constexpr int d = FieldTypeOf<Field>::template dim_cut_by<Axis>();
  static_assert(d >= 0, "no dimension of the field is sharded over this axis alone");
  return d;
}

/// The halo points of dimension `Dim` outside the domain, at the low end, the high end or both.
template <int Dim, AnyShardedView Field>
RegionOf<Field> outside(const Field& field, bool low, bool high) {
  static_assert(Dim >= 0 && Dim < Field::rank, "the field has no such dimension");
  const auto all      = owned_region(field);
  const index_t first = -Field::halo_lo(Dim), last = field.extent(Dim) + Field::halo_hi(Dim);
  const index_t zero = -field.begin(Dim), end = zero + field.global_extent(Dim);
  RegionOf<Field> region;
  const auto add = [&](index_t begin_at, index_t end_at) {
    if (begin_at >= end_at) return;
    auto& box      = region.boxes[region.count++];
    box            = all.boxes[0];
    box.begin[Dim] = begin_at;
    box.end[Dim]   = end_at;
  };
  if (low) add(first, zero < last ? zero : last);
  if (high) add(end > first ? end : first, last);
  return region;
}

}  // namespace impl

/// The halo points of dimension `Dim`, or of the dimension that `Axis` shards, that are outside the
/// domain: below its low end, beyond its high end, or both. In other dimensions the owned points;
/// `grown` adds corners. Empty on ranks whose halo is inside. Local.
template <int Dim, AnyShardedView Field>
impl::RegionOf<Field> beyond(const Field& field) {
  return impl::outside<Dim>(field, true, true);
}
/// See beyond.
template <class Axis, AnyShardedView Field>
impl::RegionOf<Field> beyond(const Field& field) {
  return beyond<impl::dim_sharded_by<Axis, Field>()>(field);
}
/// See beyond.
template <int Dim, AnyShardedView Field>
impl::RegionOf<Field> beyond_low(const Field& field) {
  return impl::outside<Dim>(field, true, false);
}
/// See beyond.
template <class Axis, AnyShardedView Field>
impl::RegionOf<Field> beyond_low(const Field& field) {
  return beyond_low<impl::dim_sharded_by<Axis, Field>()>(field);
}
/// See beyond.
template <int Dim, AnyShardedView Field>
impl::RegionOf<Field> beyond_high(const Field& field) {
  return impl::outside<Dim>(field, false, true);
}
/// See beyond.
template <class Axis, AnyShardedView Field>
impl::RegionOf<Field> beyond_high(const Field& field) {
  return beyond_high<impl::dim_sharded_by<Axis, Field>()>(field);
}

/// Each box of a region, `lo` points longer at the low end of dimension `Dim` and `hi` at the high
/// end; negative numbers shorten. `grown<1>(owned_region(f), 0, 1)` has the faces around f's points
/// along dimension 1, one more than points. The caller keeps boxes disjoint and in the halo.
template <int Dim, int Rank, int InnerDim>
Region<Rank, InnerDim> grown(Region<Rank, InnerDim> region, index_t lo, index_t hi) {
  static_assert(Dim >= 0 && Dim < Rank, "the region has no such dimension");
  for (int b = 0; b < region.count; ++b) {
    region.boxes[b].begin[Dim] -= lo;
    region.boxes[b].end[Dim] += hi;
  }
  return region;
}

namespace impl {

/// A reach so wide that points which read the last row of a NorthFold, or the edges of blocks, of
/// some field of these types, are in the rim: the exchange writes the copies there.
template <class... Bounded, AnyShardedView Field>
Widths<Field::rank> reach_of_copies(const Field& field, Widths<Field::rank> reach) {
  for (int d = 0; d < Field::rank; ++d) {
    // in a field of another rank it may be any dimension
    const auto shares = [&]<class F>(std::type_identity<F>) {
      for (int of = 0; of < F::rank; ++of)
        if ((of == d || F::rank != Field::rank) &&
            shares_row(FieldTypeOf<F>::types[static_cast<std::size_t>(of)].high.kind))
          return true;
      return false;
    };
    if ((shares(std::type_identity<Bounded>()) || ...) &&
        field.begin(d) + field.extent(d) == field.global_extent(d))
      ++reach[d][1];
    const auto links = [&]<class F>(std::type_identity<F>) {
      for (int of = 0; of < F::rank; ++of)
        if ((of == d || F::rank != Field::rank) &&
            is_linked(FieldTypeOf<F>::types[static_cast<std::size_t>(of)].low.kind))
          return true;
      return false;
    };
    if ((links(std::type_identity<Bounded>()) || ...)) {
      ++reach[d][0];
      ++reach[d][1];
    }
  }
  return reach;
}

/// Sides of a field's owned points: bit 2 d is the low side of dimension d, bit 2 d + 1 its high
/// side.
constexpr unsigned low_side(int d) { return 1U << (2 * d); }
constexpr unsigned high_side(int d) { return 2U << (2 * d); }
inline constexpr unsigned all_sides = ~0U;

/// The points of `region`, which has one box, at which a kernel of the given reach reads no halo on
/// these sides.
template <AnyShardedView Field>
RegionOf<Field> inside(RegionOf<Field> region, const Field& field, const Widths<Field::rank>& reach,
                       unsigned sides) {
  Box<Field::rank>& box = region.boxes[0];
  for (int d = 0; d < Field::rank; ++d) {
    index_t end = field.extent(d) - reach[d][1];
    if (FieldTypeOf<Field>::types[Geometry::at(d)].indices != nullptr)
      end = field.partition(d).index_halo()->interior;
    if ((sides & low_side(d)) != 0 && box.begin[d] < reach[d][0]) box.begin[d] = reach[d][0];
    if ((sides & high_side(d)) != 0 && box.end[d] > end) box.end[d] = end;
  }
  if (region.cells() == 0) region.count = 0;
  return region;
}

/// The points of `region`'s only box that aren't in `core`'s, which is inside it.
template <int Rank, int InnerDim>
Region<Rank, InnerDim> without(const Region<Rank, InnerDim>& region,
                               const Region<Rank, InnerDim>& core) {
  if (region.count == 0 || core.count == 0) return region;
  Region<Rank, InnerDim> strips;
  Box<Rank> rest = region.boxes[0];
  for (int d = 0; d < Rank; ++d) {
    const index_t cuts[] = {rest.begin[d], core.boxes[0].begin[d], core.boxes[0].end[d],
                            rest.end[d]};
    for (const int side : {0, 2}) {
      Box<Rank> strip = rest;
      strip.begin[d]  = cuts[side];
      strip.end[d]    = cuts[side + 1];
      if (strip.cells() > 0) strips.boxes[strips.count++] = strip;
    }
    rest.begin[d] = cuts[1];
    rest.end[d]   = cuts[2];
  }
  return strips;
}

}  // namespace impl

/// The owned points at which a kernel of the given reach (default: the field's halo) reads no halo.
/// They can be computed while messages are in transit. Empty if the shard is empty or thinner than
/// the reach.
template <AnyShardedView Field, class... Halos>
impl::RegionOf<Field> interior(const Field& field, Reach<Halos...> reach = {}) {
  return impl::inside(owned_region(field), field,
                      impl::reach_of_copies<Field>(field, impl::widths_of<Field>(reach)),
                      impl::all_sides);
}

/// The owned points outside of the interior.
template <AnyShardedView Field, class... Halos>
impl::RegionOf<Field> rim(const Field& field, Reach<Halos...> reach = {}) {
  auto all = owned_region(field);
  if (all.cells() == 0) all.count = 0;
  return impl::without(all, interior(field, reach));
}

namespace impl {

/// The fraction (1/n) of the interior after which `overlapped` first polls the neighbours.
inline constexpr int first_parts = 64;

/// Splits the first of `parts` equal parts off a region of one box, along the dimension with the
/// largest stride. Along another dimension the parts would share lines, and hardware prefetching
/// would fetch them twice.
template <int Rank, int InnerDim>
Region<Rank, InnerDim> split_first(Region<Rank, InnerDim>& region, int parts) {
  constexpr int along          = InnerDim == 0 ? Rank - 1 : 0;
  Region<Rank, InnerDim> first = region;
  Box<Rank>& box               = region.boxes[0];
  const index_t cut            = box.begin[along] + (box.end[along] - box.begin[along]) / parts;
  first.boxes[0].end[along]    = cut;
  box.begin[along]             = cut;
  return first;
}

/// All parts that `split_first` has split off a region of one box, when `rest` is left.
template <int Rank, int InnerDim>
void keep_first(Region<Rank, InnerDim>& region, const Region<Rank, InnerDim>& rest) {
  constexpr int along        = InnerDim == 0 ? Rank - 1 : 0;
  region.boxes[0].end[along] = rest.boxes[0].begin[along];
  if (region.cells() == 0) region.count = 0;
}

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

}  // namespace impl

/// Runs functor(i, j, ...) for every point of the region, local indices as ints, in one kernel over
/// all its boxes. Points may be computed in any order, and several at once. Asynchronous, as
/// Kokkos::parallel_for. Throws ArgumentError if a box ends beyond 2^31 - 1.
template <class Space, int Rank, int InnerDim, class Functor>
void parallel_for(const std::string& label, const Space& space,
                  const Region<Rank, InnerDim>& region, const Functor& functor) {
  constexpr bool fits = impl::takes_indices_v<Rank, Functor>;
  static_assert(fits,
                "the functor of parallel_for needs operator()(int i, int j, ...) const with one "
                "index for each dimension of the region");
  impl::require_int_indices(label, region);
  if constexpr (!fits) {
    return;  // one message is enough
  } else if constexpr (impl::is_host_space_v<Space>) {
    if (region.cells() == 0) return;
    using Kernel = impl::RegionLinesKernel<Rank, InnerDim, Functor>;
    const Kernel kernel(region, functor, space.concurrency());
    impl::launch(label, space, kernel.items, kernel);
  } else if (region.count == 1) {
    impl::launch(label, space, region.cells(),
                 impl::RegionCellsKernel<Rank, InnerDim, 1, Functor>(region, functor));
  } else {
    using Boxes = Region<Rank, InnerDim>;
    impl::launch(
        label, space, region.cells(),
        impl::RegionCellsKernel<Rank, InnerDim, Boxes::max_boxes, Functor>(region, functor));
  }
}

}  // namespace shard

#endif
