// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COLLECTIVES_COLLECTIVES_HPP
#define SHARD_COLLECTIVES_COLLECTIVES_HPP

#include <type_traits>

#include "shard/collectives/impl/axis_operation.hpp"
#include "shard/view/partial.hpp"

/// \file
/// Collectives on plain Kokkos::Views over one axis of a mesh, for local shards (manual mode) and
/// for arrays that aren't fields.
///
/// Each is an operation with `apply`, `pushforward` and `pullback`, and a function of the same
/// name: `all_gather<Lat>(space, to, from, mesh, 1)` is
/// `AllGather<Lat>{1}.apply(space, to, from, mesh)`. The Views have the same rank, 1 to 6, and
/// value type, and any layout, contiguous or not. Both may be the same View if the extents allow.
/// Dimensions count from 0, or from -1 for the last.
///
/// All are collective over the ranks along `Axis`, and blocking. The ranks compare their arguments
/// before anything moves: every rank throws AgreementError if they differ, and ArgumentError, with
/// the numbers, if they are invalid. The axis keeps the plans of calls by extents and types; the
/// arguments of a known call are compared under SHARD_CHECK=1 only. Sums run in the order of the
/// ranks along the axis, so they are bitwise the same on every rank and from run to run.
///
/// The pullbacks are the transposes in the inner product that sums over all ranks: each rank's View
/// is a separate variable. `pullback(space, dx, dy, mesh)` overwrites dx.

namespace shard {

namespace impl {

template <class Op>
constexpr void require_sum() {
  static_assert(std::is_same_v<Op, Sum>, "only the sum has a tangent and a pullback here");
}

}  // namespace impl

/// y = scale * (x of rank 0 + x of rank 1 + ...) on every rank; with Max or Min the extreme in
/// place of the sum. The extents of all Views are equal. A scale other than 1 needs floating-point
/// or complex values. The transpose is the operation itself; where the result counts once it is
/// local: d_from = scale * d_to.
template <class Axis, class Op = Sum>
struct AllReduce : impl::AxisOperation<AllReduce<Axis, Op>, Axis> {
  double scale = 1;  ///< the same on every rank

  /// Local.
  explicit AllReduce(double factor = 1) : scale(factor) {}
  /// Changes x's extents to y's.
  template <class... MeshAxes>
  void output_extents(index_t*, int, const Mesh<MeshAxes...>&) const {}

 private:
  friend impl::AxisOperation<AllReduce, Axis>;
  static constexpr const char* names[] = {"all_reduce", "all_reduce's pullback",
                                          "all_reduce's replicated pullback"};
  static constexpr bool may_count_once = true;
  static constexpr void require_linear() { impl::require_sum<Op>(); }
  template <class To, class Space>
  void forward(const Space& space, const impl::CollectiveCall& call) const {
    impl::Collectives<Space>::all_reduce(space, call.reducing<Op, To>(scale));
  }
  template <class To, class Space>
  void backward(const Space& space, const impl::CollectiveCall& call) const {
    forward<To>(space, call);
  }
  template <class To, class Space>
  void backward_replicated(const Space& space, const impl::CollectiveCall& call) const {
    impl::Collectives<Space>::scaled_copy(space, call.reducing<Op, To>(scale));
  }
};

/// y is the concatenation of all ranks' x along a dimension: its extent is x's times the number of
/// ranks. The transpose is ReduceScatter.
template <class Axis>
struct AllGather : impl::AxisOperation<AllGather<Axis>, Axis> {
  int dim = 0;  ///< the dimension of the concatenation

  /// Local.
  explicit AllGather(int d = 0) : dim(d) {}
  /// Changes x's extents to y's.
  template <class... MeshAxes>
  void output_extents(index_t* n, int rank, const Mesh<MeshAxes...>& mesh) const {
    impl::share_extent(n, rank, dim, true, mesh.template size<Axis>());
  }

 private:
  friend impl::AxisOperation<AllGather, Axis>;
  static constexpr const char* names[] = {"all_gather", "all_gather's pullback"};
  template <class To, class Space>
  void forward(const Space& space, const impl::CollectiveCall& call) const {
    impl::Collectives<Space>::all_gather(space, call.along(dim));
  }
  template <class To, class Space>
  void backward(const Space& space, const impl::CollectiveCall& call) const {
    impl::Collectives<Space>::reduce_scatter(space, call.along(dim).reducing<Sum, To>(1));
  }
};

/// y is this rank's shard, along a dimension, of scale * the reduction of all ranks' x: its extent
/// is x's divided by the number of ranks. The transpose is AllGather, times scale.
template <class Axis, class Op = Sum>
struct ReduceScatter : impl::AxisOperation<ReduceScatter<Axis, Op>, Axis> {
  int dim      = 0;  ///< the dimension that is sharded
  double scale = 1;  ///< the same on every rank

  /// Local.
  explicit ReduceScatter(int d = 0, double factor = 1) : dim(d), scale(factor) {}
  /// Changes x's extents to y's.
  template <class... MeshAxes>
  void output_extents(index_t* n, int rank, const Mesh<MeshAxes...>& mesh) const {
    impl::share_extent(n, rank, dim, false, mesh.template size<Axis>());
  }

 private:
  friend impl::AxisOperation<ReduceScatter, Axis>;
  static constexpr const char* names[] = {"reduce_scatter", "reduce_scatter's pullback"};
  static constexpr void require_linear() { impl::require_sum<Op>(); }
  template <class To, class Space>
  void forward(const Space& space, const impl::CollectiveCall& call) const {
    impl::Collectives<Space>::reduce_scatter(space, call.along(dim).reducing<Op, To>(scale));
  }
  template <class To, class Space>
  void backward(const Space& space, const impl::CollectiveCall& call) const {
    impl::Collectives<Space>::all_gather(space, call.along(dim).reducing<Op, To>(scale));
  }
};

/// Splits x along one dimension into one piece per rank, sends piece r to rank r, and concatenates
/// the received pieces along another (or the same) dimension in rank order. The transpose is the
/// same with the dimensions exchanged.
template <class Axis>
struct AllToAll : impl::AxisOperation<AllToAll<Axis>, Axis> {
  int split_dim  = 0;  ///< y's extent is x's divided by the number of ranks
  int concat_dim = 0;  ///< y's extent is x's times the number of ranks

  /// Local.
  explicit AllToAll(int split = 0, int concat = 0) : split_dim(split), concat_dim(concat) {}
  /// Changes x's extents to y's.
  template <class... MeshAxes>
  void output_extents(index_t* n, int rank, const Mesh<MeshAxes...>& mesh) const {
    impl::share_extent(n, rank, split_dim, false, mesh.template size<Axis>());
    impl::share_extent(n, rank, concat_dim, true, mesh.template size<Axis>());
  }

 private:
  friend impl::AxisOperation<AllToAll, Axis>;
  static constexpr const char* names[] = {"all_to_all", "all_to_all's pullback"};
  template <class To, class Space>
  void forward(const Space& space, const impl::CollectiveCall& call) const {
    impl::Collectives<Space>::all_to_all(space, call.along(split_dim, concat_dim));
  }
  template <class To, class Space>
  void backward(const Space& space, const impl::CollectiveCall& call) const {
    impl::Collectives<Space>::all_to_all(space, call.along(concat_dim, split_dim));
  }
};

/// y = the x of one rank, on every rank. All Views have the same extents; the values of x are used
/// on that rank only. The transpose is the sum at that rank, zero on the others.
template <class Axis>
struct Broadcast : impl::AxisOperation<Broadcast<Axis>, Axis> {
  int root = 0;  ///< a coordinate along the axis

  /// Local.
  explicit Broadcast(int coordinate = 0) : root(coordinate) {}
  /// Changes x's extents to y's.
  template <class... MeshAxes>
  void output_extents(index_t*, int, const Mesh<MeshAxes...>&) const {}

 private:
  friend impl::AxisOperation<Broadcast, Axis>;
  static constexpr const char* names[] = {"broadcast", "broadcast's pullback"};
  template <class To, class Space>
  void forward(const Space& space, impl::CollectiveCall call) const {
    call.root = root;
    impl::Collectives<Space>::broadcast(space, call);
  }
  template <class To, class Space>
  void backward(const Space& space, impl::CollectiveCall call) const {
    auto reduced = call.reducing<Sum, To>(1);
    reduced.root = root;
    impl::Collectives<Space>::reduce(space, reduced);
  }
};

/// AllReduce as a function: `all_reduce<Lat>(space, to, from, mesh, 0.25)`, `all_reduce<Lat, Max>`.
template <class Axis, class Op = Sum, class Space, class To, class From, class... MeshAxes>
void all_reduce(const Space& space, const To& to, const From& from, const Mesh<MeshAxes...>& mesh,
                double scale = 1) {
  AllReduce<Axis, Op>{scale}.apply(space, to, from, mesh);
}

/// AllGather as a function: `all_gather<Lat>(space, to, from, mesh, 1)`.
template <class Axis, class Space, class To, class From, class... MeshAxes>
void all_gather(const Space& space, const To& to, const From& from, const Mesh<MeshAxes...>& mesh,
                int dim) {
  AllGather<Axis>{dim}.apply(space, to, from, mesh);
}

/// ReduceScatter as a function: `reduce_scatter<Lat>(space, to, from, mesh, 0, 0.25)`.
template <class Axis, class Op = Sum, class Space, class To, class From, class... MeshAxes>
void reduce_scatter(const Space& space, const To& to, const From& from,
                    const Mesh<MeshAxes...>& mesh, int dim, double scale = 1) {
  ReduceScatter<Axis, Op>{dim, scale}.apply(space, to, from, mesh);
}

/// AllToAll as a function: `all_to_all<Lat>(space, to, from, mesh, split_dim, concat_dim)`.
template <class Axis, class Space, class To, class From, class... MeshAxes>
void all_to_all(const Space& space, const To& to, const From& from, const Mesh<MeshAxes...>& mesh,
                int split_dim, int concat_dim) {
  AllToAll<Axis>{split_dim, concat_dim}.apply(space, to, from, mesh);
}

/// Broadcast as a function: `broadcast<Lat>(space, to, from, mesh, root)`.
template <class Axis, class Space, class To, class From, class... MeshAxes>
void broadcast(const Space& space, const To& to, const From& from, const Mesh<MeshAxes...>& mesh,
               int root = 0) {
  Broadcast<Axis>{root}.apply(space, to, from, mesh);
}

}  // namespace shard

#endif
