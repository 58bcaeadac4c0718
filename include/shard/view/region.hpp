// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_VIEW_REGION_HPP
#define SHARD_VIEW_REGION_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

#include "shard/base/impl/host_space.hpp"
#include "shard/base/impl/launch.hpp"
#include "shard/base/types.hpp"
#include "shard/view/box.hpp"
#include "shard/view/impl/index_halo.hpp"
#include "shard/view/impl/region_kernels.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

/// How far from a point a kernel reads: one Halo per dimension with a halo, in the order of the
/// dimensions.
template <class... Halos>
struct Reach {
  static_assert((impl::is_halo_v<Halos> && ...),
                "a Reach is made of Halos, one per dimension with a halo");
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
