// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_DIFFUSION_STENCIL_HPP
#define SHARD_SOLVE_IMPL_DIFFUSION_STENCIL_HPP

#include <Kokkos_Core.hpp>

#include <type_traits>
#include <utility>

#include "shard/view/boundary.hpp"

namespace shard::impl {

/// The coefficient 1 everywhere.
struct UnitCoefficient {};

/// x at distance s from a point along dimension D.
template <int D, class X, class... I, int... E>
KOKKOS_FORCEINLINE_FUNCTION auto shifted_value(const X& x, int s, std::integer_sequence<int, E...>,
                                               I... i) {
  return x((i + (E == D ? s : 0))...);
}

/// -div(k grad x) + shift x on cells: fluxes through the faces, in the order of dimensions.
template <class K>
struct DiffusionStencil {
  static constexpr bool is_symmetric = true, is_star = true,
                        is_uniform = std::is_same_v<K, UnitCoefficient>;
  K k;
  Kokkos::Array<double, 3> weight;  ///< 1 / spacing^2
  double shift;

  template <class X, class... I>
  KOKKOS_FUNCTION auto operator()(const X& x, I... i) const {
    using T                 = typename X::non_const_value_type;
    constexpr auto all_dims = std::make_integer_sequence<int, X::rank>{};
    if constexpr (is_uniform)
      return same_everywhere(x, all_dims, i...);
    else
      return both(x, all_dims, i...) + static_cast<T>(shift) * x(i...);
  }
  template <class X, class... I>
  KOKKOS_FUNCTION auto diagonal(const X& x, I... i) const {
    return all(x, std::make_integer_sequence<int, X::rank>{}, i...);
  }
  /// The derivative of y(i) (A x)(i), summed over all cells i, with respect to k(i).
  template <class X, class... I>
  KOKKOS_FUNCTION auto k_gradient(const X& y, const X& x, I... i) const {
    return k_gradients(y, x, std::make_integer_sequence<int, X::rank>{}, i...);
  }

 private:
  template <class X, int... D, class... I>
  KOKKOS_FORCEINLINE_FUNCTION auto k_gradients(const X& y, const X& x,
                                               std::integer_sequence<int, D...> all_dims,
                                               I... i) const {
    return (
        (k_gradient_of<D, 0>(y, x, all_dims, i...) + k_gradient_of<D, 1>(y, x, all_dims, i...)) +
        ...);
  }
  template <int D, int Side, class X, int... E, class... I>
  KOKKOS_FORCEINLINE_FUNCTION auto k_gradient_of(const X& y, const X& x,
                                                 std::integer_sequence<int, E...> dims,
                                                 I... i) const {
    using T         = typename X::non_const_value_type;
    constexpr int s = Side == 0 ? -1 : 1;
    const T both    = (y(i...) - shifted_value<D>(y, s, dims, i...)) *
                   (x(i...) - shifted_value<D>(x, s, dims, i...)) * static_cast<T>(weight[D]);
    constexpr BoundaryKind wall = kind<X, D, Side>();
    if constexpr (wall != BoundaryKind::periodic)
      if (at_wall<D, Side>(x, dims, i...))
        return wall == BoundaryKind::constant ? T(2) * both : T(0);
    // of the harmonic mean
    const T there = static_cast<T>(shifted_value<D>(k, s, dims, i...)),
            sum   = static_cast<T>(k(i...)) + there;
    return sum == T(0) ? T(0) : T(2) * (there / sum) * (there / sum) * both;
  }
  template <class X, int... D, class... I>
  KOKKOS_FORCEINLINE_FUNCTION auto both(const X& x, std::integer_sequence<int, D...> all_dims,
                                        I... i) const {
    const auto here = x(i...);
    return ((face<D, 0>(x, all_dims, i...) * (here - shifted_value<D>(x, -1, all_dims, i...)) +
             face<D, 1>(x, all_dims, i...) * (here - shifted_value<D>(x, +1, all_dims, i...))) +
            ...);
  }
  /// The same without coefficients: walls without flux need nothing, because the halo is equal to
  /// x there, and walls with the value 0 add to the diagonal. Compilers vectorise it.
  template <class X, int... D, class... I>
  KOKKOS_FORCEINLINE_FUNCTION auto same_everywhere(const X& x,
                                                   std::integer_sequence<int, D...> all_dims,
                                                   I... i) const {
    using T         = typename X::non_const_value_type;
    const auto here = x(i...);
    const T more =
        static_cast<T>(shift) +
        ((zero_wall<D, 0>(x, all_dims, i...) + zero_wall<D, 1>(x, all_dims, i...)) + ...);
    return ((static_cast<T>(weight[D]) * ((here - shifted_value<D>(x, -1, all_dims, i...)) +
                                          (here - shifted_value<D>(x, +1, all_dims, i...)))) +
            ...) +
           more * here;
  }
  template <int D, int Side, class X, int... E, class... I>
  KOKKOS_FORCEINLINE_FUNCTION auto zero_wall(const X& x, std::integer_sequence<int, E...> dims,
                                             I... i) const {
    using T = typename X::non_const_value_type;
    if constexpr (kind<X, D, Side>() == BoundaryKind::constant)
      return at_wall<D, Side>(x, dims, i...) ? static_cast<T>(weight[D]) : T(0);
    else
      return T(0);
  }
  template <class X, int... D, class... I>
  KOKKOS_FORCEINLINE_FUNCTION auto all(const X& x, std::integer_sequence<int, D...> all_dims,
                                       I... i) const {
    using T = typename X::non_const_value_type;
    return ((on_diagonal<D, 0>(x, all_dims, i...) + on_diagonal<D, 1>(x, all_dims, i...)) + ... +
            static_cast<T>(shift));
  }
  template <class X, int D, int Side>
  static constexpr BoundaryKind kind() {
    using Traits = BoundaryTraits<typename X::template boundary<D>>;
    return Side == 0 ? Traits::low.kind : Traits::high.kind;
  }
  /// Of an owned cell. Which ranks have walls is outside of the loop over cells.
  template <int D, int Side, class X, int... E, class... I>
  KOKKOS_FORCEINLINE_FUNCTION static bool at_wall(const X& x, std::integer_sequence<int, E...>,
                                                  I... i) {
    const int along = ((E == D ? i : 0) + ...);
    const auto last = static_cast<int>(x.extent(D)) - 1;
    const int wall  = Side == 0 ? (x.begin(D) == 0 ? 0 : -1)
                                : (x.begin(D) + last == x.global_extent(D) - 1 ? last : -1);
    return along == wall;
  }
  /// The coefficient of a face over spacing^2. A wall with the value 0 is at half the distance.
  template <int D, int Side, class X, int... E, class... I>
  KOKKOS_FORCEINLINE_FUNCTION auto face(const X& x, std::integer_sequence<int, E...> dims,
                                        I... i) const {
    using T                     = typename X::non_const_value_type;
    constexpr BoundaryKind wall = kind<X, D, Side>();
    constexpr bool has_wall     = wall != BoundaryKind::periodic;
    const T w                   = static_cast<T>(weight[D]);
    if constexpr (is_uniform) {
      if constexpr (wall == BoundaryKind::constant)
        return at_wall<D, Side>(x, dims, i...) ? T(2) * w : w;
      else
        return w;
    } else {
      const T here  = static_cast<T>(k(i...));
      const T there = static_cast<T>(shifted_value<D>(k, Side == 0 ? -1 : 1, dims, i...));
      const T sum   = here + there;
      // a wall between two cells of 0; a NaN stays one
      const T mean = sum == T(0) ? T(0) : T(2) * here * there / sum;
      if constexpr (has_wall)
        return at_wall<D, Side>(x, dims, i...)
                   ? (wall == BoundaryKind::constant ? T(2) : T(1)) * here * w
                   : mean * w;
      else
        return mean * w;
    }
  }
  /// The part of a face in the diagonal: nothing through a wall without flux, nor between a ring's
  /// only cell and itself.
  template <int D, int Side, class X, int... E, class... I>
  KOKKOS_FORCEINLINE_FUNCTION auto on_diagonal(const X& x, std::integer_sequence<int, E...> dims,
                                               I... i) const {
    using T                     = typename X::non_const_value_type;
    constexpr BoundaryKind wall = kind<X, D, Side>();
    const T f                   = face<D, Side>(x, dims, i...);
    if constexpr (wall == BoundaryKind::symmetric || wall == BoundaryKind::clamp)
      return at_wall<D, Side>(x, dims, i...) ? T(0) : f;
    else if constexpr (wall == BoundaryKind::periodic)
      return x.global_extent(D) == 1 ? T(0) : f;
    else
      return f;
  }
};

/// dk += scale times the derivative of y'(A x).
template <class Field, class Functor>
struct DiffusionGradientKernel {
  Functor functor;
  Field dk, y, x;
  double scale;
  template <class... I>
  KOKKOS_FUNCTION void operator()(I... i) const {
    using T = typename Field::value_type;
    dk(i...) += static_cast<T>(scale) * functor.k_gradient(y, x, i...);
  }
};

template <class Field>
constexpr bool check_diffusion() {
  static_assert(Field::rank <= 3, "Diffusion is of fields of rank 1 to 3");
  static_assert(
      []<int... D>(std::integer_sequence<int, D...>) {
        return ((Field::halo_lo(D) >= 1 && Field::halo_hi(D) >= 1) && ...);
      }(std::make_integer_sequence<int, Field::rank>{}),
      "Diffusion needs fields with a halo of at least 1 in each dimension");
  static_assert(
      []<int... D>(std::integer_sequence<int, D...>) {
        const auto suits = [](const BoundarySide& side) {
          return (side.kind == BoundaryKind::constant && side.value.is_zero()) ||
                 side.kind == BoundaryKind::periodic || side.kind == BoundaryKind::symmetric ||
                 side.kind == BoundaryKind::clamp;
        };
        return ((suits(BoundaryTraits<typename Field::template boundary<D>>::low) &&
                 suits(BoundaryTraits<typename Field::template boundary<D>>::high)) &&
                ...);
      }(std::make_integer_sequence<int, Field::rank>{}),
      "Diffusion needs the boundaries Zero (the value 0 at the wall), Symmetric or Clamp (no flux) "
      "or Periodic");
  return true;
}
/// Of the field k.
template <class Field, class K>
constexpr bool check_coefficients() {
  static_assert(K::rank == Field::rank,
                "the coefficients of a Diffusion are a field with the dimensions of x");
  static_assert(
      []<int... D>(std::integer_sequence<int, D...>) {
        constexpr auto rings = []<class F, int E>(std::type_identity<F>,
                                                  std::integral_constant<int, E>) {
          return BoundaryTraits<typename F::template boundary<E>>::low.kind ==
                 BoundaryKind::periodic;
        };
        return ((K::halo_lo(D) >= 1 && K::halo_hi(D) >= 1 &&
                 (!rings(std::type_identity<Field>(), std::integral_constant<int, D>()) ||
                  rings(std::type_identity<K>(), std::integral_constant<int, D>()))) &&
                ...);
      }(std::make_integer_sequence<int, Field::rank>{}),
      "the coefficients of a Diffusion need a halo of at least 1 in each dimension, and the "
      "boundary Periodic where x has it");
  return true;
}

}  // namespace shard::impl

#endif
