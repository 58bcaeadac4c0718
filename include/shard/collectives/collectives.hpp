// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_COLLECTIVES_COLLECTIVES_HPP
#define SHARD_COLLECTIVES_COLLECTIVES_HPP

#include <type_traits>

#include "shard/base/error.hpp"
#include "shard/collectives/impl/collectives_call.hpp"
#include "shard/view/partial.hpp"

/// \file
/// Collectives on plain Kokkos::Views over one axis of a mesh, for local shards (manual mode) and
/// for whatever a program keeps outside of fields.
///
/// Each is an operation with `apply`, `pushforward` and `pullback`, and a function of the same
/// name: `all_gather<Lat>(space, to, from, mesh, 1)` is `AllGather<Lat>{1}.apply(space, to, from,
/// mesh)`. The Views have the same rank, 1 to 6, and value type; layouts are any, contiguous or
/// not; they may be one View where extents allow. Dimensions count from 0, or from -1 for the last.
///
/// All are collective over the ranks that differ along `Axis` alone, and complete on return. The
/// ranks compare their arguments before anything moves: AgreementError on every rank if they
/// differ, ArgumentError on every rank, with the numbers, for what can't be done. The axis keeps
/// the plans of calls that it knows, by extents and types; of these the ranks compare arguments
/// under SHARD_CHECK=1 alone. Sums are made in the order of the ranks along the axis, so that each
/// rank has the same bits, from run to run.
///
/// The pullbacks are the transposes in the inner product that sums over all ranks: each rank's View
/// is a variable of its own. `pullback(space, dx, dy, mesh)` overwrites dx.

namespace shard {

namespace impl {

template <class Op>
constexpr void require_sum() {
  static_assert(std::is_same_v<Op, Sum>, "only the sum has a tangent and a transpose here");
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
  /// The transpose where what follows is the same on every rank and counts once (a loss that all
  /// ranks compute): d_from = scale * d_to. Local.
  template <class Space, class DFrom, class DTo, class... MeshAxes>
  void pullback_replicated(const Space& space, const DFrom& d_from, const DTo& d_to,
                           const Mesh<MeshAxes...>& mesh) const {
    impl::require_sum<Op>();
    impl::Collectives<Space>::scaled_copy(
        space, impl::reduction_call<Axis, Op>("all_reduce's replicated pullback", space, d_from,
                                              d_to, mesh, scale));
  }
};

/// y holds the x of all ranks, one after the other along a dimension: its extent is x's times the
/// number of ranks. The transpose is ReduceScatter.
template <class Axis>
struct AllGather {
  int dim = 0;  ///< the dimension along which shards are put together

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
  int dim      = 0;  ///< the dimension that is cut
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
  /// d_from = scale * all ranks' d_to, one after the other
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

/// x is cut along one dimension into as many pieces as there are ranks, piece r goes to rank r, and
/// what arrives is put together along another (or the same) dimension in the order of the ranks.
/// The transpose is the same with the dimensions exchanged.
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
  /// to = the pieces of all ranks' from that are this rank's
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
  /// d_from = the pieces of d_to, back where they came from
  template <class Space, class DFrom, class DTo, class... MeshAxes>
  void pullback(const Space& space, const DFrom& d_from, const DTo& d_to,
                const Mesh<MeshAxes...>& mesh) const {
    auto call = impl::collective_call<Axis>("all_to_all's pullback", space, d_from, d_to, mesh);
    call.dim  = concat_dim;
    call.concat_dim = split_dim;
    impl::Collectives<Space>::all_to_all(space, call);
  }
};

/// y = the x of one rank, on every rank. All Views have the same extents; the values of x matter on
/// that rank alone. The transpose is the sum at that rank.
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
