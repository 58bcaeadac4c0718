// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDUCE_IMPL_COPIES_HPP
#define SHARD_REDUCE_IMPL_COPIES_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "shard/base/error.hpp"
#include "shard/mesh/impl/mesh_state.hpp"
#include "shard/view/impl/geometry.hpp"
#include "shard/view/impl/local_field.hpp"
#include "shard/view/index_map.hpp"
#include "shard/view/region.hpp"

namespace shard::impl {

/// Owned elements that are copies of others. Of a NorthFold: those with index `row` in dimension
/// `fold` and an index in one of the ascending ranges [begin, end) in dimension `along`. Over
/// blocks: those whose `mask` isn't 0. None if `fold` is negative and `mask` is null.
struct Copies {
  int fold = -1, along = -1;
  index_t row      = 0;
  index_t begin[2] = {}, end[2] = {};
  const std::uint8_t* mask      = nullptr;
  index_t mask_stride[max_rank] = {};

  bool any() const { return fold >= 0 || mask != nullptr; }
  KOKKOS_FUNCTION bool has(index_t i) const {
    return (i >= begin[0] && i < end[0]) || (i >= begin[1] && i < end[1]);
  }
  /// Whether the element at these indices is a copy.
  KOKKOS_FUNCTION bool has(const index_t* index) const {
    constexpr int inner = max_rank - 1;
    bool is_copy        = true;
    parts(inner, index, index[inner], index[inner] + 1, [&](index_t, index_t) { is_copy = false; });
    return is_copy;
  }
  /// Calls part(first, last) for the parts of a line [first, last) along dimension `inner` that
  /// aren't copies; `index` is that of its first element.
  template <class Part>
  KOKKOS_FORCEINLINE_FUNCTION void parts(int inner, const index_t* index, index_t first,
                                         index_t last, const Part& part) const {
    if (mask != nullptr) return unmasked(inner, index, first, last, part);
    if (fold < 0 || (fold != inner && index[fold] != row)) return part(first, last);
    if (inner != along) {
      // a row with copies is the last one
      if (has(index[along])) last = fold != inner ? first : last < row ? last : row;
      if (first < last) part(first, last);
      return;
    }
    for (int k = 0; k < 2; ++k) {
      const index_t until = begin[k] < last ? begin[k] : last;
      if (end[k] <= begin[k] || end[k] <= first) continue;
      if (first < until) part(first, until);
      first = end[k];
    }
    if (first < last) part(first, last);
  }

 private:
  template <class Part>
  KOKKOS_FUNCTION void unmasked(int inner, const index_t* index, index_t first, index_t last,
                                const Part& part) const {
    const std::uint8_t* line = mask;
    for (int d = 0; d < max_rank; ++d)
      if (d != inner) line += index[d] * mask_stride[d];
    const index_t step = mask_stride[inner];
    while (first < last) {
      while (first < last && line[first * step] != 0) ++first;
      index_t until = first;
      while (until < last && line[until * step] == 0) ++until;
      if (first < until) part(first, until);
      first = until;
    }
  }
};

/// The position of dimension d of a field among max_rank dimensions, the last the fastest. `left`:
/// dimension 0 is the fastest.
constexpr int run_dim(int d, int rank, bool left) {
  return left ? max_rank - 1 - d : max_rank - rank + d;
}
template <class Field>
constexpr int run_dim(int d) {
  return run_dim(d, Field::rank, std::is_same_v<typename Field::layout, Kokkos::LayoutLeft>);
}

/// The copies of points that several blocks have, of a field's block dimension: a mask of this
/// rank's blocks. Cached in the mesh.
template <class Memory>
class BlockCopies : public CachedPlan {
 public:
  static std::shared_ptr<BlockCopies> of(const Geometry& geometry, int block) {
    const DimGeometry& dim = geometry.dims[Geometry::at(block)];
    PlanKey key            = PlanKey::of(KeyKind::block_copies, dim.partition.hash(hash_seed));
    const bool on_host     = std::is_same_v<Memory, Kokkos::HostSpace>;
    key.mix(&on_host, sizeof on_host);
    if (auto found = std::static_pointer_cast<BlockCopies>(geometry.mesh->find(key))) return found;
    auto made        = std::make_shared<BlockCopies>();
    made->partition_ = dim.partition;
    made->share      = share_of_owners(dim.partition);
    const auto mask  = mask_of_copies(dim.partition, dim.coordinate);
    made->mask       = Kokkos::View<std::uint8_t*, Memory>(
        Kokkos::view_alloc("shard::copies", Kokkos::WithoutInitializing), mask.size());
    Kokkos::deep_copy(
        made->mask, Kokkos::View<const std::uint8_t*, Kokkos::HostSpace>(mask.data(), mask.size()));
    geometry.mesh->keep(KeptKind::operand, key, made);
    return made;
  }
  std::size_t bytes() const override { return mask.size(); }

  Kokkos::View<std::uint8_t*, Memory> mask;  ///< [block][y][x]; 0: an owner
  double share = 1;                          ///< of owners among the points of all ranks

 private:
  Partition partition_;
};

/// The dimensions of a field over blocks; -1 if there are none.
struct BlockDims {
  int block = -1, y = -1, x = -1;
};
template <class Field>
constexpr BlockDims block_dims() {
  BlockDims dims;
  [&]<int... D>(std::integer_sequence<int, D...>) {
    // not by types[d].blocks: with UBSan, g++ can't compare an address with null at compile time
    ((FieldTypeOf<Field>::template has_blocks<D> ? void(dims.block = D) : void()), ...);
  }
  (std::make_integer_sequence<int, Field::rank>{});
  for (int d = 0; d < Field::rank; ++d) {
    const DimType& type = FieldTypeOf<Field>::types[Geometry::at(d)];
    if (type.low.kind == BoundaryKind::linked_y) dims.y = d;
    if (type.low.kind == BoundaryKind::linked_x) dims.x = d;
  }
  return dims;
}
/// Whether fields of this type may have copies among their owned elements.
template <class Field>
inline constexpr bool may_have_copies_v = [] {
  bool may = block_dims<Field>().block >= 0;
  for (const DimType& type : FieldTypeOf<Field>::types) may = may || shares_row(type.high.kind);
  return may;
}();

/// This rank's copies of elements, in the last row of a NorthFold, of a field with these types.
inline Copies copies_of_folds(const Geometry& field, const DimType* types, bool left) {
  Copies copies;
  for (int d = 0; d < field.rank; ++d) {
    const BoundarySide& high = types[d].high;
    const index_t row        = field.global(d) - 1 - field.begin(d);
    if (!shares_row(high.kind) || row < 0 || row >= field.owned(d)) continue;
    const int l   = high.longitude;
    copies.fold   = run_dim(d, field.rank, left);
    copies.along  = run_dim(l, field.rank, left);
    copies.row    = row;
    const auto in = copied_longitudes(high, field.global(l));
    for (int k = 0; k < 2; ++k) {
      copies.begin[k] = in.begin[k] - field.begin(l);
      copies.end[k]   = in.end[k] - field.begin(l);
    }
  }
  return copies;
}
/// The same, and those on the edges of blocks.
template <class Field>
Copies copies_of(const Field& f) {
  constexpr BlockDims dims = block_dims<Field>();
  if constexpr (dims.block >= 0) {
    Copies copies;
    if (!has_shared_points(f.any_geometry(), dims.block)) return copies;
    copies.mask =
        BlockCopies<typename Field::memory_space>::of(f.any_geometry(), dims.block)->mask.data();
    copies.mask_stride[run_dim<Field>(dims.x)]     = 1;
    copies.mask_stride[run_dim<Field>(dims.y)]     = f.extent(dims.x);
    copies.mask_stride[run_dim<Field>(dims.block)] = f.extent(dims.x) * f.extent(dims.y);
    return copies;
  } else if constexpr (may_have_copies_v<Field>) {
    return copies_of_folds(f.any_geometry(), FieldTypeOf<Field>::types.data(),
                           std::is_same_v<typename Field::layout, Kokkos::LayoutLeft>);
  } else {
    return {};
  }
}

}  // namespace shard::impl

#endif
