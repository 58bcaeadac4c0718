// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COLLECTIVES_OPERATIONS_HPP
#define SHARD_COLLECTIVES_OPERATIONS_HPP

#include <array>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "shard/base/wanted.hpp"
#include "shard/redistribute/redistribute.hpp"

/// \file
/// Redistribution and collectives as operations for a tape: `apply(space, y, x)`,
/// `pushforward(space, ty, tx, x)`, which sets the tangent of y, and `pullback(space, dx, dy, x)`,
/// which sets dx = dJ/dx for dy = dJ/dy, and sends nothing if dx is `not_wanted`. All are linear,
/// so the last two ignore x. Collective and blocking.

namespace shard {

namespace impl {

/// A field type without its Partials.
template <class Field, class... Kept>
struct DropPartials;
template <class T, class Layout, class... Kept>
struct DropPartials<ShardedView<T, Layout>, Kept...> {
  using type = ShardedView<T, Layout, Kept...>;
};
template <class T, class Layout, class Option, class... Rest, class... Kept>
struct DropPartials<ShardedView<T, Layout, Option, Rest...>, Kept...>
    : DropPartials<ShardedView<T, Layout, Rest...>, Kept..., Option> {};
template <class T, class Layout, class Axis, class Op, class... Rest, class... Kept>
struct DropPartials<ShardedView<T, Layout, Partial<Axis, Op>, Rest...>, Kept...>
    : DropPartials<ShardedView<T, Layout, Rest...>, Kept...> {};

template <class... Field>
constexpr void require_sums() {
  static_assert(
      ((std::is_void_v<typename Field::reduction> ||
        std::is_same_v<typename Field::reduction, Sum>)&&...),
      "a redistribution of maxima or minima has no tangent and no pullback; that of sums has both");
}

/// Whether no axis of the mesh is Partial in both fields.
template <class A, class... Axes>
constexpr bool none_partial(AxisList<Axes...>) {
  return ((position_in<Axes>(typename A::partial_axes{}) < 0) && ...);
}

}  // namespace impl

/// The type of a cotangent of a field: the field's type, replicated along the axes of its Partial
/// sums. For a replicated x it is the cotangent of a value from which all ranks compute the same,
/// and counts once; see redistribute_adjoint.
template <AnyShardedView Field>
using cotangent_t = typename impl::DropPartials<Field>::type;

/// `redistribute(space, y, x)` as an operation. The types of dx and dy determine the pullback, see
/// redistribute_adjoint; `cotangent_t<X>` is always a valid type of dx. The pullback overwrites dx,
/// while redistribute_adjoint adds.
struct Redistribute {
  static constexpr bool takes_not_wanted = true;  ///< dx may be not_wanted

  /// y = x
  template <class Space, AnyShardedView Y, AnyShardedView X>
  void apply(const Space& space, const Y& y, const X& x) const {
    redistribute(space, y, x);
  }
  /// The tangent: the operation itself.
  template <class Space, AnyShardedView TY, AnyShardedView TX, AnyShardedView X>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const X&) const {
    impl::require_sums<TY, TX, X>();
    redistribute(space, ty, tx);
  }
  /// dx = dy in x's placement. Halos are unchanged.
  template <class Space, class DX, AnyShardedView DY, AnyShardedView X>
  void pullback(const Space& space, const DX& dx, const DY& dy, const X&) const {
    if constexpr (is_wanted_v<DX>) {
      impl::require_sums<DX, DY, X>();
      static_assert(impl::none_partial<DX>(typename X::partial_axes{}),
                    "the cotangent of a Partial sum is replicated: cotangent_t<X>");
      impl::move_cells("Redistribute's pullback", space, dx, dy);
    }
  }
};

/// Redistribute into new fields of a type: `RedistributeTo<Columns>{}`.
template <AnyShardedView To>
struct RedistributeTo : Redistribute {
  /// As in `redistribute<To>(space, x, partitions)`; empty ones are chosen.
  std::array<Partition, static_cast<std::size_t>(To::rank)> partitions{};

  /// A new field with x's elements and label. Collective over the mesh.
  template <AnyShardedView X>
  To output(const X& x) const {
    impl::check_redistribution<To, X>();
    return impl::placed_anew<To>(x.any_geometry(), partitions);
  }
};

namespace impl {

/// The type of a writable, allocating View with X's values.
template <class X, class Layout>
using OwnView = std::conditional_t<
    std::is_same_v<typename X::array_layout, Layout> && !X::memory_traits::is_unmanaged &&
        !std::is_const_v<typename X::value_type>,
    X, Kokkos::View<typename X::non_const_data_type, Layout, typename X::device_type>>;

}  // namespace impl

/// A collective or an operation on sequences (collectives.hpp, zigzag.hpp, zigzag_contexts.hpp)
/// bound to a mesh. If it has two results (ZigzagContexts), y, ty and dy are a `std::tuple` of
/// Views.
template <class Operation, class Mesh>
struct OnMesh {
  Operation operation;                            ///< the operation
  Mesh mesh;                                      ///< its mesh
  static constexpr bool takes_not_wanted = true;  ///< dx may be not_wanted

  /// A View with the extents of the operation's result for x. (For an invalid x apply throws.)
  template <class X>
  auto output(const X& x) const {
    using Layout = std::conditional_t<std::is_same_v<typename X::array_layout, Kokkos::LayoutLeft>,
                                      Kokkos::LayoutLeft, Kokkos::LayoutRight>;
    Layout layout;
    index_t n[8];
    for (std::size_t d = 0; d < X::rank(); ++d) n[d] = static_cast<index_t>(x.extent(d));
    operation.output_extents(n, static_cast<int>(X::rank()), mesh);
    for (std::size_t d = 0; d < X::rank(); ++d)
      layout.dimension[d] = static_cast<std::size_t>(n[d]);
    using Y                 = impl::OwnView<X, Layout>;
    const std::string label = "shard::output";
    if constexpr (requires { Operation::has_two_results; })
      return std::tuple<Y, Y>(Y(label, layout), Y(label, layout));
    else
      return Y(label, layout);
  }
  /// y = operation of x
  template <class Space, class Y, class X>
  void apply(const Space& space, const Y& y, const X& x) const {
    operation.apply(space, y, x, mesh);
  }
  /// Both results of an operation that has two.
  template <class Space, class First, class Second, class X>
  void apply(const Space& space, const std::tuple<First, Second>& y, const X& x) const {
    operation.apply(space, std::get<0>(y), std::get<1>(y), x, mesh);
  }
  /// The tangent: the operation itself.
  template <class Space, class TY, class TX, class X>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const X&) const {
    operation.pushforward(space, ty, tx, mesh);
  }
  /// The tangents of both results.
  template <class Space, class First, class Second, class TX, class X>
  void pushforward(const Space& space, const std::tuple<First, Second>& ty, const TX& tx,
                   const X&) const {
    operation.pushforward(space, std::get<0>(ty), std::get<1>(ty), tx, mesh);
  }
  /// dx = the operation's pullback of dy
  template <class Space, class DX, class DY, class X>
  void pullback(const Space& space, const DX& dx, const DY& dy, const X&) const {
    if constexpr (is_wanted_v<DX>) operation.pullback(space, dx, dy, mesh);
  }
  /// dx from the cotangents of both results.
  template <class Space, class DX, class First, class Second, class X>
  void pullback(const Space& space, const DX& dx, const std::tuple<First, Second>& dy,
                const X&) const {
    if constexpr (is_wanted_v<DX>)
      operation.pullback(space, dx, std::get<0>(dy), std::get<1>(dy), mesh);
  }
};

/// `on_mesh(AllReduce<Lat>{0.25}, mesh)`: an operation for a tape.
template <class Operation, class... Axes>
OnMesh<Operation, Mesh<Axes...>> on_mesh(const Operation& operation, const Mesh<Axes...>& mesh) {
  return {operation, mesh};
}

/// An operation whose pullback is `pullback_replicated`: replicas are one variable that all ranks
/// share. Made by `counts_once`.
template <class Operation>
struct CountsOnce : Operation {
  /// d_from = pullback_replicated of d_to
  template <class Space, class DFrom, class DTo, class... MeshAxes>
  void pullback(const Space& space, const DFrom& d_from, const DTo& d_to,
                const Mesh<MeshAxes...>& mesh) const {
    Operation::pullback_replicated(space, d_from, d_to, mesh);
  }
};

/// `on_mesh(counts_once(AllReduce<Lat>{}), mesh)`: for a loss that all ranks compute.
template <class Operation>
CountsOnce<Operation> counts_once(const Operation& operation) {
  return {operation};
}

}  // namespace shard

#endif
