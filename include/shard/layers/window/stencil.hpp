// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_LAYERS_WINDOW_STENCIL_HPP
#define SHARD_LAYERS_WINDOW_STENCIL_HPP

#include <Kokkos_Core.hpp>

#include <type_traits>
#include <utility>

#include "shard/exchange/determinism.hpp"
#include "shard/exchange/exchange.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/layers/impl/layer_checks.hpp"
#include "shard/layers/impl/stencil_kernel.hpp"
#include "shard/layers/window/window.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

/// The offset of a point that a stencil reads, one entry per dimension of the field:
/// `Offset<0, -1, 0>`.
template <int... Steps>
struct Offset {
  static_assert(sizeof...(Steps) >= 1 && sizeof...(Steps) <= impl::max_rank,
                "an offset has as many entries as a field has dimensions, 1 to 6");
  static constexpr int rank = static_cast<int>(sizeof...(Steps));  ///< number of entries
  /// The step along dimension `d`.
  static constexpr int step(int d) {
    constexpr int steps[] = {Steps...};
    return steps[d];
  }
};

namespace impl {

/// The steps of several offsets as a table.
template <class First, class... Rest>
struct StencilSteps {
  static constexpr int count = 1 + static_cast<int>(sizeof...(Rest)), rank = First::rank;
  static_assert(((Rest::rank == rank) && ...),
                "a stencil's offsets have the same number of entries");
  struct Table {
    int of[count][rank];
  };
  static constexpr Table table = [] {
    Table t{};
    for (int d = 0; d < rank; ++d) {
      int m        = 0;
      t.of[m++][d] = First::step(d);
      ((t.of[m++][d] = Rest::step(d)), ...);
    }
    return t;
  }();
};

}  // namespace impl

/// A linear stencil operator on plain fields, of any rank, layout and arithmetic value type:
/// `Stencil<Offset<0>, Offset<-1>, Offset<1>>{{-2.0, 1.0, 1.0}}`.
///
///   y[i] = sum over m of coefficients[m] x[i + offset m]
///
/// x's boundary defines the points outside the domain. y is another field with x's partitions and
/// layout. The sum runs over m in the given order, so y is bitwise the same on any number of ranks.
/// Coefficients are rounded to the fields' value type.
template <class... Offsets>
struct Stencil {
  static_assert(sizeof...(Offsets) >= 1, "a stencil has at least one offset");
  static constexpr int count = static_cast<int>(sizeof...(Offsets));  ///< number of offsets
  static constexpr int rank  = impl::StencilSteps<Offsets...>::rank;  ///< of the fields

  double coefficients[count];  ///< one for each offset, in their order

  /// The step of offset `m` along dimension `d`.
  static constexpr int step(int m, int d) { return steps::table.of[m][d]; }

  /// The halo that it reads in the field's dimension `d` (see required_halo_t).
  static constexpr LowHigh halo_bound(int d) {
    LowHigh reach{0, 0};
    ((reach.lo = impl::larger(reach.lo, -Offsets::step(d)),
      reach.hi = impl::larger(reach.hi, Offsets::step(d))),
     ...);
    return reach;
  }
  /// The halo of dy for an ordered pullback (see ordered_halo_t).
  static constexpr LowHigh ordered_halo_bound(int d) {
    return {halo_bound(d).hi, halo_bound(d).lo};
  }

  /// Fills x's halo, then computes y's owned points. Throws ArgumentError, on every rank before any
  /// message, where partitions differ or y is x.
  template <class Space, AnyShardedView Y, AnyShardedView X>
  void apply(const Space& space, const Y& y, const X& x) const {
    require<X>(y, x);
    exchange(space, x);
    compute(space, y, x);
  }
  /// The same for an x whose halo is up to date.
  template <class Space, AnyShardedView Y, AnyShardedView X>
  void apply_local(const Space& space, const Y& y, const X& x) const {
    require<X>(y, x);
    compute(space, y, x);
  }

  /// Sets dx = dJ/dx from dy = dJ/dy: adds dx's halo to its owners, then zeroes the halo.
  /// `pullback<Determinism::ordered>`: bitwise the same for every number of ranks, mesh and
  /// partition, and equal to on_one_mesh on one rank; dy needs a halo for it (ordered_halo_t),
  /// whose points inside the domain are filled.
  template <Determinism Order = Determinism::on_one_mesh, class Space, AnyShardedView DX,
            AnyShardedView DY>
  void pullback(const Space& space, const DX& dx, const DY& dy) const {
    if constexpr (Order == Determinism::ordered) {
      require<DX>(dy, dx);
      each_dimension([]<int D>(std::integral_constant<int, D>) {
        using Needed =
            std::conditional_t<impl::is_cut_v<DY, D>, ordered_halo_t<Stencil, D>, Halo<0>>;
        static_assert(halo_is_wide_enough<Stencil, Dim<D>, Needs<Needed>,
                                          Has<typename DY::template halo<D>>>::value,
                      "the ShardedView's halo is narrower than the ordered gradient needs");
      });
      impl::exchange_inside(space, dy);
      impl::run_stencil(space, dx, impl::edge_cells(dx), dy, impl::inner_cells(dy), steps::table.of,
                        coefficients, -1);
      impl::add_edges(space, dx);
    } else {
      pullback_local(space, dx, dy);
      exchange_adjoint(space, dx);
    }
  }
  /// The same without adding dx's halo to its owners; exchange_adjoint(dx) does that.
  template <class Space, AnyShardedView DX, AnyShardedView DY>
  void pullback_local(const Space& space, const DX& dx, const DY& dy) const {
    require<DX>(dy, dx);
    impl::run_stencil(space, dx, impl::haloed_cells(dx), dy, owned_region(dy).boxes[0],
                      steps::table.of, coefficients, -1);
  }

 private:
  static constexpr const char* name = "Stencil";
  using steps                       = impl::StencilSteps<Offsets...>;

  template <class Visit>
  static constexpr void each_dimension(const Visit& visit) {
    [&]<int... D>(std::integer_sequence<int, D...>) {
      (visit(std::integral_constant<int, D>{}), ...);
    }
    (std::make_integer_sequence<int, rank>{});
  }

  /// Checks types, then values; `X` is read outside its shard.
  template <class X, class Y>
  static void require(const Y& y, const X& x) {
    static_assert(X::rank == rank, "a stencil's offsets have one entry per dimension of the field");
    static_assert(std::is_arithmetic_v<typename X::non_const_value_type> &&
                      !std::is_same_v<typename X::non_const_value_type, bool>,
                  "a stencil multiplies and adds: it needs an arithmetic value type");
    static_assert(std::is_same_v<typename X::layout, typename Y::layout>,
                  "a stencil's fields have the same layout");
    impl::require_same_rank_and_value<Y, X>();
    each_dimension([]<int D>(std::integral_constant<int, D>) {
      // an unsharded dimension with zeros around it needs no halo
      using Needed = std::conditional_t<!impl::is_cut_v<X, D> && impl::is_zero_beyond_v<X, D>,
                                        Halo<0>, required_halo_t<Stencil, D>>;
      static_assert(halo_is_wide_enough<Stencil, Dim<D>, Needs<Needed>,
                                        Has<typename X::template halo<D>>>::value,
                    "the ShardedView's halo is narrower than the layer needs");
    });
    impl::require_same_cut(name, y.geometry(), x.geometry());
    for (int d = 0; d < rank; ++d)
      impl::require_same_partition(name, y.label(), d, y.partition(d), x.partition(d));
    if (&y.geometry() == &x.geometry())
      impl::throw_argument(
          name, {"field \"", y.label(), "\" is both read and written; a stencil needs two fields"});
  }

  template <class Space, class Y, class X>
  void compute(const Space& space, const Y& y, const X& x) const {
    impl::run_stencil(space, y, owned_region(y).boxes[0], x, impl::haloed_cells(x), steps::table.of,
                      coefficients, 1);
    mark_written(space, y);
  }
};

namespace impl {

template <int D, int Step, class Dims>
struct OffsetAlong;
template <int D, int Step, int... E>
struct OffsetAlong<D, Step, std::integer_sequence<int, E...>> {
  using type = Offset<(E == D ? Step : 0)...>;
};

/// The star along some of all dimensions.
template <class All, class Some, class... Offsets>
struct StarOf;
template <class All, class... Offsets>
struct StarOf<All, std::integer_sequence<int>, Offsets...> {
  using type = Stencil<typename OffsetAlong<0, 0, All>::type, Offsets...>;
};
template <class All, int D, int... Rest, class... Offsets>
struct StarOf<All, std::integer_sequence<int, D, Rest...>, Offsets...>
    : StarOf<All, std::integer_sequence<int, Rest...>, Offsets...,
             typename OffsetAlong<D, -1, All>::type, typename OffsetAlong<D, 1, All>::type> {
  static_assert(D >= 0 && D < static_cast<int>(All::size()), "a star's dimensions are the field's");
};

}  // namespace impl

/// A point and its two neighbours along each of the dimensions `Dims` (default: all) of fields of
/// this rank: the centre, then for each dimension the lower neighbour and the higher one. The
/// 7-point Laplacian: `StarStencil<3>{{-6, 1, 1, 1, 1, 1, 1}}`.
template <int Rank, int... Dims>
using StarStencil = typename impl::StarOf<
    std::make_integer_sequence<int, Rank>,
    std::conditional_t<sizeof...(Dims) == 0, std::make_integer_sequence<int, Rank>,
                       std::integer_sequence<int, Dims...>>>::type;

}  // namespace shard

#endif
