// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_VECTOR_HPP
#define SHARD_SOLVE_VECTOR_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "shard/autodiff/impl/value.hpp"
#include "shard/reduce/impl/reduction.hpp"
#include "shard/solve/impl/operands.hpp"

/// \file
/// Vectors of the solvers: a ShardedView of float or double, or complex of them, or a std::tuple of
/// these (velocity and pressure, say). Only owned points count. Sums are in double. The dot product
/// of complex vectors is the real part of a'b, with a' conjugated.

namespace shard {

namespace impl {

/// What elements are computed in: double, or complex of double.
template <class T>
struct WideOf {
  using type = double;
};
template <class T>
struct WideOf<Kokkos::complex<T>> {
  using type = Kokkos::complex<double>;
};
template <class T>
using wide_t = typename WideOf<std::remove_const_t<T>>::type;

KOKKOS_FORCEINLINE_FUNCTION double inner_product(double a, double b) { return a * b; }
/// The real part of a'b.
KOKKOS_FORCEINLINE_FUNCTION double inner_product(const Kokkos::complex<double>& a,
                                                 const Kokkos::complex<double>& b) {
  return a.real() * b.real() + a.imag() * b.imag();
}

/// y = c y + sum of a_k x_k + shift. Doesn't read y if c is 0.
template <class Y, class X, int N>
struct UpdateKernel {
  Y y;
  Kokkos::Array<X, N> x;
  Kokkos::Array<double, N> a;
  double c, shift;

  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    using Wide = wide_t<typename Y::value_type>;
    Wide sum   = shift;
    for (std::size_t k = 0; k < N; ++k) sum += a[k] * static_cast<Wide>(x[k](i...));
    if (c != 0.0) sum += c * static_cast<Wide>(y(i...));
    y(i...) = static_cast<typename Y::value_type>(sum);
  }
};

/// y = c y + sum of a_k x_k + shift, of N vectors at `x`. Asynchronous.
template <int N, class Space, class Y, class X>
void update_some(const Space& space, const Y& y, double c, const double* a, const X* const* x,
                 double shift = 0.0) {
  const auto part = [&]<std::size_t... K>(const auto& get, const auto& to,
                                          std::index_sequence<K...>) {
    using From = std::remove_cvref_t<decltype(get(*x[0]))>;
    write_points("shard::update", space, to,
                 UpdateKernel<std::remove_cvref_t<decltype(to)>, From, N>{
                     to, {get(*x[K])...}, {a[K]...}, c, shift},
                 get(*x[K])...);
  };
  constexpr auto all = std::make_index_sequence<N>{};
  if constexpr (is_tuple_v<Y>) {
    const auto each = [&]<std::size_t... P>(std::index_sequence<P...>) {
      (part(
           [](const X& v) -> const auto& { return std::get<P>(v); }, std::get<P>(y), all),
       ...);
    };
    each(std::make_index_sequence<std::tuple_size_v<Y>>{});
  } else {
    part(
        [](const X& v) -> const auto& { return v; }, y, all);
  }
}

/// The same of any number of vectors, four in a kernel.
template <class Space, class Y, class X>
void update_many(const Space& space, const Y& y, double c, const double* a, const X* const* x,
                 int count) {
  for (; count >= 4; count -= 4, a += 4, x += 4, c = 1.0) update_some<4>(space, y, c, a, x);
  if (count >= 2) {
    update_some<2>(space, y, c, a, x);
    count -= 2, a += 2, x += 2, c = 1.0;
  }
  if (count == 1) update_some<1>(space, y, c, a, x);
}

/// The products a_k b_k at a point, of both times `scale`.
template <class Field, int N>
struct ProductsTerm {
  Kokkos::Array<Field, N> a, b;
  double scale;
  template <class... I>
  KOKKOS_FUNCTION Kokkos::Array<double, N> operator()(I... i) const {
    using Wide = wide_t<typename Field::value_type>;
    Kokkos::Array<double, N> products;
    for (std::size_t k = 0; k < N; ++k)
      products[k] = inner_product(scale * static_cast<Wide>(a[k](i...)),
                                  scale * static_cast<Wide>(b[k](i...)));
    return products;
  }
};
/// weight a b at a point, 0 where the weight is, whatever a and b are there.
template <class Field>
struct WeightedTerm {
  Field a, b, weight;
  double scale;
  template <class... I>
  KOKKOS_FUNCTION double operator()(I... i) const {
    using Wide     = wide_t<typename Field::value_type>;
    const double w = inner_product(Wide(1.0), static_cast<Wide>(weight(i...)));
    return w == 0.0 ? 0.0
                    : w * inner_product(scale * static_cast<Wide>(a(i...)),
                                        scale * static_cast<Wide>(b(i...)));
  }
};
/// An inner product: how it is summed, the weights, if there are any, and a power of two that both
/// vectors are multiplied by, so that squares of tiny or huge numbers neither vanish nor overflow.
template <class V>
struct InnerProduct {
  InnerProduct(Determinism o, const V* w = nullptr, double s = 1.0)  // NOLINT
      : order(o), weight(w), scale(s) {}
  Determinism order;
  const V* weight;
  double scale;
};
/// Two vectors whose dot product is asked for.
template <class V>
struct DotOf {
  const V* a;
  const V* b;
};

template <class V>
struct FirstPart {
  using type = V;
  static const V& of(const V& v) { return v; }
};
template <class First, class... Rest>
struct FirstPart<std::tuple<First, Rest...>> {
  using type = First;
  static const First& of(const std::tuple<First, Rest...>& v) { return std::get<0>(v); }
};
template <class V>
using VectorMemory = typename FirstPart<V>::type::memory_space;

template <Determinism Order, int N, class Memory, class Space, class Get, class V>
void add_products(TermReduction<Memory>& reduction, const Space& space, const Get& get,
                  const DotOf<V>* of, int first, double scale) {
  using Part = std::remove_cvref_t<decltype(get(*of->a))>;
  [&]<std::size_t... K>(std::index_sequence<K...>) {
    reduction.template add<Order, TermOps<>>(
        space, get(*of->a), ProductsTerm<Part, N>{{get(*of[K].a)...}, {get(*of[K].b)...}, scale},
        first);
  }
  (std::make_index_sequence<N>{});
}

template <Determinism Order, class Memory, class Space, class Get, class V>
void add_dots(TermReduction<Memory>& reduction, const Space& space, const Get& get,
              const DotOf<V>* of, int count, const InnerProduct<V>& product) {
  int first             = 0;
  const double scale    = product.scale;
  const V* const weight = product.weight;
  if (weight != nullptr) {
    using Part = std::remove_cvref_t<decltype(get(*of->a))>;
    for (; first < count; ++first)
      reduction.template add<Order, TermOps<>>(
          space, get(*of->a),
          WeightedTerm<Part>{get(*of[first].a), get(*of[first].b), get(*weight), scale}, first);
    return;
  }
  for (; first + 4 <= count; first += 4)
    add_products<Order, 4>(reduction, space, get, of + first, first, scale);
  if (first + 2 <= count) {
    add_products<Order, 2>(reduction, space, get, of + first, first, scale);
    first += 2;
  }
  if (first < count) add_products<Order, 1>(reduction, space, get, of + first, first, scale);
}

/// Starts the dot products of pairs of vectors, all in one message. Fences `space`.
template <class Space, class V>
TermReduction<VectorMemory<V>> start_dots(const Space& space,
                                          const std::type_identity_t<InnerProduct<V>>& product,
                                          const DotOf<V>* of, int count, bool waits) {
  for (int k = 0; k < count; ++k) require_alike("dots", *of->a, *of[k].a, *of[k].b);
  if (product.weight != nullptr) require_alike("dots", *of->a, *product.weight);
  TermReduction<VectorMemory<V>> reduction(FirstPart<V>::of(*of->a).geometry(), count,
                                           product.order);
  const auto add = [&](const auto& get) {
    if (product.order == Determinism::ordered)
      add_dots<Determinism::ordered>(reduction, space, get, of, count, product);
    else
      add_dots<Determinism::on_one_mesh>(reduction, space, get, of, count, product);
  };
  if constexpr (is_tuple_v<V>) {
    const auto each = [&]<std::size_t... P>(std::index_sequence<P...>) {
      (add([](const V& v) -> const auto& { return std::get<P>(v); }), ...);
    };
    each(std::make_index_sequence<std::tuple_size_v<V>>{});
  } else {
    add([](const V& v) -> const auto& { return v; });
  }
  reduction.start(space, waits);
  return reduction;
}

/// The same, waits for the results.
template <class Space, class V, std::size_t N>
std::array<double, N> all_dots(const Space& space,
                               const std::type_identity_t<InnerProduct<V>>& product,
                               const DotOf<V> (&of)[N]) {
  std::array<double, N> results;
  start_dots(space, product, of, static_cast<int>(N), true).finish(results.data());
  return results;
}

/// Number of points of all parts.
template <class V>
double vector_points(const V& v) {
  double points = 0.0;
  for_parts([&](const auto& part) { points += world_cells(part); }, v);
  return points;
}

}  // namespace impl

/// y = a x + b y. Asynchronous.
template <class Space, class Y, class X>
void axpby(const Space& space, const Y& y, double a, const X& x, double b) {
  const X* const from = &x;
  impl::update_some<1>(space, y, b, &a, &from);
}
/// z = a x + b y + c z. Asynchronous.
template <class Space, class Z, class X>
void update(const Space& space, const Z& z, double a, const X& x, double b, const X& y, double c) {
  const double factors[] = {a, b};
  const X* const from[]  = {&x, &y};
  impl::update_some<2>(space, z, c, factors, from);
}
/// The dot products of pairs of vectors of one type, all in one message, over all owned points of
/// all parts. Collective; fences `space` once.
///
///   auto [rr, rz] = shard::dots(space, std::tie(r, r), std::tie(r, z));
///
/// `Determinism::ordered`: each product is rounded, and their sum is exact and rounded once, so the
/// result is bitwise the same for every number of ranks.
template <Determinism Order = Determinism::on_one_mesh, class Space, class A, class B,
          class... Pairs>
std::array<double, 1 + sizeof...(Pairs)> dots(const Space& space, const std::tuple<A&, B&>& first,
                                              const Pairs&... more) {
  using Vector = std::remove_const_t<A>;
  static_assert(std::is_same_v<Vector, std::remove_const_t<B>>, "dots are of vectors of one type");
  const impl::DotOf<Vector> of[] = {{&std::get<0>(first), &std::get<1>(first)},
                                    {&std::get<0>(more), &std::get<1>(more)}...};
  return impl::all_dots(space, Order, of);
}
/// The same with a weight for each point: the sums of weight a b. Weights are areas of cells, say,
/// or 0 and 1. A point of weight 0 doesn't count, not even a NaN. `weight` is a vector of the same
/// type.
template <Determinism Order = Determinism::on_one_mesh, class Space, class V, class A, class B,
          class... Pairs>
std::array<double, 1 + sizeof...(Pairs)> weighted_dots(const Space& space, const V& weight,
                                                       const std::tuple<A&, B&>& first,
                                                       const Pairs&... more) {
  static_assert(
      std::is_same_v<V, std::remove_const_t<A>> && std::is_same_v<V, std::remove_const_t<B>>,
      "dots are of vectors of one type, which their weights have too");
  const impl::DotOf<V> of[] = {{&std::get<0>(first), &std::get<1>(first)},
                               {&std::get<0>(more), &std::get<1>(more)}...};
  return impl::all_dots(space, {Order, &weight}, of);
}

}  // namespace shard

#endif
