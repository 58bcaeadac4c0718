// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_VECTOR_DOTS_HPP
#define SHARD_SOLVE_IMPL_VECTOR_DOTS_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "shard/reduce/impl/reduction.hpp"
#include "shard/solve/impl/vector_updates.hpp"

namespace shard::impl {

KOKKOS_FORCEINLINE_FUNCTION double inner_product(double a, double b) { return a * b; }
/// The real part of a'b.
KOKKOS_FORCEINLINE_FUNCTION double inner_product(const Kokkos::complex<double>& a,
                                                 const Kokkos::complex<double>& b) {
  return a.real() * b.real() + a.imag() * b.imag();
}
/// Its imaginary part.
KOKKOS_FORCEINLINE_FUNCTION double imaginary_product(const Kokkos::complex<double>& a,
                                                     const Kokkos::complex<double>& b) {
  return a.real() * b.imag() - a.imag() * b.real();
}
/// Prefetches an element, which may be beyond the field's end, on a host.
template <class Field, class... I>
void prefetch_element(const Field& field, I... i) {
#if defined(__GNUC__)
  const int index[] = {i...};
  index_t offset    = 0;
  for (int d = 0; d < Field::rank; ++d) offset += index[d] * field.stride(d);
  __builtin_prefetch(field.origin() + offset);
#endif
}
/// How many real numbers a scalar has.
template <class S>
inline constexpr int numbers_of = std::is_same_v<S, double> ? 1 : 2;

/// The products a_k b_k at a point, of both times `scale`: their real parts; for a complex S
/// the real and the imaginary part of each.
template <class Field, class S, int N>
struct ProductsTerm {
  static constexpr int count = N * numbers_of<S>;
  Kokkos::Array<Field, N> a, b;
  double scale;
  template <class... I>
  void prefetch(I... i) const {
    for (std::size_t k = 0; k < N; ++k) {
      prefetch_element(a[k], i...);
      prefetch_element(b[k], i...);
    }
  }
  template <class... I>
  KOKKOS_FUNCTION Kokkos::Array<double, count> operator()(I... i) const {
    using Wide = wide_t<typename Field::value_type>;
    Kokkos::Array<double, count> products;
    for (std::size_t k = 0; k < N; ++k) {
      const Wide x                = scale * static_cast<Wide>(a[k](i...)),
                 y                = scale * static_cast<Wide>(b[k](i...));
      products[k * numbers_of<S>] = inner_product(x, y);
      if constexpr (numbers_of<S> == 2) products[2 * k + 1] = imaginary_product(x, y);
    }
    return products;
  }
};
template <class Field, class S, int N>
inline constexpr bool prefetches_v<ProductsTerm<Field, S, N>> = true;
/// weight a b at a point, 0 where the weight is, whatever a and b are there.
template <class Field, class S>
struct WeightedTerm {
  Field a, b, weight;
  double scale;
  template <class... I>
  KOKKOS_FUNCTION Kokkos::Array<double, numbers_of<S>> operator()(I... i) const {
    using Wide     = wide_t<typename Field::value_type>;
    const double w = inner_product(Wide(1.0), static_cast<Wide>(weight(i...)));
    Kokkos::Array<double, numbers_of<S>> products{};
    if (w == 0.0) return products;
    const Wide x = scale * static_cast<Wide>(a(i...)), y = scale * static_cast<Wide>(b(i...));
    products[0] = w * inner_product(x, y);
    if constexpr (numbers_of<S> == 2) products[1] = w * imaginary_product(x, y);
    return products;
  }
};
/// r -= alpha q, and then r's square at a point, both times `scale`.
template <class Field>
struct DescentTerm {
  using Wide = wide_t<typename Field::value_type>;
  Field r, q;
  double alpha, scale;
  template <class... I>
  void prefetch(I... i) const {
    prefetch_element(r, i...);
    prefetch_element(q, i...);
  }
  template <class... I>
  KOKKOS_FUNCTION void write_first(I... i) const {
    r(i...) = static_cast<typename Field::value_type>(static_cast<Wide>(r(i...)) -
                                                      alpha * static_cast<Wide>(q(i...)));
  }
  template <class... I>
  KOKKOS_FUNCTION double operator()(I... i) const {
    const Wide x = scale * static_cast<Wide>(r(i...));
    return inner_product(x, x);
  }
};
template <class Field>
inline constexpr bool prefetches_v<DescentTerm<Field>> = true;
template <class Field>
inline constexpr bool writes_v<DescentTerm<Field>> = true;
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
template <class V>
using VectorMemory = typename FirstPart<V>::type::memory_space;

template <Determinism Order, class S, int N, class Memory, class Space, class Get, class V>
void add_products(TermReduction<Memory>& reduction, const Space& space, const Get& get,
                  const DotOf<V>* of, int first, double scale) {
  using Part = std::remove_cvref_t<decltype(get(*of->a))>;
  [&]<std::size_t... K>(std::index_sequence<K...>) {
    if constexpr (std::is_same_v<Space, Kokkos::DefaultExecutionSpace> &&
                  std::is_same_v<S, double> && is_plain_vector<Part>()) {
      using Plain     = plain_vector_t<Part>;
      const Plain a[] = {FieldAccess::same<Plain>(get(*of[K].a))...},
                  b[] = {FieldAccess::same<Plain>(get(*of[K].b))...};
      PlainVectors<typename Part::value_type, Part::rank>::add_products(reduction, Order, space, a,
                                                                        b, N, first, scale);
    } else
      reduction.template add<Order, TermOps<>>(
          space, get(*of->a),
          ProductsTerm<Part, S, N>{{get(*of[K].a)...}, {get(*of[K].b)...}, scale},
          first * numbers_of<S>);
  }
  (std::make_index_sequence<N>{});
}

template <Determinism Order, class S, class Memory, class Space, class Get, class V>
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
          WeightedTerm<Part, S>{get(*of[first].a), get(*of[first].b), get(*weight), scale},
          first * numbers_of<S>);
    return;
  }
  for (; first + 4 <= count; first += 4)
    add_products<Order, S, 4>(reduction, space, get, of + first, first, scale);
  if (first + 2 <= count) {
    add_products<Order, S, 2>(reduction, space, get, of + first, first, scale);
    first += 2;
  }
  if (first < count) add_products<Order, S, 1>(reduction, space, get, of + first, first, scale);
}

/// Starts the dot products of pairs of vectors, all in one message. Fences `space`. The results are
/// real parts, or with a complex S the real and the imaginary part of each product.
template <class S = double, class Space, class V>
TermReduction<VectorMemory<V>> start_dots(const Space& space,
                                          const std::type_identity_t<InnerProduct<V>>& product,
                                          const DotOf<V>* of, int count, bool waits) {
  for (int k = 0; k < count; ++k) require_alike("dots", *of->a, *of[k].a, *of[k].b);
  if (product.weight != nullptr) require_alike("dots", *of->a, *product.weight);
  TermReduction<VectorMemory<V>> reduction(FirstPart<V>::of(*of->a).geometry(),
                                           count * numbers_of<S>, product.order);
  const auto add = [&](const auto& get) {
    if (product.order == Determinism::ordered)
      add_dots<Determinism::ordered, S>(reduction, space, get, of, count, product);
    else
      add_dots<Determinism::on_one_mesh, S>(reduction, space, get, of, count, product);
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

template <Determinism Order, class Memory, class Space, class Part>
void add_descent(TermReduction<Memory>& reduction, const Space& space, const Part& r, const Part& q,
                 double alpha, double scale) {
  if constexpr (std::is_same_v<Space, Kokkos::DefaultExecutionSpace> && is_plain_vector<Part>()) {
    using Plain = plain_vector_t<Part>;
    PlainVectors<typename Part::value_type, Part::rank>::add_descent(
        reduction, Order, space, FieldAccess::same<Plain>(r), FieldAccess::same<Plain>(q), alpha,
        scale);
  } else
    reduction.template add<Order, TermOps<>>(space, r, DescentTerm<Part>{r, q, alpha, scale});
  mark_written(space, r);
}

/// Whether each point of a vector counts once, whatever mesh it is on.
template <class V>
struct CountsOnce : std::bool_constant<!may_have_copies_v<V>> {};
template <class... Parts>
struct CountsOnce<std::tuple<Parts...>> : std::bool_constant<(!may_have_copies_v<Parts> && ...)> {};

/// r -= alpha q; returns r'r. One pass over memory, unless there are weights or copies. Collective;
/// fences `space`.
template <class Space, class V>
double descend(const Space& space, const std::type_identity_t<InnerProduct<V>>& product, const V& r,
               const V& q, double alpha) {
  double sum[1];
  if constexpr (CountsOnce<V>::value)
    if (product.weight == nullptr) {
      require_alike("update", r, q);
      TermReduction<VectorMemory<V>> reduction(FirstPart<V>::of(r).geometry(), 1, product.order);
      for_parts(
          [&](const auto& pr, const auto& pq) {
            if (product.order == Determinism::ordered)
              add_descent<Determinism::ordered>(reduction, space, pr, pq, alpha, product.scale);
            else
              add_descent<Determinism::on_one_mesh>(reduction, space, pr, pq, alpha, product.scale);
          },
          r, q);
      reduction.start(space, true);
      reduction.finish(sum);
      return sum[0];
    }
  const V* const of = &q;
  const double by   = -alpha;
  update_some<1>(space, r, 1.0, &by, &of);
  const DotOf<V> square[] = {{&r, &r}};
  start_dots(space, product, square, 1, true).finish(sum);
  return sum[0];
}

/// As start_dots; waits for the results.
template <class Space, class V, std::size_t N>
std::array<double, N> all_dots(const Space& space,
                               const std::type_identity_t<InnerProduct<V>>& product,
                               const DotOf<V> (&of)[N]) {
  std::array<double, N> results;
  start_dots(space, product, of, static_cast<int>(N), true).finish(results.data());
  return results;
}

}  // namespace shard::impl

#endif
