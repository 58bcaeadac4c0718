// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a Custom boundary without an adjoint functor has no pullback
#include <shard/shard.hpp>

struct X;

struct Inflow {
  template <class F>
  double operator()(const F& f, const shard::OutsidePoint<1>&) const {
    return f(0);
  }
};
using Field = shard::ShardedView<double*, Kokkos::LayoutRight,
                                 shard::ShardDim<0, X, shard::Halo<1>, shard::Custom<Inflow>>>;

void pull_back(const shard::Exchange<Field>& halos) {
  halos.with(Inflow{}).adjoint(Kokkos::DefaultExecutionSpace());
}
