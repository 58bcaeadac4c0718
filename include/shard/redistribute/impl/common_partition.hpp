// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDISTRIBUTE_IMPL_COMMON_PARTITION_HPP
#define SHARD_REDISTRIBUTE_IMPL_COMMON_PARTITION_HPP

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "shard/redistribute/redistribute.hpp"

namespace shard::impl {

/// The type of a field like `Field` without halos and const.
template <class Field>
struct OwnedOnly;
template <class T, class Layout, class... Options>
struct OwnedOnly<ShardedView<T, Layout, Options...>> {
  template <class Option>
  struct Without {
    using type = Option;
  };
  template <int D, class Axis, class... O>
  struct Without<ShardDim<D, Axis, O...>> {
    using type = ShardDim<D, Axis>;
  };
  using type =
      ShardedView<typename ShardedView<T, Layout, Options...>::view_type::non_const_data_type,
                  Layout, typename Without<Options>::type...>;
};
template <class Field>
using OwnedOnlyOf = typename OwnedOnly<Field>::type;

/// Memory for moved points, cached in the mesh.
template <class View>
struct MovedCells : CachedPlan {
  static inline char tag = 0;  ///< its address tells types of Views apart
  View view;
  std::size_t bytes() const override { return view.size() * sizeof(typename View::value_type); }
};

/// Whether two fields own the same points in every dimension but `except`.
template <class A, class B>
bool partitions_match(const A& a, const B& b, int except) {
  for (int d = 0; d < B::rank; ++d)
    if (d != except && !(a.partition(d) == b.partition(d))) return false;
  return true;
}

/// An uninitialised field of x's extents with the partitions of `like` in every dimension but
/// `except`, in memory cached in the mesh.
template <class Like, class X>
OwnedOnlyOf<X> moved_field(const Like& like, const X& x, int except, int slot) {
  using Moved       = OwnedOnlyOf<X>;
  Geometry geometry = x.geometry();
  for (int d = 0; d < X::rank; ++d) {
    if (d != except) geometry.dims[Geometry::at(d)].partition = like.partition(d);
  }
  const auto types = FieldTypeOf<Moved>::dim_types(geometry);
  using Cells      = MovedCells<typename Moved::view_type>;
  // identifies the memory, in place of strides
  const index_t memory[max_rank] = {reinterpret_cast<std::intptr_t>(&Cells::tag), slot};
  PlanKey key                    = PlanKey::of(KeyKind::operand);
  add_to_key(key, geometry, types.data(), value_kind<typename Moved::value_type>(),
             static_cast<int>(sizeof(typename Moved::value_type)), memory);
  auto cells = std::static_pointer_cast<Cells>(geometry.mesh->find(key));
  if (!cells) {
    cells       = std::make_shared<Cells>();
    cells->view = FieldTypeOf<Moved>::allocate(geometry);
    geometry.mesh->keep(KeptKind::operand, key, cells);
  }
  return FieldAccess::wrap<Moved>(std::move(geometry), cells->view);
}

/// Calls use(x) with x in the partitions of `like`: x itself if it has them, else a redistributed
/// copy.
template <class Space, class Like, class X, class Use>
void bring_to(const Space& space, const Like& like, const X& x, int except, int slot,
              const Use& use) {
  if (partitions_match(like, x, except)) {
    use(x);
    return;
  }
  const auto moved = moved_field(like, x, except, slot);
  move_between_ranks(space, moved, x, Direction::forward);
  use(moved);
}

/// The inverse for outputs: calls use(y) with a field in the partitions of `like`, and
/// redistributes the result to y if needed.
template <class Space, class Like, class Y, class Use>
void bring_back(const Space& space, const Like& like, const Y& y, int except, int slot,
                const Use& use) {
  if (partitions_match(like, y, except)) {
    use(y);
    return;
  }
  const auto moved = moved_field(like, y, except, slot);
  use(moved);
  move_between_ranks(space, y, moved, Direction::forward);
}

}  // namespace shard::impl

#endif
