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

/// What the reductions have in common. `Op` has `value(space, x...)`, collective, `tangent(space,
/// tx..., x...)` unless it is linear, and `gradient(space, dx, x, g)`, which sets dx for g = dJ/dy.
template <class Op>
struct ToOneValue {
  static constexpr bool takes_not_wanted = true;  ///< dx may be not_wanted
  /// A new y. Local.
  template <AnyShardedView... X>
  OneValue output(const X&...) const {
    return OneValue("shard::output");
  }
  /// y = the value. Collective.
  template <class Space, class Y, AnyShardedView... X>
  void apply(const Space& space, const Y& y, const X&... x) const {
    set_result(y, self().value(space, x...));
  }
  /// ty = its derivative along tx.... Collective.
  template <class Space, class TY, class... TXAndX>
  void pushforward(const Space& space, const TY& ty, const TXAndX&... tx_and_x) const {
    set_result(ty, self().tangent(space, tx_and_x...));
  }
  /// dx = dy times its gradient.
  template <class Space, class DX, class DY, AnyShardedView X>
  void pullback(const Space& space, const DX& dx, const DY& dy, const X& x) const {
    if constexpr (is_wanted_v<DX>) self().gradient(space, dx, x, result_cotangent(dy));
  }

 protected:
  /// Of a linear operation.
  template <class Space, class TX, class X>
  auto tangent(const Space& space, const TX& tx, const X&) const {
    return self().value(space, tx);
  }

 private:
  const Op& self() const { return static_cast<const Op&>(*this); }
};

}  // namespace impl

/// y = sum(x); dx = dy.
template <Determinism Order = Determinism::on_one_mesh>
struct GlobalSum : impl::ToOneValue<GlobalSum<Order>> {
 private:
  friend impl::ToOneValue<GlobalSum>;
  template <class Space, class X>
  auto value(const Space& space, const X& x) const {
    return sum<Order>(space, x);
  }
  template <class Space, class DX, class X>
  void gradient(const Space& space, const DX& dx, const X&, double g) const {
    sum_pullback(space, dx, g);
  }
};

/// y = mean(x); dx = dy / elements.
template <Determinism Order = Determinism::on_one_mesh>
struct GlobalMean : impl::ToOneValue<GlobalMean<Order>> {
 private:
  friend impl::ToOneValue<GlobalMean>;
  template <class Space, class X>
  double value(const Space& space, const X& x) const {
    return mean<Order>(space, x);
  }
  template <class Space, class DX, class X>
  void gradient(const Space& space, const DX& dx, const X&, double g) const {
    mean_pullback(space, dx, g);
  }
};

/// y = weighted_mean(x, weights), of constant weights: those of rows (`along`), or a field; dx = dy
/// weights / (sum of weights), collective.
template <class Weights, Determinism Order = Determinism::on_one_mesh>
struct GlobalWeightedMean : impl::ToOneValue<GlobalWeightedMean<Weights, Order>> {
  Weights weights;  ///< as weighted_mean takes them

  /// Local.
  explicit GlobalWeightedMean(const Weights& w) : weights(w) {}

 private:
  friend impl::ToOneValue<GlobalWeightedMean>;
  template <class Space, class X>
  double value(const Space& space, const X& x) const {
    return weighted_mean<Order>(space, x, weights);
  }
  template <class Space, class DX, class X>
  void gradient(const Space& space, const DX& dx, const X&, double g) const {
    weighted_mean_pullback<Order>(space, dx, weights, g);
  }
};

/// y = variance(x, ddof); dx = 2 dy (x - mean) / (elements - ddof), collective.
template <Determinism Order = Determinism::on_one_mesh>
struct GlobalVariance : impl::ToOneValue<GlobalVariance<Order>> {
  int ddof = 0;  ///< as variance takes it

  GlobalVariance() = default;
  /// Local.
  explicit GlobalVariance(int less) : ddof(less) {}

 private:
  friend impl::ToOneValue<GlobalVariance>;
  template <class Space, class X>
  double value(const Space& space, const X& x) const {
    return variance<Order>(space, x, ddof);
  }
  template <class Space, class TX, class X>
  double tangent(const Space& space, const TX& tx, const X& x) const {
    impl::check_alike("GlobalVariance", x, tx);
    const impl::RuleTerm<impl::DeviationRule> deviation{{mean<Order>(space, x)}};
    return 2.0 *
           impl::world_sum<Order, double>(space, x, deviation, impl::read<X>(x),
                                          impl::read<X>(tx)) /
           (impl::world_cells(x) - ddof);
  }
  template <class Space, class DX, class X>
  void gradient(const Space& space, const DX& dx, const X& x, double g) const {
    variance_pullback<Order>(space, dx, x, g, ddof);
  }
};

/// y = dot(a, b), of two fields; da = dy b, db = dy a.
template <Determinism Order = Determinism::on_one_mesh>
struct GlobalDot : impl::ToOneValue<GlobalDot<Order>> {
  /// da = dy b, db = dy a
  template <class Space, class DA, class DB, class DY, AnyShardedView A, AnyShardedView B>
  void pullback(const Space& space, const DA& da, const DB& db, const DY& dy, const A& a,
                const B& b) const {
    if constexpr (is_wanted_v<DA>) dot_pullback(space, da, b, impl::result_cotangent(dy));
    if constexpr (is_wanted_v<DB>) dot_pullback(space, db, a, impl::result_cotangent(dy));
  }

 private:
  friend impl::ToOneValue<GlobalDot>;
  template <class Space, class A, class B>
  auto value(const Space& space, const A& a, const B& b) const {
    return dot<Order>(space, a, b);
  }
  template <class Space, class TA, class TB, class A, class B>
  double tangent(const Space& space, const TA& ta, const TB& tb, const A& a, const B& b) const {
    double sum = 0;
    if constexpr (is_wanted_v<TA>) sum += static_cast<double>(dot<Order>(space, ta, b));
    if constexpr (is_wanted_v<TB>) sum += static_cast<double>(dot<Order>(space, a, tb));
    return sum;
  }
};

/// y = norm1(x), the sum of the magnitudes; dx = dy sign(x).
template <Determinism Order = Determinism::on_one_mesh>
struct GlobalNorm1 : impl::ToOneValue<GlobalNorm1<Order>> {
 private:
  friend impl::ToOneValue<GlobalNorm1>;
  template <class Space, class X>
  double value(const Space& space, const X& x) const {
    return norm1<Order>(space, x);
  }
  template <class Space, class TX, class X>
  double tangent(const Space& space, const TX& tx, const X& x) const {
    impl::check_alike("GlobalNorm1", x, tx);
    return impl::world_sum<Order, double>(space, x, impl::RuleTerm<impl::SignRule>{},
                                          impl::read<X>(x), impl::read<X>(tx));
  }
  template <class Space, class DX, class X>
  void gradient(const Space& space, const DX& dx, const X& x, double g) const {
    norm1_pullback(space, dx, x, g);
  }
};

namespace impl {

/// The same of operations that keep their result for the derivatives.
template <class Op>
struct ToKeptValue : ToOneValue<Op> {
  static constexpr bool remembers = true;  ///< the result
  /// Number of applies of all copies.
  std::uint64_t applied() const { return count_.value(); }

 protected:
  template <class T>
  T keep(T value) const {
    count_.add();
    kept_() = static_cast<double>(value);
    return value;
  }
  double kept() const { return kept_(); }

 private:
  OneValue kept_{"shard::kept"};
  ApplyCount count_;
};

}  // namespace impl

/// y = norm2(x), the square root of the sum of the squares; dx = dy x / norm, 0 where x is.
template <Determinism Order = Determinism::on_one_mesh>
struct GlobalNorm2 : impl::ToKeptValue<GlobalNorm2<Order>> {
 private:
  friend impl::ToOneValue<GlobalNorm2>;
  template <class Space, class X>
  double value(const Space& space, const X& x) const {
    return this->keep(norm2<Order>(space, x));
  }
  template <class Space, class TX, class X>
  double tangent(const Space& space, const TX& tx, const X& x) const {
    const double product = dot<Order>(space, x, tx);
    return product == 0 ? 0 : product / this->kept();
  }
  template <class Space, class DX, class X>
  void gradient(const Space& space, const DX& dx, const X& x, double g) const {
    norm2_pullback(space, dx, x, this->kept(), g);
  }
};

namespace impl {

/// min, max and norm_max: the derivative is shared equally by the elements with the extremum, times
/// sign(x) of a magnitude.
template <Extremum Which>
struct GlobalExtremum : ToKeptValue<GlobalExtremum<Which>> {
 private:
  friend ToOneValue<GlobalExtremum>;
  static constexpr bool magnitude = Which == Extremum::greatest_magnitude;
  template <class X>
  using Value = std::conditional_t<magnitude, double, typename X::non_const_value_type>;

  template <class Space, class X>
  auto value(const Space& space, const X& x) const {
    return this->keep(world_extremum<Value<X>>("GlobalExtremum", space, x, Which));
  }
  template <class Space, class TX, class X>
  double tangent(const Space& space, const TX& tx, const X& x) const {
    check_alike("GlobalExtremum", x, tx);
    const auto a     = read<X>(x);
    const auto value = static_cast<Value<X>>(this->kept());
    const CountTerm<Value<X>> count{value, magnitude};
    const RuleTerm<ExtremumRule<Value<X>>> tangent{{value, magnitude}};
    const double sum =
        world_sum<Determinism::on_one_mesh, double>(space, x, tangent, a, read<X>(tx));
    const auto cells = world_sum<Determinism::on_one_mesh, index_t>(space, x, count, a, a);
    return sum / static_cast<double>(cells);
  }
  template <class Space, class DX, class X>
  void gradient(const Space& space, const DX& dx, const X& x, double g) const {
    extremum_pullback("GlobalExtremum", space, dx, x, static_cast<Value<X>>(this->kept()),
                      magnitude, g);
  }
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
