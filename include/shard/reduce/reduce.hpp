// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDUCE_REDUCE_HPP
#define SHARD_REDUCE_REDUCE_HPP

#include <Kokkos_Core.hpp>

#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "shard/exchange/field_set.hpp"
#include "shard/reduce/impl/reduction.hpp"
#include "shard/view/sharded_view.hpp"

namespace shard {

namespace impl {

template <class Terms>
using ReducedOf = std::conditional_t<std::is_arithmetic_v<typename Terms::Term>, double,
                                     std::array<double, static_cast<std::size_t>(Terms::count)>>;

}  // namespace impl

/// A reduction in progress. `finish` waits for the other ranks and returns the result. The
/// destructor waits for messages. Movable, not copyable.
template <class Result, class Memory>
class [[nodiscard]] PendingReduction {
 public:
  /// For the library's own use.
  explicit PendingReduction(impl::TermReduction<Memory> reduction)
      : reduction_(std::move(reduction)) {}
  /// Waits; the result is the same on every rank. Call it once.
  Result finish() {
    Result result{};
    if constexpr (std::is_same_v<Result, double>)
      reduction_.finish(&result);
    else
      reduction_.finish(result.data());
    return result;
  }

 private:
  impl::TermReduction<Memory> reduction_;
};

namespace impl {

template <Determinism Order, class... Ops, class Space, class Field, class Functor>
auto start_reduction(const Space& space, const Field& field, const Functor& functor, bool waits) {
  using Terms = FieldTerms<Field, Functor>;
  static_assert(sizeof...(Ops) == 0 || sizeof...(Ops) == static_cast<std::size_t>(Terms::count),
                "reduce names no reduction, or one for each value of the functor's term");
  TermReduction<typename Field::memory_space> reduction(field.geometry(), Terms::count, Order);
  reduction.template add<Order, TermOps<Ops...>>(space, field, functor);
  reduction.start(space, waits);
  return PendingReduction<ReducedOf<Terms>, typename Field::memory_space>(std::move(reduction));
}

}  // namespace impl

/// Reduces functor(i, j, ...) over a field's owned points on all ranks, without copies (those of a
/// NorthFold's last row and of the edges of blocks). The functor gets local indices, as in
/// parallel_for, and returns a number or a Kokkos::Array of them: any function of the indices and
/// of the fields that it holds. `Ops` (Sum, Max or Min) are the reductions of these values, by
/// default sums. All values travel in one message (two if ordered sums and extrema are mixed).
/// Returns a double, or a std::array of them, the same on every rank.
///
///   struct Budget {
///     Field h, u;
///     KOKKOS_FUNCTION Kokkos::Array<double, 2> operator()(int i, int j) const {
///       return {h(i, j), 0.5 * h(i, j) * u(i, j) * u(i, j)};
///     }
///   };
///   auto [mass, energy] = shard::reduce(space, h, Budget{h, u});
///
/// Sums are added in double in an order that the plan fixes: on each rank in lanes and runs, whose
/// number depends on the number of values and, on a device, on the number of threads; then the
/// ranks' sums in rank order. So the result is bitwise the same from run to run, but `sum` of the
/// same values may differ in the last bits; for equal bits on any number of ranks see below.
/// Without points a sum is 0, a Max -infinity, a Min +infinity. Collective over the mesh; fences
/// `space` once. The functor has no effects: it may run twice at a point. Throws ArgumentError on
/// every rank if some rank owns 2^31 points or more along a dimension.
template <class... Ops, class Space, AnyShardedView Field, class Functor>
auto reduce(const Space& space, const Field& field, const Functor& functor) {
  return impl::start_reduction<Determinism::on_one_mesh, Ops...>(space, field, functor, true)
      .finish();
}
/// The same in a given order. `Determinism::ordered`: each sum is exact and rounded once, so it is
/// bitwise the same for every number of ranks if the functor's values are.
template <Determinism Order, class... Ops, class Space, AnyShardedView Field, class Functor>
auto reduce(const Space& space, const Field& field, const Functor& functor) {
  return impl::start_reduction<Order, Ops...>(space, field, functor, true).finish();
}

namespace impl {

/// A functor of a field and indices, with its field.
template <class Field, class Functor>
struct OfField {
  Field field;
  Functor functor;
  template <class... I>
  KOKKOS_FUNCTION auto operator()(I... i) const {
    return functor(field, i...);
  }
};

template <Determinism Order, class... Ops, class Space, class Set, class Functor>
auto reduce_set(const Space& space, const Set& fields, const Functor& functor) {
  using Field = FieldOf<Set>;
  static_assert(takes_indices_v<Field::rank, Functor, const Field&>,
                "the functor of reduce of a set needs operator()(field, int i, int j, ...) const "
                "with one index for each dimension of the fields, and returns its value");
  using Terms         = FieldTerms<Field, OfField<Field, Functor>>;
  using Result        = ReducedOf<Terms>;
  constexpr int count = Terms::count;
  static_assert(sizeof...(Ops) == 0 || sizeof...(Ops) == static_cast<std::size_t>(count),
                "reduce names no reduction, or one for each value of the functor's term");
  const std::size_t n = fields.size();
  std::vector<Result> results(n);
  if (n == 0) return results;
  require_same_length(fields.data()->geometry(), n);
  TermReduction<typename Field::memory_space> reduction(fields.data()->geometry(),
                                                        static_cast<int>(n) * count, Order);
  for (std::size_t f = 0; f < n; ++f)
    reduction.template add<Order, TermOps<Ops...>>(
        space, fields.data()[f], OfField<Field, Functor>{fields.data()[f], functor},
        static_cast<int>(f) * count);
  reduction.start(space, true);
  std::vector<double> values(n * static_cast<std::size_t>(count));
  reduction.finish(values.data());
  for (std::size_t f = 0; f < n; ++f)
    if constexpr (std::is_same_v<Result, double>)
      results[f] = values[f];
    else
      for (std::size_t k = 0; k < results[f].size(); ++k)
        results[f][k] = values[f * results[f].size() + k];
  return results;
}

}  // namespace impl

/// `reduce` of each field of a set, all in one message. The functor gets the field before the
/// indices: functor(field, i, j, ...). Returns a vector with one result for each field. All fields
/// are sharded over the same ranks. The number of fields is the same on every rank: otherwise every
/// rank gets an AgreementError with both numbers (a rank whose set is empty has no mesh to ask, so
/// a set is empty on all ranks or on none). Comparing the numbers costs one small message more.
template <class... Ops, class Space, FieldSet Set, class Functor>
auto reduce(const Space& space, const Set& fields, const Functor& functor) {
  return impl::reduce_set<Determinism::on_one_mesh, Ops...>(space, fields, functor);
}
/// The same in a given order.
template <Determinism Order, class... Ops, class Space, FieldSet Set, class Functor>
auto reduce(const Space& space, const Set& fields, const Functor& functor) {
  return impl::reduce_set<Order, Ops...>(space, fields, functor);
}

/// `reduce` in two halves: runs the kernel, fences `space` and sends this rank's values. `finish()`
/// of the returned PendingReduction waits for the other ranks; other work can run in between.
/// Several reductions may be in progress; all ranks start them in the same order.
template <class... Ops, class Space, AnyShardedView Field, class Functor>
auto start_reduce(const Space& space, const Field& field, const Functor& functor) {
  return impl::start_reduction<Determinism::on_one_mesh, Ops...>(space, field, functor, false);
}
/// The same in a given order.
template <Determinism Order, class... Ops, class Space, AnyShardedView Field, class Functor>
auto start_reduce(const Space& space, const Field& field, const Functor& functor) {
  return impl::start_reduction<Order, Ops...>(space, field, functor, false);
}

}  // namespace shard

#endif
