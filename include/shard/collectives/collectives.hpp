// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COLLECTIVES_COLLECTIVES_HPP
#define SHARD_COLLECTIVES_COLLECTIVES_HPP

#include <type_traits>

#include "shard/base/error.hpp"
#include "shard/collectives/impl/collectives_call.hpp"
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

/// A call that reduces, and the scale of the result.
template <class Axis, class Op, class Space, class To, class From, class... MeshAxes>
CollectiveCall reduction_call(const char* function, const Space& space, const To& to,
                              const From& from, const Mesh<MeshAxes...>& mesh, double scale = 1) {
  auto call  = collective_call<Axis>(function, space, to, from, mesh);
  call.op    = reduction_kind<Op, typename To::value_type>();
  call.scale = scale;
  return call;
}

}  // namespace impl

/// y = scale * (x of rank 0 + x of rank 1 + ...) on every rank; with Max or Min the extreme in
/// place of the sum. The extents of all Views are equal. A scale other than 1 needs floating-point
/// or complex values.
template <class Axis, class Op = Sum>
struct AllReduce {
  double scale = 1;  ///< the same on every rank

  /// Changes x's extents to y's.
  template <class... MeshAxes>
  void output_extents(index_t*, int, const Mesh<MeshAxes...>&) const {}
  /// to = scale * reduction of from
  template <class Space, class To, class From, class... MeshAxes>
  void apply(const Space& space, const To& to, const From& from,
             const Mesh<MeshAxes...>& mesh) const {
    impl::Collectives<Space>::all_reduce(
        space, impl::reduction_call<Axis, Op>("all_reduce", space, to, from, mesh, scale));
  }
  /// The tangent: the operation itself.
  template <class Space, class To, class From, class... MeshAxes>
  void pushforward(const Space& space, const To& d_to, const From& d_from,
                   const Mesh<MeshAxes...>& mesh) const {
    impl::require_sum<Op>();
    apply(space, d_to, d_from, mesh);
  }
  /// The transpose: the operation itself.
  template <class Space, class DFrom, class DTo, class... MeshAxes>
  void pullback(const Space& space, const DFrom& d_from, const DTo& d_to,
                const Mesh<MeshAxes...>& mesh) const {
    impl::require_sum<Op>();
    impl::Collectives<Space>::all_reduce(
        space,
        impl::reduction_call<Axis, Op>("all_reduce's pullback", space, d_from, d_to, mesh, scale));
  }
  /// The transpose if all ranks compute the same from the result and it counts once (a loss):
  /// d_from = scale * d_to. Local.
  template <class Space, class DFrom, class DTo, class... MeshAxes>
  void pullback_replicated(const Space& space, const DFrom& d_from, const DTo& d_to,
                           const Mesh<MeshAxes...>& mesh) const {
    impl::require_sum<Op>();
    impl::Collectives<Space>::scaled_copy(
        space, impl::reduction_call<Axis, Op>("all_reduce's replicated pullback", space, d_from,
                                              d_to, mesh, scale));
  }
};

/// y is the concatenation of all ranks' x along a dimension: its extent is x's times the number of
/// ranks. The transpose is ReduceScatter.
template <class Axis>
struct AllGather {
  int dim = 0;  ///< the dimension of the concatenation

  /// Changes x's extents to y's.
  template <class... MeshAxes>
  void output_extents(index_t* n, int rank, const Mesh<MeshAxes...>& mesh) const {
    impl::share_extent(n, rank, dim, true, mesh.template size<Axis>());
  }
  /// to = all ranks' from
  template <class Space, class To, class From, class... MeshAxes>
  void apply(const Space& space, const To& to, const From& from,
             const Mesh<MeshAxes...>& mesh) const {
    auto call = impl::collective_call<Axis>("all_gather", space, to, from, mesh);
    call.dim  = dim;
    impl::Collectives<Space>::all_gather(space, call);
  }
  /// The tangent: the operation itself.
  template <class Space, class To, class From, class... MeshAxes>
  void pushforward(const Space& space, const To& d_to, const From& d_from,
                   const Mesh<MeshAxes...>& mesh) const {
    apply(space, d_to, d_from, mesh);
  }
  /// d_from = this rank's shard of the sum of all ranks' d_to
  template <class Space, class DFrom, class DTo, class... MeshAxes>
  void pullback(const Space& space, const DFrom& d_from, const DTo& d_to,
                const Mesh<MeshAxes...>& mesh) const {
    auto call = impl::reduction_call<Axis, Sum>("all_gather's pullback", space, d_from, d_to, mesh);
    call.dim  = dim;
    impl::Collectives<Space>::reduce_scatter(space, call);
  }
};

/// y is this rank's shard, along a dimension, of scale * the reduction of all ranks' x: its extent
/// is x's divided by the number of ranks. The transpose is AllGather, times scale.
template <class Axis, class Op = Sum>
struct ReduceScatter {
  int dim      = 0;  ///< the dimension that is sharded
  double scale = 1;  ///< the same on every rank

  /// Changes x's extents to y's.
  template <class... MeshAxes>
  void output_extents(index_t* n, int rank, const Mesh<MeshAxes...>& mesh) const {
    impl::share_extent(n, rank, dim, false, mesh.template size<Axis>());
  }
  /// to = scale * this rank's shard of the reduction of from
  template <class Space, class To, class From, class... MeshAxes>
  void apply(const Space& space, const To& to, const From& from,
             const Mesh<MeshAxes...>& mesh) const {
    auto call = impl::reduction_call<Axis, Op>("reduce_scatter", space, to, from, mesh, scale);
    call.dim  = dim;
    impl::Collectives<Space>::reduce_scatter(space, call);
  }
  /// The tangent: the operation itself.
  template <class Space, class To, class From, class... MeshAxes>
  void pushforward(const Space& space, const To& d_to, const From& d_from,
                   const Mesh<MeshAxes...>& mesh) const {
    impl::require_sum<Op>();
    apply(space, d_to, d_from, mesh);
  }
  /// d_from = scale * the concatenation of all ranks' d_to
  template <class Space, class DFrom, class DTo, class... MeshAxes>
  void pullback(const Space& space, const DFrom& d_from, const DTo& d_to,
                const Mesh<MeshAxes...>& mesh) const {
    impl::require_sum<Op>();
    auto call = impl::reduction_call<Axis, Op>("reduce_scatter's pullback", space, d_from, d_to,
                                               mesh, scale);
    call.dim  = dim;
    impl::Collectives<Space>::all_gather(space, call);
  }
};

/// Splits x along one dimension into one piece per rank, sends piece r to rank r, and concatenates
/// the received pieces along another (or the same) dimension in rank order. The transpose is the
/// same with the dimensions exchanged.
template <class Axis>
struct AllToAll {
  int split_dim  = 0;  ///< y's extent is x's divided by the number of ranks
  int concat_dim = 0;  ///< y's extent is x's times the number of ranks

  /// Changes x's extents to y's.
  template <class... MeshAxes>
  void output_extents(index_t* n, int rank, const Mesh<MeshAxes...>& mesh) const {
    impl::share_extent(n, rank, split_dim, false, mesh.template size<Axis>());
    impl::share_extent(n, rank, concat_dim, true, mesh.template size<Axis>());
  }
  /// to = the concatenation of this rank's pieces of all ranks' from
  template <class Space, class To, class From, class... MeshAxes>
  void apply(const Space& space, const To& to, const From& from,
             const Mesh<MeshAxes...>& mesh) const {
    auto call       = impl::collective_call<Axis>("all_to_all", space, to, from, mesh);
    call.dim        = split_dim;
    call.concat_dim = concat_dim;
    impl::Collectives<Space>::all_to_all(space, call);
  }
  /// The tangent: the operation itself.
  template <class Space, class To, class From, class... MeshAxes>
  void pushforward(const Space& space, const To& d_to, const From& d_from,
                   const Mesh<MeshAxes...>& mesh) const {
    apply(space, d_to, d_from, mesh);
  }
  /// d_from = the pieces of d_to, sent back
  template <class Space, class DFrom, class DTo, class... MeshAxes>
  void pullback(const Space& space, const DFrom& d_from, const DTo& d_to,
                const Mesh<MeshAxes...>& mesh) const {
    auto call = impl::collective_call<Axis>("all_to_all's pullback", space, d_from, d_to, mesh);
    call.dim  = concat_dim;
    call.concat_dim = split_dim;
    impl::Collectives<Space>::all_to_all(space, call);
  }
};

/// y = the x of one rank, on every rank. All Views have the same extents; the values of x are used
/// on that rank only. The transpose is the sum at that rank.
template <class Axis>
struct Broadcast {
  int root = 0;  ///< a coordinate along the axis

  /// Changes x's extents to y's.
  template <class... MeshAxes>
  void output_extents(index_t*, int, const Mesh<MeshAxes...>&) const {}
  /// to = the root's from
  template <class Space, class To, class From, class... MeshAxes>
  void apply(const Space& space, const To& to, const From& from,
             const Mesh<MeshAxes...>& mesh) const {
    auto call = impl::collective_call<Axis>("broadcast", space, to, from, mesh);
    call.root = root;
    impl::Collectives<Space>::broadcast(space, call);
  }
  /// The tangent: the operation itself.
  template <class Space, class To, class From, class... MeshAxes>
  void pushforward(const Space& space, const To& d_to, const From& d_from,
                   const Mesh<MeshAxes...>& mesh) const {
    apply(space, d_to, d_from, mesh);
  }
  /// d_from = the sum of all ranks' d_to on the root, zero on the others
  template <class Space, class DFrom, class DTo, class... MeshAxes>
  void pullback(const Space& space, const DFrom& d_from, const DTo& d_to,
                const Mesh<MeshAxes...>& mesh) const {
    auto call = impl::reduction_call<Axis, Sum>("broadcast's pullback", space, d_from, d_to, mesh);
    call.root = root;
    impl::Collectives<Space>::reduce(space, call);
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
