// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_REDUCE_REDUCTIONS_HPP
#define SHARD_REDUCE_REDUCTIONS_HPP

#include <Kokkos_Core.hpp>

#include <type_traits>

#include "shard/exchange/determinism.hpp"
#include "shard/reduce/impl/reduction_sums.hpp"
#include "shard/view/impl/same_points.hpp"
#include "shard/view/sharded_view.hpp"

/// \file
/// Reductions of a field's owned elements over all ranks. Each is collective over the mesh and
/// fences `space` once (weighted means twice). The result is bitwise the same on every rank and
/// from run to run. Fields have integers, float or double. A sum or a dot product of integers is an
/// index_t (exact modulo 2^64); all other results are double.
///
/// A mean of integers uses the exact sum, so it doesn't wrap.
///
/// Elements that are copies of others (in the last row of a NorthFold, on the edges of blocks) are
/// left out: sums, means and dot products count each point of the grid once. Their gradient is 0.
///
/// `Determinism::on_one_mesh`: each rank adds runs of 256 elements, then the runs, in double; then
/// the ranks' sums are added in rank order. `Determinism::ordered`: the exact sum, rounded once, so
/// it is bitwise the same for any number of ranks, mesh, partition, layout and space, without
/// intermediate overflow (impl::ExactSum, on a host impl::FoldedSum). Infinities and NaNs behave as
/// in plain addition.
///
/// A pullback takes g = dJ/d(result), the same on every rank, and sets the owned elements of the
/// gradient, a field of float or double with the same elements. It is asynchronous.

namespace shard {

namespace impl {

template <class Field>
constexpr bool check_reduced() {
  using T = typename Field::non_const_value_type;
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double> ||
                    (std::is_integral_v<T> && !std::is_same_v<T, bool>),
                "reductions are of fields of integers, float or double");
  return true;
}

template <class A, class B>
void check_alike(const char* function, const A& a, const B& b) {
  static_assert(A::rank == B::rank, "the fields have the same rank");
  require_same_points(function, a.geometry(), b.geometry());
}

/// The type of a sum over the elements of a Field.
template <class... Field>
using SumOf = std::conditional_t<(std::is_integral_v<typename Field::non_const_value_type> && ...),
                                 index_t, double>;

/// The elements of a const or other field, in the order of a `Like`.
template <class Like, class Field>
auto read(const Field& f) {
  static_assert(check_reduced<Field>());
  if constexpr (std::is_const_v<typename Field::value_type>)
    return cell_values<Like>(f);
  else
    return as_const(cell_values<Like>(f));
}

/// The number of elements, without copies.
template <class Field>
double world_cells(const Field& x) {
  double cells = 1.0, kept = 1.0;
  constexpr BlockDims dims = block_dims<Field>();
  if constexpr (dims.block >= 0)
    if (has_shared_points(x.geometry(), dims.block))
      kept = BlockCopies<typename Field::memory_space>::of(x.geometry(), dims.block)->share;
  for (int d = 0; d < Field::rank; ++d) {
    const BoundarySide& high = FieldTypeOf<Field>::types[Geometry::at(d)].high;
    const auto n             = static_cast<double>(x.global_extent(d));
    cells *= n;
    if (n == 0.0 || !shares_row(high.kind)) continue;
    const index_t columns = x.global_extent(high.longitude);
    const auto copied     = copied_longitudes(high, columns);
    index_t copies        = 0;
    for (int k = 0; k < 2; ++k)
      copies += copied.end[k] > copied.begin[k] ? copied.end[k] - copied.begin[k] : 0;
    kept -= static_cast<double>(copies) / (n * static_cast<double>(columns));
  }
  return Kokkos::round(cells * kept);
}

}  // namespace impl

/// The sum of all elements.
template <Determinism Order = Determinism::on_one_mesh, class Space, AnyShardedView Field>
impl::SumOf<Field> sum(const Space& space, const Field& x) {
  const auto a = impl::read<Field>(x);
  return impl::world_sum<Order, impl::SumOf<Field>>(space, x, impl::ValueTerm{}, a, a);
}
/// dx = g.
template <class Space, AnyShardedView DX>
void sum_pullback(const Space& space, const DX& dx, double g) {
  impl::set_gradient(space, dx, impl::ConstantRule{}, impl::read<DX>(dx), g);
}

/// The sum divided by the number of elements; NaN if there are none. For integers the exact sum,
/// even beyond 64 bits, is rounded to double once.
template <Determinism Order = Determinism::on_one_mesh, class Space, AnyShardedView Field>
double mean(const Space& space, const Field& x) {
  constexpr bool exact = std::is_integral_v<typename Field::non_const_value_type>;
  const auto a         = impl::read<Field>(x);
  return impl::world_sum < exact ? Determinism::ordered : Order,
         double > (space, x, impl::ValueTerm{}, a, a) / impl::world_cells(x);
}
/// dx = g / elements.
template <class Space, AnyShardedView DX>
void mean_pullback(const Space& space, const DX& dx, double g) {
  sum_pullback(space, dx, g / impl::world_cells(dx));
}

/// The sum of the products of two fields' elements. Both must have the same partitions (else
/// ArgumentError on every rank); halos, layouts and value types may differ.
template <Determinism Order = Determinism::on_one_mesh, class Space, AnyShardedView A,
          AnyShardedView B>
impl::SumOf<A, B> dot(const Space& space, const A& a, const B& b) {
  impl::check_alike("dot", a, b);
  return impl::world_sum<Order, impl::SumOf<A, B>>(space, a, impl::ProductTerm{}, impl::read<A>(a),
                                                   impl::read<A>(b));
}
/// da = g b. That of b: the same with a in b's place.
template <class Space, AnyShardedView DA, AnyShardedView B>
void dot_pullback(const Space& space, const DA& da, const B& b, double g) {
  impl::check_alike("dot_pullback", da, b);
  impl::set_gradient(space, da, impl::ValueRule{}, impl::read<DA>(b), g);
}

/// The sum of the squared differences from the mean, over the number of elements less `ddof`: 0 for
/// the variance of all elements (NumPy's default), 1 for an estimate from a sample (PyTorch's). NaN
/// if there are no more elements than `ddof`. Two passes, so the mean doesn't cancel digits.
/// `ordered`: the differences from the rounded mean are rounded, everything else is exact, so the
/// bits are the same on every mesh. Fences `space` twice.
template <Determinism Order = Determinism::on_one_mesh, class Space, AnyShardedView Field>
double variance(const Space& space, const Field& x, int ddof = 0) {
  const double cells = impl::world_cells(x) - ddof, centre = mean<Order>(space, x);
  if (!(cells > 0.0)) return Kokkos::Experimental::quiet_NaN_v<double>;
  const auto a = impl::read<Field>(x);
  return impl::world_sum<Order, double>(space, x, impl::DeviationTerm{centre}, a, a) / cells;
}
/// dx = 2 g (x - mean) / (elements - ddof). Collective; fences `space` once.
template <Determinism Order = Determinism::on_one_mesh, class Space, AnyShardedView DX,
          AnyShardedView X>
void variance_pullback(const Space& space, const DX& dx, const X& x, double g, int ddof = 0) {
  impl::check_alike("variance_pullback", dx, x);
  impl::set_gradient(space, dx, impl::ValueRule{}, impl::read<DX>(x),
                     2.0 * g / (impl::world_cells(x) - ddof), mean<Order>(space, x));
}

/// The sum of the magnitudes.
template <Determinism Order = Determinism::on_one_mesh, class Space, AnyShardedView Field>
double norm1(const Space& space, const Field& x) {
  const auto a = impl::read<Field>(x);
  return impl::world_sum<Order, double>(space, x, impl::MagnitudeTerm{}, a, a);
}
/// dx = g sign(x), 0 where x is 0.
template <class Space, AnyShardedView DX, AnyShardedView X>
void norm1_pullback(const Space& space, const DX& dx, const X& x, double g) {
  impl::check_alike("norm1_pullback", dx, x);
  impl::set_gradient(space, dx, impl::SignRule{}, impl::read<DX>(x), g);
}

/// The square root of the sum of the squares. `ordered`: squares neither overflow nor underflow.
template <Determinism Order = Determinism::on_one_mesh, class Space, AnyShardedView Field>
double norm2(const Space& space, const Field& x) {
  const auto a = impl::read<Field>(x);
  if constexpr (Order == Determinism::ordered)
    return impl::ExactSum::root(impl::world_exact_sum(space, x, impl::ProductTerm{}, a, a).data());
  else
    return Kokkos::sqrt(impl::world_sum<Order, double>(space, x, impl::ProductTerm{}, a, a));
}
/// dx = g x / norm, with the norm that norm2 returned; 0 where x is 0.
template <class Space, AnyShardedView DX, AnyShardedView X>
void norm2_pullback(const Space& space, const DX& dx, const X& x, double norm, double g) {
  impl::check_alike("norm2_pullback", dx, x);
  impl::set_gradient(space, dx, impl::ValueRule{}, impl::read<DX>(x), g / norm);
}

/// The smallest value; NaN if there is a NaN; -0 is less than +0. Throws ArgumentError on every
/// rank if there are no elements.
template <class Space, AnyShardedView Field>
typename Field::non_const_value_type min(const Space& space, const Field& x) {
  static_assert(impl::check_reduced<Field>());
  return impl::world_extremum<typename Field::non_const_value_type>("min", space, x,
                                                                    impl::Extremum::least);
}
/// The largest value; as min.
template <class Space, AnyShardedView Field>
typename Field::non_const_value_type max(const Space& space, const Field& x) {
  static_assert(impl::check_reduced<Field>());
  return impl::world_extremum<typename Field::non_const_value_type>("max", space, x,
                                                                    impl::Extremum::greatest);
}
/// The largest magnitude; as min.
template <class Space, AnyShardedView Field>
double norm_max(const Space& space, const Field& x) {
  static_assert(impl::check_reduced<Field>());
  return impl::world_extremum<double>("norm_max", space, x, impl::Extremum::greatest_magnitude);
}

namespace impl {

template <class T, class Space, class DX, class X>
void extremum_pullback(const char* function, const Space& space, const DX& dx, const X& x, T value,
                       bool magnitude, double g) {
  check_alike(function, dx, x);
  const auto a = read<X>(x);
  const auto shared =
      world_sum<Determinism::on_one_mesh, index_t>(space, x, CountTerm<T>{value, magnitude}, a, a);
  set_gradient(space, dx, ExtremumRule<T>{value, magnitude}, read<DX>(x),
               g / static_cast<double>(shared));
}

}  // namespace impl

/// dx = g / n in the n elements equal to `value`, the result of min or max, 0 elsewhere (PyTorch's
/// amin, amax). Collective; fences `space` once.
template <class Space, AnyShardedView DX, AnyShardedView X>
void min_pullback(const Space& space, const DX& dx, const X& x,
                  typename X::non_const_value_type value, double g) {
  impl::extremum_pullback("min_pullback", space, dx, x, value, false, g);
}
/// As min_pullback.
template <class Space, AnyShardedView DX, AnyShardedView X>
void max_pullback(const Space& space, const DX& dx, const X& x,
                  typename X::non_const_value_type value, double g) {
  impl::extremum_pullback("max_pullback", space, dx, x, value, false, g);
}
/// dx = g sign(x) / n in the n elements whose magnitude is `norm`, 0 elsewhere. Collective; fences
/// `space` once.
template <class Space, AnyShardedView DX, AnyShardedView X>
void norm_max_pullback(const Space& space, const DX& dx, const X& x, double norm, double g) {
  impl::extremum_pullback("norm_max_pullback", space, dx, x, norm, true, g);
}

/// One weight for each of this rank's rows along dimension Dim, such as areas (see area_weights),
/// in memory that the field's space can access.
template <int Dim, class View>
struct RowWeights {
  View view;  ///< of rank 1, float or double, extent(Dim) of the field
};
/// Weights along dimension Dim.
template <int Dim, class View>
RowWeights<Dim, View> along(const View& view) {
  static_assert(View::rank() == 1, "the weights of rows are a View of rank 1");
  return {view};
}

namespace impl {

/// Weights element by element, in the order of a `Like`; checked.
template <class Like, int Dim, class View>
auto weight_values(const char* function, const Like& like, const RowWeights<Dim, View>& weights) {
  static_assert(Dim >= 0 && Dim < Like::rank, "the field has no such dimension");
  using W = typename View::non_const_value_type;
  static_assert(std::is_same_v<W, float> || std::is_same_v<W, double>,
                "weights are float or double");
  require_row_weights(function, like.geometry(), Dim, static_cast<index_t>(weights.view.extent(0)));
  CellValues<const W> values;
  values.origin                     = weights.view.data();
  values.stride[run_dim<Like>(Dim)] = static_cast<index_t>(weights.view.stride(0));
  return values;
}
template <class Like, AnyShardedView Field>
auto weight_values(const char* function, const Like& like, const Field& weights) {
  check_alike(function, like, weights);
  return read<Like>(weights);
}

}  // namespace impl

/// The sum of w x over the sum of w: Weights are `along<Dim>(view)`, per row, or a field with the
/// elements of x. `ordered`: both sums are exact, so two roundings and the quotient's. Throws
/// ArgumentError on every rank if some rank's weights aren't as many as its rows.
template <Determinism Order = Determinism::on_one_mesh, class Space, AnyShardedView Field,
          class Weights>
double weighted_mean(const Space& space, const Field& x, const Weights& weights) {
  const auto w = impl::weight_values("weighted_mean", x, weights);
  return impl::world_sum<Order, double>(space, x, impl::ProductTerm{}, impl::read<Field>(x), w) /
         impl::world_sum<Order, double>(space, x, impl::ValueTerm{}, w, w);
}
/// dx = g w / (sum of w). Collective; fences `space` once.
template <Determinism Order = Determinism::on_one_mesh, class Space, AnyShardedView DX,
          class Weights>
void weighted_mean_pullback(const Space& space, const DX& dx, const Weights& weights, double g) {
  const auto w = impl::weight_values("weighted_mean_pullback", dx, weights);
  impl::set_gradient(space, dx, impl::ValueRule{}, w,
                     g / impl::world_sum<Order, double>(space, dx, impl::ValueTerm{}, w, w));
}
/// The gradient of weights that are a field: dw = g (x - mean) / (sum of w), with the mean that
/// weighted_mean returned. Collective; fences `space` once.
template <Determinism Order = Determinism::on_one_mesh, class Space, AnyShardedView DW,
          AnyShardedView X, AnyShardedView Weights>
void weighted_mean_pullback_weights(const Space& space, const DW& dw, const X& x,
                                    const Weights& weights, double mean, double g) {
  impl::check_alike("weighted_mean_pullback_weights", dw, x);
  const auto w = impl::weight_values("weighted_mean_pullback_weights", dw, weights);
  impl::set_gradient(space, dw, impl::ValueRule{}, impl::read<DW>(x),
                     g / impl::world_sum<Order, double>(space, dw, impl::ValueTerm{}, w, w), mean);
}

}  // namespace shard

#endif
