// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDUCE_REDUCTION_OPERATIONS_HPP
#define SHARD_REDUCE_REDUCTION_OPERATIONS_HPP

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <type_traits>

#include "shard/base/apply_count.hpp"
#include "shard/base/wanted.hpp"
#include "shard/reduce/reductions.hpp"

/// \file
/// Reductions as operations for a tape: `output(x)` makes a y; `apply(space, y, x)`,
/// `pushforward(space, ty, tx, x)`, `pullback(space, dx, dy, x)`. y, ty and dy are Views of one
/// value on the host, `Kokkos::View<double, Kokkos::HostSpace>`, with the same value on each rank,
/// accessed synchronously. Extrema and the 2-norm keep their result from apply for the other two.
/// All are collective except the pullbacks that are local in reductions.hpp; dx may be
/// `not_wanted`.

namespace shard {

namespace impl {

using OneValue = Kokkos::View<double, Kokkos::HostSpace>;

/// Whether Y can be a reduction's result.
template <class Y>
inline constexpr bool is_result_v = false;
template <class T, class... P>
inline constexpr bool is_result_v<Kokkos::View<T, P...>> =
    Kokkos::View<T, P...>::rank() == 0 &&
    Kokkos::SpaceAccessibility<Kokkos::HostSpace,
                               typename Kokkos::View<T, P...>::memory_space>::accessible;

template <class Y, class T>
void set_result(const Y& y, T value) {
  static_assert(is_result_v<Y>, "a reduction's result is a View of rank 0 on the host");
  if constexpr (is_result_v<Y>) y() = static_cast<typename Y::value_type>(value);
}
template <class DY>
double result_cotangent(const DY& dy) {
  static_assert(is_result_v<DY>, "a reduction's result is a View of rank 0 on the host");
  return static_cast<double>(dy());
}

/// rule(a) b; 0 if rule(a) is 0, also for an infinite or NaN b.
template <class Rule>
struct RuleTerm {
  Rule rule;
  template <class Sum, class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION Sum term(A a, B b) const {
    const double f = rule.at(a);
    return f == 0.0 ? Sum(0) : static_cast<Sum>(f) * static_cast<Sum>(b);
  }
  template <class A, class B>
  KOKKOS_FORCEINLINE_FUNCTION void add(index_t* sum, A a, B b) const {
    const double f = rule.at(a);
    if (f != 0.0) ExactSum::add_product(sum, f, static_cast<double>(b));
  }
};

}  // namespace impl

/// y = sum(x).
template <Determinism Order = Determinism::on_one_mesh>
struct GlobalSum {
  static constexpr bool takes_not_wanted = true;  ///< dx may be not_wanted
  /// A new y.
  template <AnyShardedView... X>
  impl::OneValue output(const X&...) const {
    return impl::OneValue("shard::output");
  }
  /// y = sum(x). Collective.
  template <class Space, class Y, AnyShardedView X>
  void apply(const Space& space, const Y& y, const X& x) const {
    impl::set_result(y, sum<Order>(space, x));
  }
  /// ty = sum(tx)
  template <class Space, class TY, AnyShardedView TX, AnyShardedView X>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const X&) const {
    apply(space, ty, tx);
  }
  /// dx = dy
  template <class Space, class DX, class DY, AnyShardedView X>
  void pullback(const Space& space, const DX& dx, const DY& dy, const X&) const {
    if constexpr (is_wanted_v<DX>) sum_pullback(space, dx, impl::result_cotangent(dy));
  }
};

/// y = mean(x).
template <Determinism Order = Determinism::on_one_mesh>
struct GlobalMean {
  static constexpr bool takes_not_wanted = true;  ///< dx may be not_wanted
  /// A new y.
  template <AnyShardedView... X>
  impl::OneValue output(const X&...) const {
    return impl::OneValue("shard::output");
  }
  /// y = mean(x). Collective.
  template <class Space, class Y, AnyShardedView X>
  void apply(const Space& space, const Y& y, const X& x) const {
    impl::set_result(y, mean<Order>(space, x));
  }
  /// ty = mean(tx)
  template <class Space, class TY, AnyShardedView TX, AnyShardedView X>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const X&) const {
    apply(space, ty, tx);
  }
  /// dx = dy / elements
  template <class Space, class DX, class DY, AnyShardedView X>
  void pullback(const Space& space, const DX& dx, const DY& dy, const X&) const {
    if constexpr (is_wanted_v<DX>) mean_pullback(space, dx, impl::result_cotangent(dy));
  }
};

/// y = weighted_mean(x, weights), of constant weights: those of rows (`along`), or a field.
template <class Weights, Determinism Order = Determinism::on_one_mesh>
struct GlobalWeightedMean {
  Weights weights;                                ///< as weighted_mean takes them
  static constexpr bool takes_not_wanted = true;  ///< dx may be not_wanted
  /// A new y.
  template <AnyShardedView... X>
  impl::OneValue output(const X&...) const {
    return impl::OneValue("shard::output");
  }
  /// y = weighted_mean(x, weights). Collective.
  template <class Space, class Y, AnyShardedView X>
  void apply(const Space& space, const Y& y, const X& x) const {
    impl::set_result(y, weighted_mean<Order>(space, x, weights));
  }
  /// ty = weighted_mean(tx, weights)
  template <class Space, class TY, AnyShardedView TX, AnyShardedView X>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const X&) const {
    apply(space, ty, tx);
  }
  /// dx = dy weights / (sum of weights)
  template <class Space, class DX, class DY, AnyShardedView X>
  void pullback(const Space& space, const DX& dx, const DY& dy, const X&) const {
    if constexpr (is_wanted_v<DX>)
      weighted_mean_pullback<Order>(space, dx, weights, impl::result_cotangent(dy));
  }
};
/// With these weights, in the default order.
template <class Weights>
GlobalWeightedMean(const Weights&) -> GlobalWeightedMean<Weights>;

/// y = dot(a, b), of two fields.
template <Determinism Order = Determinism::on_one_mesh>
struct GlobalDot {
  static constexpr bool takes_not_wanted = true;  ///< dx may be not_wanted
  /// A new y.
  template <AnyShardedView... X>
  impl::OneValue output(const X&...) const {
    return impl::OneValue("shard::output");
  }
  /// y = dot(a, b). Collective.
  template <class Space, class Y, AnyShardedView A, AnyShardedView B>
  void apply(const Space& space, const Y& y, const A& a, const B& b) const {
    impl::set_result(y, dot<Order>(space, a, b));
  }
  /// ty = dot(ta, b) + dot(a, tb)
  template <class Space, class TY, class TA, class TB, AnyShardedView A, AnyShardedView B>
  void pushforward(const Space& space, const TY& ty, const TA& ta, const TB& tb, const A& a,
                   const B& b) const {
    double tangent = 0;
    if constexpr (is_wanted_v<TA>) tangent += static_cast<double>(dot<Order>(space, ta, b));
    if constexpr (is_wanted_v<TB>) tangent += static_cast<double>(dot<Order>(space, a, tb));
    impl::set_result(ty, tangent);
  }
  /// da = dy b, db = dy a
  template <class Space, class DA, class DB, class DY, AnyShardedView A, AnyShardedView B>
  void pullback(const Space& space, const DA& da, const DB& db, const DY& dy, const A& a,
                const B& b) const {
    if constexpr (is_wanted_v<DA>) dot_pullback(space, da, b, impl::result_cotangent(dy));
    if constexpr (is_wanted_v<DB>) dot_pullback(space, db, a, impl::result_cotangent(dy));
  }
};

/// y = norm1(x), the sum of the magnitudes.
template <Determinism Order = Determinism::on_one_mesh>
struct GlobalNorm1 {
  static constexpr bool takes_not_wanted = true;  ///< dx may be not_wanted
  /// A new y.
  template <AnyShardedView... X>
  impl::OneValue output(const X&...) const {
    return impl::OneValue("shard::output");
  }
  /// y = norm1(x). Collective.
  template <class Space, class Y, AnyShardedView X>
  void apply(const Space& space, const Y& y, const X& x) const {
    impl::set_result(y, norm1<Order>(space, x));
  }
  /// ty = sum of sign(x) tx
  template <class Space, class TY, AnyShardedView TX, AnyShardedView X>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const X& x) const {
    impl::check_alike("GlobalNorm1", x, tx);
    impl::set_result(ty, impl::world_sum<Order, double>(space, x, impl::RuleTerm<impl::SignRule>{},
                                                        impl::read<X>(x), impl::read<X>(tx)));
  }
  /// dx = dy sign(x)
  template <class Space, class DX, class DY, AnyShardedView X>
  void pullback(const Space& space, const DX& dx, const DY& dy, const X& x) const {
    if constexpr (is_wanted_v<DX>) norm1_pullback(space, dx, x, impl::result_cotangent(dy));
  }
};

/// y = norm2(x), the square root of the sum of the squares.
template <Determinism Order = Determinism::on_one_mesh>
struct GlobalNorm2 {
  static constexpr bool remembers        = true;  ///< the norm
  static constexpr bool takes_not_wanted = true;  ///< dx may be not_wanted
  /// Number of applies of all copies.
  std::uint64_t applied() const { return count_.value(); }
  /// A new y.
  template <AnyShardedView... X>
  impl::OneValue output(const X&...) const {
    return impl::OneValue("shard::output");
  }
  /// y = norm2(x). Collective.
  template <class Space, class Y, AnyShardedView X>
  void apply(const Space& space, const Y& y, const X& x) const {
    count_.add();
    norm_() = norm2<Order>(space, x);
    impl::set_result(y, norm_());
  }
  /// ty = dot(x, tx) / norm; 0 where x is
  template <class Space, class TY, AnyShardedView TX, AnyShardedView X>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const X& x) const {
    const double product = dot<Order>(space, x, tx);
    impl::set_result(ty, product == 0 ? 0 : product / norm_());
  }
  /// dx = dy x / norm; 0 where x is
  template <class Space, class DX, class DY, AnyShardedView X>
  void pullback(const Space& space, const DX& dx, const DY& dy, const X& x) const {
    if constexpr (is_wanted_v<DX>)
      norm2_pullback(space, dx, x, norm_(), impl::result_cotangent(dy));
  }

 private:
  impl::OneValue norm_{"shard::norm"};
  ApplyCount count_;
};

namespace impl {

/// min, max and norm_max: the derivative is shared equally by the elements with the extremum.
template <Extremum Which>
struct GlobalExtremum {
  static constexpr bool remembers        = true;  ///< the extremum
  static constexpr bool takes_not_wanted = true;  ///< dx may be not_wanted
  /// Number of applies of all copies.
  std::uint64_t applied() const { return count_.value(); }
  /// A new y.
  template <AnyShardedView... X>
  OneValue output(const X&...) const {
    return OneValue("shard::output");
  }
  template <class Space, class Y, AnyShardedView X>
  void apply(const Space& space, const Y& y, const X& x) const {
    count_.add();
    found_() = static_cast<double>(world_extremum<Value<X>>("GlobalExtremum", space, x, Which));
    set_result(y, found_());
  }
  /// ty = the mean of tx (times sign(x), of a magnitude) over the elements with the extremum
  template <class Space, class TY, AnyShardedView TX, AnyShardedView X>
  void pushforward(const Space& space, const TY& ty, const TX& tx, const X& x) const {
    check_alike("GlobalExtremum", x, tx);
    const auto a     = read<X>(x);
    const auto value = static_cast<Value<X>>(found_());
    const CountTerm<Value<X>> count{value, magnitude};
    const RuleTerm<ExtremumRule<Value<X>>> tangent{{value, magnitude}};
    const double sum =
        world_sum<Determinism::on_one_mesh, double>(space, x, tangent, a, read<X>(tx));
    const auto cells = world_sum<Determinism::on_one_mesh, index_t>(space, x, count, a, a);
    set_result(ty, sum / static_cast<double>(cells));
  }
  /// dx = dy / n in the n elements with the extremum (times sign(x), of a magnitude), else 0
  template <class Space, class DX, class DY, AnyShardedView X>
  void pullback(const Space& space, const DX& dx, const DY& dy, const X& x) const {
    if constexpr (is_wanted_v<DX>)
      extremum_pullback("GlobalExtremum", space, dx, x, static_cast<Value<X>>(found_()), magnitude,
                        result_cotangent(dy));
  }

 private:
  static constexpr bool magnitude = Which == Extremum::greatest_magnitude;
  template <class X>
  using Value = std::conditional_t<magnitude, double, typename X::non_const_value_type>;

  OneValue found_{"shard::extremum"};
  ApplyCount count_;
};

}  // namespace impl

/// y = min(x).
struct GlobalMin : impl::GlobalExtremum<impl::Extremum::least> {};
/// y = max(x).
struct GlobalMax : impl::GlobalExtremum<impl::Extremum::greatest> {};
/// y = norm_max(x), the greatest magnitude.
struct GlobalNormMax : impl::GlobalExtremum<impl::Extremum::greatest_magnitude> {};

}  // namespace shard

#endif
