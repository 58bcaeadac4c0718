// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_AUTODIFF_LINEAR_OPERATIONS_HPP
#define SHARD_AUTODIFF_LINEAR_OPERATIONS_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/autodiff/operation.hpp"
#include "shard/base/error.hpp"
#include "shard/exchange/stale.hpp"
#include "shard/reduce/reductions.hpp"
#include "shard/view/region.hpp"

/// \file
/// Operations that put values together: sums, and the parts of tuples and sets. For tapes, chains
/// and graphs. (A tape knows the parts of its values, so there std::get and std::tuple do the same
/// as Part and Join, without a copy.)

namespace shard {

namespace impl {

/// y = a x + b z.
template <class Y, class X, class Z>
struct AxpbyKernel {
  Y y;
  X x;
  Z z;
  double a, b;
  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    using T = typename Y::non_const_value_type;
    y(i...) = static_cast<T>(a) * x(i...) + static_cast<T>(b) * z(i...);
  }
};
/// y = a x.
template <class Y, class X>
struct ScaleKernel {
  Y y;
  X x;
  double a;
  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    y(i...) = static_cast<typename Y::non_const_value_type>(a) * x(i...);
  }
};

template <class A, class B>
void require_like(const char* function, const A& a, const B& b) {
  if constexpr (is_sharded_view_v<A>) {
    check_alike(function, a, b);
  } else {
    if (a.span() != b.span())
      throw_argument(function, {"Views of ", text(static_cast<index_t>(a.span())), " and ",
                                text(static_cast<index_t>(b.span())),
                                " values; both must have the same extents"});
  }
}

/// y = a x on the owned points of fields, on all values of Views.
template <class Space, class Y, class X>
void set_scaled(const Space& space, const Y& y, double a, const X& x) {
  for_parts(
      [&]<class P, class Q>(const P& to, const Q& from) {
        if constexpr (is_sharded_view_v<P>) {
          parallel_for("shard::scale", space, owned_region(to), ScaleKernel<P, Q>{to, from, a});
        } else {
          zero_value(space, to);
          add_value(space, to, from, a);
        }
      },
      y, x);
}

/// Part I of a tuple or a set. Throws ArgumentError if the set has fewer fields.
template <std::size_t I, class V>
const auto& part_at(const V& v) {
  if constexpr (is_tuple_v<V>) {
    return std::get<I>(v);
  } else {
    static_assert(FieldSet<V>, "the value has parts if it is a std::tuple or a std::vector");
    if (I >= static_cast<std::size_t>(v.size()))
      throw_argument("Part", {"field ", text(static_cast<index_t>(I)), " of a set of ",
                              text(static_cast<index_t>(v.size())), " fields"});
    return v.data()[I];
  }
}

/// y = (x...), a tuple or a set.
template <bool IsSet>
struct Joined {
  static constexpr bool takes_not_wanted = true;  ///< each dx may be not_wanted

  /// A new y. Local.
  template <class First, class... More>
  auto output(const First& first, const More&... more) const {
    if constexpr (IsSet) {
      static_assert((std::is_same_v<First, More> && ...), "the fields of a set have one type");
      return std::vector<First>{like_value(first, "shard::output"),
                                like_value(more, "shard::output")...};
    } else {
      return std::tuple<First, More...>(like_value(first, "shard::output"),
                                        like_value(more, "shard::output")...);
    }
  }
  /// Copies each x to its part of y, halos too.
  template <class Space, class Y, class... X>
  void apply(const Space& space, const Y& y, const X&... x) const {
    const auto from = std::tie(x...);
    each(std::index_sequence_for<X...>{},
         [&]<std::size_t I>(Number<I>) { copy_value(space, part_at<I>(y), std::get<I>(from)); });
  }
  /// ty from (tx..., x...). A part without a tangent is 0.
  template <class Space, class TY, class... TXAndX>
  void pushforward(const Space& space, const TY& ty, const TXAndX&... tx_and_x) const {
    const auto t = std::tie(tx_and_x...);
    each(std::make_index_sequence<sizeof...(TXAndX) / 2>{}, [&]<std::size_t I>(Number<I>) {
      if constexpr (is_wanted_v<decltype(std::get<I>(t))>)
        copy_value(space, part_at<I>(ty), std::get<I>(t));
      else
        zero_value(space, part_at<I>(ty));
    });
  }
  /// dx... from (dx..., dy, x...).
  template <class Space, class... DXAndDYAndX>
  void pullback(const Space& space, const DXAndDYAndX&... all) const {
    constexpr std::size_t count = sizeof...(DXAndDYAndX) / 2;
    const auto d                = std::tie(all...);
    each(std::make_index_sequence<count>{}, [&]<std::size_t I>(Number<I>) {
      if constexpr (is_wanted_v<decltype(std::get<I>(d))>)
        copy_value(space, std::get<I>(d), part_at<I>(std::get<count>(d)));
    });
  }

 private:
  template <std::size_t I>
  using Number = std::integral_constant<std::size_t, I>;
  template <std::size_t... I, class Use>
  static void each(std::index_sequence<I...>, const Use& use) {
    (use(Number<I>{}), ...);
  }
};

}  // namespace impl

/// y = a x + b z, on owned points of fields (halos are unchanged), on all values of plain Views; x
/// and z may be tuples or sets. Local. Throws ArgumentError if x and z differ in extents or
/// partitions.
///
///   auto y = tape.run(shard::Axpby{0.5, 2.0}, x, z);
struct Axpby {
  static constexpr bool takes_not_wanted = true;  ///< dx and dz may be not_wanted
  static constexpr int inputs            = 2;     ///< x and z
  double a                               = 1.0;   ///< factor of x
  double b                               = 1.0;   ///< factor of z
  /// Whether the adjoint of an input is that of y, so that a model needn't compute it.
  constexpr bool passes(std::size_t input) const { return (input == 0 ? a : b) == 1.0; }

  /// y = a x + b z
  template <class Space, class Y, class X, class Z>
  void apply(const Space& space, const Y& y, const X& x, const Z& z) const {
    impl::for_parts(
        [&]<class P, class Q, class R>(const P& to, const Q& p, const R& q) {
          impl::require_like("Axpby", p, q);
          if constexpr (is_sharded_view_v<P>) {
            parallel_for("shard::axpby", space, owned_region(to),
                         impl::AxpbyKernel<P, Q, R>{to, p, q, a, b});
            mark_written(space, to);
          } else {
            impl::zero_value(space, to);
            impl::add_value(space, to, p, a);
            impl::add_value(space, to, q, b);
          }
        },
        y, x, z);
  }
  /// ty = a tx + b tz
  template <class Space, class TY, class TX, class TZ>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const TZ& tz) const {
    if constexpr (is_wanted_v<TX> && is_wanted_v<TZ>)
      apply(space, ty, tx, tz);
    else if constexpr (is_wanted_v<TX>)
      impl::set_scaled(space, ty, a, tx);
    else if constexpr (is_wanted_v<TZ>)
      impl::set_scaled(space, ty, b, tz);
    else
      impl::zero_value(space, ty);
  }
  /// dx = a dy, dz = b dy
  template <class Space, class DX, class DZ, class DY>
  void pullback(const Space& space, const DX& dx, const DZ& dz, const DY& dy) const {
    if constexpr (is_wanted_v<DX>) impl::set_scaled(space, dx, a, dy);
    if constexpr (is_wanted_v<DZ>) impl::set_scaled(space, dz, b, dy);
  }
};

/// y = x + z, an Axpby of ones.
struct Add : Axpby {};

/// y = part I of x, a std::tuple, or a set (std::vector) of fields; a copy, halos too. Local.
/// Throws ArgumentError if the set has fewer fields.
///
///   auto u = graph.run(shard::Part<0>{}, state);
template <std::size_t I>
struct Part {
  /// A new y. Local.
  template <class X>
  auto output(const X& x) const {
    return impl::like_value(impl::part_at<I>(x), "shard::output");
  }
  /// y = part I of x
  template <class Space, class Y, class X>
  void apply(const Space& space, const Y& y, const X& x) const {
    impl::copy_value(space, y, impl::part_at<I>(x));
  }
  /// ty = part I of tx
  template <class Space, class TY, class TX>
  void pushforward(const Space& space, const TY& ty, const TX& tx) const {
    apply(space, ty, tx);
  }
  /// dx is dy in part I, and 0 in the others.
  template <class Space, class DX, class DY>
  void pullback(const Space& space, const DX& dx, const DY& dy) const {
    impl::zero_value(space, dx);
    impl::copy_value(space, impl::part_at<I>(dx), dy);
  }
};

/// y = std::tuple(x...), copies, halos too. Local.
///
///   auto state = graph.run(shard::Join{}, u, v);
struct Join : impl::Joined<false> {};
/// y = a set (std::vector) of the fields x..., which have one type; copies, halos too. Local.
struct JoinSet : impl::Joined<true> {};

}  // namespace shard

#endif
