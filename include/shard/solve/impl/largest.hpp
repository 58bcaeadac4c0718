// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_LARGEST_HPP
#define SHARD_SOLVE_IMPL_LARGEST_HPP

#include <Kokkos_Core.hpp>

#include <type_traits>

#include "shard/reduce/reduce.hpp"
#include "shard/solve/vector.hpp"

namespace shard::impl {

/// The larger of the magnitudes of an element's parts, infinite for a NaN; 0 where the weight is.
template <class Field>
struct LargestTerm {
  Field v, weight;
  bool weighted;
  template <class... I>
  KOKKOS_FUNCTION double operator()(I... i) const {
    using T = typename Field::non_const_value_type;
    if (weighted && weight(i...) == T(0)) return 0.0;
    const auto x = static_cast<wide_t<T>>(v(i...));
    if constexpr (std::is_same_v<wide_t<T>, double>)
      return x == x ? Kokkos::fabs(x) : Kokkos::Experimental::infinity_v<double>;
    else
      return x == x ? Kokkos::fmax(Kokkos::fabs(x.real()), Kokkos::fabs(x.imag()))
                    : Kokkos::Experimental::infinity_v<double>;
  }
};

/// Whether a sum of squares has its digits: then neither it nor a much smaller one underflowed, and
/// it didn't overflow.
inline bool has_digits(double square) { return square > 1e-200 && square < 1e200; }
/// The power of two that brings numbers up to `largest` near 1; 1 for 0 and what isn't finite.
double scale_for(double largest);

/// The same for the elements of a vector. Fences `space`. Collective.
template <class Space, class V>
double scale_of(const Space& space, const V& v, const V* weight) {
  double most      = 0.0;
  const V* const w = weight == nullptr ? &v : weight;
  for_parts(
      [&](const auto& part, const auto& of) {
        using Part = std::remove_cvref_t<decltype(part)>;
        const double here =
            reduce<Max>(space, part, LargestTerm<Part>{part, of, weight != nullptr});
        most = here > most ? here : most;
      },
      v, *w);
  return scale_for(most);
}

/// The 2-norm of a vector, and the scale that its product has digits with.
struct ScaledNorm {
  double norm, scale;
};
/// Sets the scale of `product` to one that the squares of `v` need. Collective.
template <class Space, class V>
ScaledNorm norm_of(const Space& space, InnerProduct<V> product, const V& v) {
  double square = all_dots(space, product, {DotOf<V>{&v, &v}})[0];
  if (!has_digits(square)) {
    product.scale = scale_of(space, v, product.weight);
    if (product.scale != 1.0) square = all_dots(space, product, {DotOf<V>{&v, &v}})[0];
  }
  return {Kokkos::sqrt(square) / product.scale, product.scale};
}

}  // namespace shard::impl

#endif
