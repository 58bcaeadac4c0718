// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_IMPL_PLAIN_VECTORS_HPP
#define SHARD_SOLVE_IMPL_PLAIN_VECTORS_HPP

#include <Kokkos_Core.hpp>

#include <type_traits>
#include <utility>

#include "shard/reduce/impl/reduction.hpp"
#include "shard/view/impl/zeroed_view.hpp"
#include "shard/view/sharded_view.hpp"

/// \file
/// The vector functions of most vectors are in the library: compiled once, for the processor that
/// it runs on. They see a vector as a field whose type names neither axes nor halo.

namespace shard::impl {

/// Two vectors whose dot product is asked for.
template <class V>
struct DotOf {
  const V* a;
  const V* b;
};

/// A vector as these functions see it.
template <class T, int Rank>
using PlainVector =
    ShardedView<typename Pointers<T, Rank>::type, Kokkos::LayoutRight, ShardDim<0, Unsharded>>;

/// Whether the library has the vector functions of a field: float or double in the usual layout and
/// a host's memory, and each owned point counts once.
template <class Field>
constexpr bool is_plain_vector() {
  if constexpr (!is_usual_view_v<typename Field::view_type> ||
                !std::is_same_v<Kokkos::DefaultExecutionSpace, Kokkos::DefaultHostExecutionSpace>) {
    return false;
  } else {
    using Type = FieldTypeOf<Field>;
    return Type::rank <= 4 && !Type::is_partial &&
           !may_have_copies_v<Field>&&[]<int... D>(std::integer_sequence<int, D...>) {
      return ((!Type::template has_indices<D> && !Type::template has_blocks<D>)&&...);
    }
    (std::make_integer_sequence<int, Type::rank>{});
  }
}
template <class Field>
using plain_vector_t = PlainVector<typename Field::non_const_value_type, Field::rank>;

/// The vector functions of PlainVectors.
template <class T, int Rank>
struct PlainVectors {
  using Space  = Kokkos::DefaultExecutionSpace;
  using Field  = PlainVector<T, Rank>;
  using Memory = typename Field::memory_space;
  /// y = c y + sum of a_k x_k + shift, of 1, 2 or 4 vectors.
  static void update(const Space& space, const Field& y, double c, const double* a, const Field* x,
                     int count, double shift);
  /// x += alpha p, and then p = c z + beta p.
  static void advance(const Space& space, const Field& x, const Field& p, const Field& z,
                      double alpha, double c, double beta);
  /// r -= alpha q; adds r'r, both times `scale`, as the only value.
  static void add_descent(TermReduction<Memory>& reduction, Determinism order, const Space& space,
                          const Field& r, const Field& q, double alpha, double scale);
  /// Adds the dot products of 1, 2 or 4 pairs (a[k], b[k]), both times `scale`.
  static void add_products(TermReduction<Memory>& reduction, Determinism order, const Space& space,
                           const Field* a, const Field* b, int count, int first, double scale);
};

}  // namespace shard::impl

#endif
