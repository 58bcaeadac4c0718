// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef SHARD_SOLVE_VECTOR_HPP
#define SHARD_SOLVE_VECTOR_HPP

#include <array>
#include <tuple>
#include <type_traits>

#include "shard/solve/impl/vector_dots.hpp"

/// \file
/// Vectors of the solvers: a ShardedView of float or double, or complex of them, or a std::tuple of
/// these (velocity and pressure, say). Only owned points count. Sums are in double. The dot product
/// of complex vectors is the real part of a'b, with a' conjugated.

namespace shard {

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
