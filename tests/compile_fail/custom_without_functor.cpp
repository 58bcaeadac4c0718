// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: fields with a Custom boundary are exchanged with its functors
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

void fill(const Field& f) { shard::exchange(Kokkos::DefaultExecutionSpace(), f); }
