// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_VECTOR_UPDATES_HPP
#define SHARD_SOLVE_IMPL_VECTOR_UPDATES_HPP

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

#include "shard/solve/impl/operands.hpp"
#include "shard/solve/impl/plain_vectors.hpp"

namespace shard::impl {

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
/// The scalars of a space of vectors: complex if all parts of a vector are.
template <class V>
struct ScalarOf {
  using type = wide_t<typename V::value_type>;
};
template <class First, class... Rest>
struct ScalarOf<std::tuple<First, Rest...>> {
  using type = std::conditional_t<
      (std::is_same_v<wide_t<typename First::value_type>, wide_t<typename Rest::value_type>> &&
       ...),
      wide_t<typename First::value_type>, double>;
};
template <class V>
using scalar_t = typename ScalarOf<V>::type;

/// y = c y + sum of a_k x_k + shift. Doesn't read y if c is 0. Factors are of type S.
template <class Y, class X, class S, int N>
struct UpdateKernel {
  Y y;
  Kokkos::Array<X, N> x;
  Kokkos::Array<S, N> a;
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
template <int N, class Space, class Y, class S, class X>
void update_some(const Space& space, const Y& y, double c, const S* a, const X* const* x,
                 double shift = 0.0) {
  const auto part = [&]<std::size_t... K>(const auto& get, const auto& to,
                                          std::index_sequence<K...>) {
    using To   = std::remove_cvref_t<decltype(to)>;
    using From = std::remove_cvref_t<decltype(get(*x[0]))>;
    if constexpr (std::is_same_v<Space, Kokkos::DefaultExecutionSpace> &&
                  std::is_same_v<S, double> &&
                  std::is_same_v<typename To::value_type, typename From::value_type> &&
                  is_plain_vector<To>() && is_plain_vector<From>()) {
      using Plain         = plain_vector_t<To>;
      const Plain given[] = {FieldAccess::same<Plain>(get(*x[K]))...};
      PlainVectors<typename To::value_type, To::rank>::update(space, FieldAccess::same<Plain>(to),
                                                              c, a, given, N, shift);
      mark_written(space, to);  // its halo, which a plain vector hasn't
    } else
      write_points("shard::update", space, to,
                   UpdateKernel<To, From, S, N>{to, {get(*x[K])...}, {a[K]...}, c, shift},
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

/// x += alpha p, and then p = c z + beta p.
template <class V>
struct AdvanceKernel {
  V x, p, z;
  double alpha, c, beta;
  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    using T      = typename V::value_type;
    using Wide   = wide_t<T>;
    const Wide d = static_cast<Wide>(p(i...));
    x(i...)      = static_cast<T>(static_cast<Wide>(x(i...)) + alpha * d);
    p(i...)      = static_cast<T>(c * static_cast<Wide>(z(i...)) + beta * d);
  }
};

/// x += alpha p, and then p = c z + beta p, in one pass over memory. Asynchronous.
template <class Space, class V>
void advance(const Space& space, const V& x, double alpha, const V& p, double c, const V& z,
             double beta) {
  for_parts(
      [&](const auto& px, const auto& pp, const auto& pz) {
        using Part = std::remove_cvref_t<decltype(px)>;
        if constexpr (std::is_same_v<Space, Kokkos::DefaultExecutionSpace> &&
                      is_plain_vector<Part>()) {
          using Plain = plain_vector_t<Part>;
          PlainVectors<typename Part::value_type, Part::rank>::advance(
              space, FieldAccess::same<Plain>(px), FieldAccess::same<Plain>(pp),
              FieldAccess::same<Plain>(pz), alpha, c, beta);
          mark_written(space, px);  // their halos, which plain vectors haven't
        } else
          write_points("shard::advance", space, px, AdvanceKernel<Part>{px, pp, pz, alpha, c, beta},
                       pp, pz);
        mark_written(space, pp);
      },
      x, p, z);
}

/// y = c y + sum of a_k x_k of any number of vectors, four in a kernel.
template <class Space, class Y, class S, class X>
void update_many(const Space& space, const Y& y, double c, const S* a, const X* const* x,
                 int count) {
  for (; count >= 4; count -= 4, a += 4, x += 4, c = 1.0) update_some<4>(space, y, c, a, x);
  if (count >= 2) {
    update_some<2>(space, y, c, a, x);
    count -= 2, a += 2, x += 2, c = 1.0;
  }
  if (count == 1) update_some<1>(space, y, c, a, x);
}

}  // namespace shard::impl

#endif
