// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: reductions are of fields of integers, float or double
// expect: the fields have the same rank
// expect: a gradient is a field of float or double that isn't const
// expect: the weights of rows are a View of rank 1
// expect: weights are float or double
// expect: the field has no such dimension
// expect: reduce names no reduction, or one for each value of the functor's term
// expect: the functor of reduce needs operator()(int i, int j, ...) const with one index for
// expect: the functor of reduce of a set needs operator()(field, int i, int j, ...) const
#include <shard/shard.hpp>

#include <vector>

struct X;

template <class T>
using Field = shard::ShardedView<T, Kokkos::LayoutRight, shard::ShardDim<0, X>>;
const Kokkos::DefaultExecutionSpace space;

bool any(const Field<bool**>& x) { return shard::sum(space, x) != 0; }
double dot(const Field<double**>& a, const Field<double*>& b) { return shard::dot(space, a, b); }
void to_integers(const Field<int**>& dx) { shard::sum_pullback(space, dx, 1); }
double by_planes(const Field<double**>& x, const Kokkos::View<double**>& w) {
  return shard::weighted_mean(space, x, shard::along<0>(w));
}
double by_counts(const Field<double**>& x, const Kokkos::View<int*>& w) {
  return shard::weighted_mean(space, x, shard::along<0>(w));
}
double along_the_third(const Field<double**>& x, const Kokkos::View<double*>& w) {
  return shard::weighted_mean(space, x, shard::along<2>(w));
}

struct Term {
  Kokkos::Array<double, 2> operator()(int, int) const { return {}; }
};
auto three(const Field<double**>& x) {
  return shard::reduce<shard::Sum, shard::Max, shard::Min>(space, x, Term{});
}

struct KokkosTerm {
  void operator()(int, int, double& sum) const { sum += 1; }
};
auto as_kokkos(const Field<double**>& x) { return shard::reduce(space, x, KokkosTerm{}); }
struct SetTerm {
  double operator()(int, int) const { return 1; }
};
auto of_each(const std::vector<Field<double**>>& x) { return shard::reduce(space, x, SetTerm{}); }
