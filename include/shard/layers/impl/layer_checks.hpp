// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_IMPL_LAYER_CHECKS_HPP
#define SHARD_LAYERS_IMPL_LAYER_CHECKS_HPP

#include <string_view>
#include <type_traits>
#include <utility>

#include "shard/base/error.hpp"
#include "shard/exchange/determinism.hpp"
#include "shard/layers/impl/kernels.hpp"
#include "shard/layers/window/window.hpp"
#include "shard/redistribute/redistribute.hpp"
#include "shard/view/partition.hpp"
#include "shard/view/region.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard::impl {

/// Throws ArgumentError unless the extents agree. The numbers are the same on every rank, so every
/// rank throws.
void require_extent(std::string_view function, std::string_view field, std::string_view what,
                    index_t is, index_t should_be);

/// Throws ArgumentError, on every rank, unless both partitions give every part the same indices.
void require_same_partition(std::string_view function, std::string_view field, int dim,
                            const Partition& is, const Partition& should_be);

/// Throws ArgumentError unless the groups divide both numbers of channels.
void require_groups(std::string_view function, index_t in, index_t out, index_t groups);

/// Whether each group of `per_group` neighbouring channels is on one part.
bool keeps_groups_whole(const Partition& channels, index_t per_group);

/// Throws ArgumentError, on every rank, unless keeps_groups_whole.
void require_whole_groups(std::string_view function, std::string_view field,
                          const Partition& channels, index_t per_group);

/// The partition of channels, `to` of them for each `from` of these, whose groups are whole.
Partition regrouped(const Partition& channels, index_t from, index_t to);
/// Whether b is regrouped(a, from, to), without constructing it.
bool is_regrouped(const Partition& a, const Partition& b, index_t from, index_t to);

/// The inputs that a layer reads for the outputs [begin, end), global indices.
using Reads = IndexRange (*)(const void* context, IndexRange outputs);

/// Throws ArgumentError, on every rank, if on some part an output reads input points beyond the
/// halo lo, hi. Points outside the domain count only where `outside_domain` says so.
void require_halo_for(std::string_view function, std::string_view field, int dim,
                      const Partition& inputs, const Partition& outputs, int lo, int hi,
                      bool outside_domain, Reads reads, const void* context);

/// Number of halo points outside the domain in dimension `d` of an ordered gradient: none if they
/// are constants.
template <class Field>
constexpr LowHigh edge_widths(int d) {
  const DimType& type = FieldTypeOf<Field>::types[Geometry::at(d)];
  return {type.low.kind == BoundaryKind::constant ? 0 : type.lo,
          type.high.kind == BoundaryKind::constant ? 0 : type.hi};
}

/// Throws ArgumentError, on every rank, if on some part gathering the gradient of `inputs`, and of
/// `edges` outside the domain, reads output points beyond the halo lo, hi of the output's gradient.
void require_gathered_halo_for(std::string_view function, std::string_view field, int dim,
                               const Partition& outputs, const Partition& inputs, int lo, int hi,
                               LowHigh edges, Reads reads, const void* context);

template <class Field, int D>
inline constexpr bool is_cut_v = !std::is_same_v<typename Field::template axis<D>, Unsharded>;

template <class Field, int D>
inline constexpr bool is_zero_beyond_v = std::is_same_v<typename Field::template boundary<D>, Zero>;

/// Compile-time checks of a field against a layer in spatial dimension `S` (dimension S + 2 of the
/// field).
template <class Layer, class Field, int S>
constexpr bool require_wide_halo() {
  using Needed = std::conditional_t<
      is_cut_v<Field, S + 2>, required_halo_t<Layer, S>,
      std::conditional_t<Layer::zero_needs_no_halo && is_zero_beyond_v<Field, S + 2>, Halo<0>,
                         unsharded_halo_t<Layer, S>>>;
  static_assert(halo_is_wide_enough<Layer, Dim<S + 2>, Needs<Needed>,
                                    Has<typename Field::template halo<S + 2>>>::value,
                "the ShardedView's halo is narrower than the layer needs");
  return true;
}

template <class Layer, class Field>
constexpr void require_wide_halos() {
  static_assert(Field::rank == Layer::dims + 2,
                "the layer's field is [batch, channel, one dimension for each of the kernel's]");
  [[maybe_unused]] constexpr bool wide = []<int... S>(std::integer_sequence<int, S...>) {
    return (require_wide_halo<Layer, Field, S>() && ...);
  }
  (std::make_integer_sequence<int, Layer::dims>{});
}

/// Compile-time checks of the output's gradient for an ordered pullback.
template <class Layer, class Field, int S>
constexpr bool require_wide_gradient_halo() {
  using Needed = std::conditional_t<is_cut_v<Field, S + 2>, ordered_halo_t<Layer, S>, Halo<0>>;
  static_assert(halo_is_wide_enough<Layer, Dim<S + 2>, Needs<Needed>,
                                    Has<typename Field::template halo<S + 2>>>::value,
                "the ShardedView's halo is narrower than the ordered gradient needs");
  return true;
}

template <class Layer, class Field>
constexpr void require_wide_gradient_halos() {
  [[maybe_unused]] constexpr bool wide = []<int... S>(std::integer_sequence<int, S...>) {
    return (require_wide_gradient_halo<Layer, Field, S>() && ...);
  }
  (std::make_integer_sequence<int, Layer::dims>{});
}

/// Throws ArgumentError unless two fields are on one mesh and sharded over the same axes of it.
void require_same_cut(std::string_view function, const Geometry& a, const Geometry& b);

template <class A, class B>
constexpr void require_same_rank_and_value() {
  static_assert(A::rank == B::rank, "a layer's fields have the same rank");
  static_assert(cut_alike_v<A, B>, "a layer's fields are sharded over the same mesh axes");
  static_assert(std::is_same_v<typename A::non_const_value_type, typename B::non_const_value_type>,
                "a layer's fields have the same value type");
}

/// Throws ArgumentError unless two fields have the same partitions, except of channels.
template <class A, class B>
void require_same_cells(std::string_view function, const A& a, const B& b) {
  require_same_rank_and_value<A, B>();
  require_same_cut(function, a.geometry(), b.geometry());
  for (int d = 0; d < A::rank; ++d)
    if (d != 1) require_same_partition(function, b.label(), d, b.partition(d), a.partition(d));
}

/// Throws ArgumentError unless two fields have the same global extents, except of channels, with
/// any partitions.
template <class A, class B>
void require_same_world(std::string_view function, const A& a, const B& b) {
  require_same_rank_and_value<A, B>();
  require_same_cut(function, a.geometry(), b.geometry());
  for (int d = 0; d < A::rank; ++d)
    if (d != 1)
      require_extent(function, b.label(), "cells along a dimension", b.global_extent(d),
                     a.global_extent(d));
}

template <class Field>
Block<const typename Field::non_const_value_type> owned_input(const Field& f) {
  if constexpr (std::is_const_v<typename Field::value_type>)
    return owned_block(local(f));
  else
    return as_const(owned_block(local(f)));
}

template <class Field>
Block<const typename Field::non_const_value_type> haloed_input(const Field& f) {
  if constexpr (std::is_const_v<typename Field::value_type>)
    return haloed_block(local(f));
  else
    return as_const(haloed_block(local(f)));
}

/// The owned points and this field's halo.
template <class Field>
Box<Field::rank> haloed_cells(const Field& f) {
  auto box = owned_region(f).boxes[0];
  for (int d = 0; d < Field::rank; ++d) {
    box.begin[d] -= Field::halo_lo(d);
    box.end[d] += Field::halo_hi(d);
  }
  return box;
}

/// The owned points and the halo inside the domain.
template <class Field>
Box<Field::rank> inner_cells(const Field& f) {
  auto box = haloed_cells(f);
  for (int d = 0; d < Field::rank; ++d) {
    const index_t first = -f.begin(d), last = f.global_extent(d) - f.begin(d);
    if (box.begin[d] < first) box.begin[d] = first;
    if (box.end[d] > last) box.end[d] = last;
  }
  return box;
}

/// The owned points and, at an edge of the domain, the halo outside it.
template <class Field>
Box<Field::rank> edge_cells(const Field& f) {
  auto box = owned_region(f).boxes[0];
  for (int d = 0; d < Field::rank; ++d) {
    if (f.extent(d) == 0) continue;
    const LowHigh edges = edge_widths<Field>(d);
    if (f.begin(d) == 0) box.begin[d] -= edges.lo;
    if (f.begin(d) + f.extent(d) == f.global_extent(d)) box.end[d] += edges.hi;
  }
  return box;
}

/// A block with other spatial points.
template <class T, int Rank>
Block<T> block_of(Block<T> block, const Box<Rank>& cells) {
  for (int d = 2; d < Rank; ++d) {
    block.begin[d + 3 - Rank] = cells.begin[d];
    block.end[d + 3 - Rank]   = cells.end[d];
  }
  return block;
}

}  // namespace shard::impl

#endif
