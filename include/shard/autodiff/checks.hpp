// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_AUTODIFF_CHECKS_HPP
#define SHARD_AUTODIFF_CHECKS_HPP

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "shard/autodiff/operation.hpp"
#include "shard/redistribute/distribute.hpp"

/// \file
/// Checks of operations, for tests. Each is collective over the fields' mesh, returns the same
/// number on every rank, allocates and fences.

namespace shard {

/// The dot-product test of a pair of tangent and adjoint at x (Claerbout 2014, "dot-product test"):
/// | <J tx, dy> - <tx, J' dy> | / (|J tx| |dy| + |tx| |J' dy|), rounding for a true pair. `x` is
/// any input (its halos are filled by apply), `tx` and `dy` are any values of the types of x and y.
template <class Space, class Op, class X, class Y>
double dot_product_error(const Space& space, const Op& op, const X& x, const X& tx, const Y& dy) {
  const auto norm = [&](const auto& v) { return std::sqrt(impl::dot_value(space, v, v)); };
  const Y y = impl::like_value(dy, "shard::y"), ty = impl::like_value(dy, "shard::ty"),
          cotangent = impl::like_value(dy, "shard::dy");
  const X dx = impl::like_value(x, "shard::dx"), tangent = impl::like_value(tx, "shard::tx");
  impl::copy_value(space, tangent, tx);
  impl::copy_value(space, cotangent, dy);
  op.apply(space, y, x);
  impl::call_pushforward(op, space, ty, tangent, x);
  impl::call_pullback(op, space, dx, cotangent, x);
  const double left = impl::dot_value(space, ty, dy), right = impl::dot_value(space, tx, dx);
  const double scale = norm(ty) * norm(dy) + norm(tx) * norm(dx);
  return scale > 0.0 ? std::abs(left - right) / scale : 0.0;
}

/// The relative difference of a tangent from central differences: | J tx - (f(x + h tx) - f(x - h
/// tx)) / 2h | / | J tx |, the smaller of the two steps h and h / 10 (one suffers from rounding,
/// the other from curvature). About 1e-8 with h = 1e-4 for a right tangent of smooth operations in
/// double.
template <class Space, class Op, class X, class Y>
double tangent_error(const Space& space, const Op& op, const X& x, const X& tx, const Y& like_y,
                     double h = 1e-4) {
  const Y y = impl::like_value(like_y, "shard::y"), ty = impl::like_value(like_y, "shard::ty"),
          up    = impl::like_value(like_y, "shard::up"),
          down  = impl::like_value(like_y, "shard::down");
  const X moved = impl::like_value(x, "shard::moved"), tangent = impl::like_value(tx, "shard::tx"),
          direction = impl::like_value(tx, "shard::direction");
  impl::copy_value(space, direction, tx);
  const auto at = [&](double step, const Y& to) {
    impl::copy_value(space, moved, x);
    impl::add_value(space, moved, direction, step);
    op.apply(space, to, moved);
  };
  double least = -1.0;
  for (const double step : {h, 0.1 * h}) {
    at(step, up);
    at(-step, down);
    op.apply(space, y, x);
    impl::copy_value(space, tangent, tx);
    impl::call_pushforward(op, space, ty, tangent, x);
    const double size = impl::dot_value(space, ty, ty);
    impl::add_value(space, ty, up, -0.5 / step);
    impl::add_value(space, ty, down, 0.5 / step);
    const double off   = impl::dot_value(space, ty, ty);
    const double error = std::sqrt(size > 0.0 ? off / size : off);
    least              = least < 0.0 ? error : std::min(least, error);
  }
  return least;
}

/// The same for an adjoint: | <dy, f(x + h tx) - f(x - h tx)> / 2h - <J' dy, tx> | over the sum of
/// both sides' magnitudes, the smaller of two steps. It needs no pushforward.
template <class Space, class Op, class X, class Y>
double gradient_error(const Space& space, const Op& op, const X& x, const X& tx, const Y& dy,
                      double h = 1e-4) {
  const Y y = impl::like_value(dy, "shard::y"), cotangent = impl::like_value(dy, "shard::dy");
  const X moved = impl::like_value(x, "shard::moved"), dx = impl::like_value(x, "shard::dx"),
          direction = impl::like_value(tx, "shard::direction");
  impl::copy_value(space, direction, tx);
  const auto at = [&](double step) {
    impl::copy_value(space, moved, x);
    impl::add_value(space, moved, direction, step);
    op.apply(space, y, moved);
    return impl::dot_value(space, y, dy);
  };
  double least = -1.0;
  for (const double step : {h, 0.1 * h}) {
    const double difference = (at(step) - at(-step)) / (2.0 * step);
    op.apply(space, y, x);
    impl::copy_value(space, cotangent, dy);
    impl::call_pullback(op, space, dx, cotangent, x);
    const double slope = impl::dot_value(space, dx, tx);
    const double size  = std::abs(slope) + std::abs(difference);
    const double error = size > 0.0 ? std::abs(slope - difference) / size : 0.0;
    least              = least < 0.0 ? error : std::min(least, error);
  }
  return least;
}

/// The result of a Taylor test.
struct TaylorTest {
  std::vector<double> remainders;  ///< of steps that are a decade apart, the largest first

  /// The decrease of the logarithm from remainder k to the next, per decade: 2 where the tangent is
  /// right, 1 where it is wrong.
  double slope(std::size_t k) const { return std::log10(remainders[k] / remainders[k + 1]); }
  /// The slope that differs most from 2.
  double worst_slope() const {
    double worst = 2.0;
    for (std::size_t k = 0; k + 1 < remainders.size(); ++k)
      if (!(std::abs(slope(k) - 2.0) <= std::abs(worst - 2.0))) worst = slope(k);
    return worst;
  }
};

/// The Taylor test of a tangent: the norms of f(x + s tx) - f(x) - s J tx for the steps s =
/// `largest`, and `decades` more, each a tenth of the one before. They decrease with the square of
/// the step. For an operation that is linear they are rounding. So are those of steps whose square
/// is below the rounding of f.
template <class Space, class Op, class X, class Y>
TaylorTest taylor_test(const Space& space, const Op& op, const X& x, const X& tx, const Y& like_y,
                       double largest = 1.0, int decades = 5) {
  const Y y = impl::like_value(like_y, "shard::y"), ty = impl::like_value(like_y, "shard::ty"),
          moved_y = impl::like_value(like_y, "shard::moved");
  const X at = impl::like_value(x, "shard::x"), moved = impl::like_value(x, "shard::moved"),
          tangent = impl::like_value(tx, "shard::tx");
  impl::copy_value(space, at, x);
  op.apply(space, y, at);
  impl::copy_value(space, tangent, tx);
  impl::call_pushforward(op, space, ty, tangent, at);
  TaylorTest result;
  double step = largest;
  for (int k = 0; k <= decades; ++k, step /= 10.0) {
    impl::copy_value(space, moved, x);
    impl::add_value(space, moved, tx, step);
    op.apply(space, moved_y, moved);
    impl::add_value(space, moved_y, y, -1.0);
    impl::add_value(space, moved_y, ty, -step);
    result.remainders.push_back(std::sqrt(impl::dot_value(space, moved_y, moved_y)));
  }
  return result;
}

namespace impl {

template <class>
inline constexpr int one_rank = 1;
template <class... A>
Mesh<A...> mesh_of_one(AxisList<A...>) {
  static_assert(sizeof...(A) > 0, "sharding_error is for fields that are sharded over some axis");
  return Mesh<A...>(MPI_COMM_SELF, {one_rank<A>...});
}
/// A field with the extents of `like`, on this rank alone.
template <class Field>
Field on_one_rank(const Field& like) {
  return [&]<int... D>(std::integer_sequence<int, D...>) {
    const auto mesh = mesh_of_one(
        typename Concatenate<typename AxesOf<typename Field::template axis<D>>::type...>::type{});
    return Field(like.label(), mesh, Extents<Field::rank>{like.global_extent(D)...});
  }
  (std::make_integer_sequence<int, Field::rank>{});
}

/// An array with the global extents of a field.
template <class Field>
auto global_array(const Field& f) {
  Kokkos::LayoutRight extents;
  for (int d = 0; d < Field::rank; ++d)
    extents.dimension[Geometry::at(d)] = static_cast<std::size_t>(f.global_extent(d));
  return Kokkos::View<typename Field::view_type::non_const_data_type, Kokkos::LayoutRight,
                      typename Field::memory_space>("shard::global values", extents);
}
/// All values, in the order of global indices, on every rank.
template <class Space, class Field>
std::vector<double> global_values(const Space& space, const Field& f) {
  const auto array = global_array(f);
  for (int root = 0; root < f.any_geometry().mesh->size(); ++root) gather(space, array, f, root);
  space.fence("shard::sharding_error: values");
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), array);
  return std::vector<double>(host.data(), host.data() + host.size());
}
/// The inverse; `values` are the same on every rank.
template <class Space, class Field>
void set_global_values(const Space& space, const Field& f, const std::vector<double>& values) {
  const auto array = global_array(f);
  const auto host  = Kokkos::create_mirror_view(array);
  std::copy(values.begin(), values.end(), host.data());
  Kokkos::deep_copy(space, array, host);
  distribute(space, f, array);
  space.fence("shard::sharding_error: an array goes");
}

/// The largest difference, over the largest magnitude; infinite if there is a NaN in one alone.
inline double difference_of(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0.0, scale = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i])) return std::numeric_limits<double>::infinity();
    if (std::isnan(a[i])) continue;
    most  = std::max(most, std::abs(a[i] - b[i]));
    scale = std::max(scale, std::abs(b[i]));
  }
  return scale > 0.0 ? most / scale : most;
}

}  // namespace impl

/// What sharding changes.
struct ShardingErrors {
  double result  = 0.0;  ///< of y: the largest difference, over the largest magnitude
  double adjoint = 0.0;  ///< the same of dx = J' dy
};

/// Whether an operation does the same on shards as on the whole: `make(x)` makes it for fields like
/// x; it is applied to x, and by each rank alone to a field of the same type with all values of x.
/// Then the pullbacks of one dy, numbers from -0.5 to 0.5 that depend on the global index. Both
/// errors are 0, or rounding where sums have another order. A wrong one at a shard's edges (a halo
/// that isn't exchanged or too narrow, a sum over one rank, an adjoint that keeps what belongs to a
/// neighbour) is large, so run it on several ranks, with uneven partitions. For y of one field.
/// Meant for small fields: each rank holds all of them.
///
///   shard::sharding_error(space, [](const auto&) { return Advection{dt}; }, x).adjoint
template <class Space, class Make, AnyShardedView X>
ShardingErrors sharding_error(const Space& space, const Make& make, const X& x) {
  const auto op = make(x);
  const auto y  = impl::make_output(op, x);
  const auto dy = impl::like_value(y, "shard::dy");
  const auto dx = impl::like_value(x, "shard::dx"), at = impl::like_value(x, "shard::x");
  const auto values = impl::global_values(space, x);
  impl::set_global_values(space, at, values);

  const X whole       = impl::on_one_rank(x);
  const auto serial   = make(whole);
  const auto serial_y = impl::make_output(serial, whole);
  impl::set_global_values(space, whole, values);
  op.apply(space, y, at);
  serial.apply(space, serial_y, whole);
  ShardingErrors errors;
  const auto wanted = impl::global_values(space, serial_y);
  errors.result     = impl::difference_of(impl::global_values(space, y), wanted);

  std::vector<double> cotangent(wanted.size());
  for (std::size_t i = 0; i < cotangent.size(); ++i)
    cotangent[i] = static_cast<double>(i * 2654435761U % 1000003U) / 1000003.0 - 0.5;
  const auto serial_dy = impl::like_value(serial_y, "shard::dy");
  const auto serial_dx = impl::like_value(whole, "shard::dx");
  impl::set_global_values(space, dy, cotangent);
  impl::set_global_values(space, serial_dy, cotangent);
  impl::call_pullback(op, space, dx, dy, at);
  impl::call_pullback(serial, space, serial_dx, serial_dy, whole);
  errors.adjoint =
      impl::difference_of(impl::global_values(space, dx), impl::global_values(space, serial_dx));
  return errors;
}

}  // namespace shard

#endif
