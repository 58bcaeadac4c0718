// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_AUTODIFF_HALO_EXCHANGE_HPP
#define SHARD_AUTODIFF_HALO_EXCHANGE_HPP

#include <Kokkos_Core.hpp>

#include <type_traits>
#include <vector>

#include "shard/autodiff/operation.hpp"
#include "shard/exchange/exchange_tangent.hpp"
#include "shard/view/copy.hpp"

namespace shard {

namespace impl {

/// A field's type with other ShardDims: those of the exchange replace the field's own.
template <class Field, class... Dims>
struct WithHalos;
template <class T, class Layout, class... Options, class... Dims>
struct WithHalos<ShardedView<T, Layout, Options...>, Dims...> {
  static constexpr bool replaced(int dim) { return ((Dims::dim == dim) || ...); }

  template <class List, class... Rest>
  struct Keep {
    using type = List;
  };
  template <class... Kept, class First, class... Rest>
  struct Keep<AxisList<Kept...>, First, Rest...>
      : std::conditional_t<replaced(dim_of<First>()), Keep<AxisList<Kept...>, Rest...>,
                           Keep<AxisList<Kept..., First>, Rest...>> {};
  template <class List>
  struct Make;
  template <class... Kept>
  struct Make<AxisList<Kept...>> {
    using type = ShardedView<T, Layout, Dims..., Kept...>;
  };
  using type = typename Make<typename Keep<AxisList<>, Options...>::type>::type;
};

/// Whether a field is sharded over the ShardDims' axes.
template <class Field, class... Dims>
inline constexpr bool is_cut_like_v =
    (std::is_same_v<typename Field::template axis<Dims::dim>, typename Dims::axis> && ...);

}  // namespace impl

/// The halo exchange as an operation: y has x's owned points and filled halos as given by the
/// ShardDims. Its pullback is exchange_adjoint. Works in a chain, in `sequential` and on a tape; x
/// may be a std::vector of fields, which travel together.
///
///   shard::HaloExchange<shard::ShardDim<2, Lat, shard::Halo<1>, shard::Reflect>> halo;
///   auto y = tape.run(halo, x);
template <class... Dims>
struct HaloExchange {
  static_assert((impl::is_shard_dim_v<Dims> && ...) && sizeof...(Dims) >= 1,
                "a HaloExchange names the ShardDims that get a halo");

  /// The ShardDim of dimension `Dim` (Unsharded, without halo, if none was given).
  template <int Dim>
  using shard_dim = typename impl::ShardDimOf<Dim, Dims...>::type;
  /// Its halo.
  template <int Dim>
  using halo = typename shard_dim<Dim>::halo;
  /// The mesh axis that shards it.
  template <int Dim>
  using axis = typename shard_dim<Dim>::axis;
  /// The boundary.
  template <int Dim>
  using boundary = typename shard_dim<Dim>::boundary;
  /// The output type for a field or a set.
  template <FieldOrSet X>
  using output_t =
      std::conditional_t<FieldSet<X>,
                         std::vector<typename impl::WithHalos<impl::FieldOf<X>, Dims...>::type>,
                         typename impl::WithHalos<impl::FieldOf<X>, Dims...>::type>;

  /// A y for this x: a new field on x's mesh, with x's partitions, in shared memory if x is and
  /// there is space. Local.
  template <FieldOrSet X>
  output_t<X> output(const X& x) const {
    require<impl::FieldOf<X>>();
    if constexpr (FieldSet<X>) {
      output_t<X> fields;
      impl::each_field([&](const auto& field) { fields.push_back(output(field)); }, x);
      return fields;
    } else {
      return impl::FieldAccess::allocate_like<output_t<X>>(x, x.geometry().label);
    }
  }

  /// y = x on owned points, and y's halo is filled. y may be x. Waits for the neighbours.
  template <class Space, FieldOrSet Y, FieldOrSet X>
  void apply(const Space& space, const Y& y, const X& x) const {
    require<impl::FieldOf<X>>();
    copy_owned(space, y, x);
    shard::exchange(space, y);  // not std::exchange, which vectors bring in
  }
  /// The same for tangents; constants outside the domain have the tangent 0.
  template <class Space, FieldOrSet TY, FieldOrSet TX>
  void pushforward(const Space& space, const TY& ty, const TX& tx) const {
    copy_owned(space, ty, tx);
    exchange_tangent(space, ty);
  }
  /// dx = dy's owned points plus its halo values, added to their owners; then zeroes dy's halo.
  template <class Space, FieldOrSet DX, FieldOrSet DY>
  void pullback(const Space& space, const DX& dx, const DY& dy) const {
    exchange_adjoint(space, dy);
    copy_owned(space, dx, dy);
  }

 private:
  template <class Space, class To, class From>
  static void copy_owned(const Space& space, const To& to, const From& from) {
    impl::for_parts(
        [&](const auto& a, const auto& b) {
          if (a.origin() != b.origin()) impl::copy_views(space, a.owned(), b.owned());
        },
        to, from);
  }
  template <class X>
  static constexpr void require() {
    static_assert(impl::is_cut_like_v<X, Dims...>,
                  "a HaloExchange's ShardDims are sharded over the axes that shard the field");
  }
};

}  // namespace shard

#endif
