// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a redistribution of maxima or minima has no tangent and no pullback
// expect: the cotangent of a Partial sum is replicated: cotangent_t<X>
// expect: a reduction's result is a View of rank 0 on the host
// expect: the function of operation_graph takes the graph as auto& and each part of the
#include <shard/autodiff/operation_graph.hpp>
#include <shard/shard.hpp>

struct X;

using Rows    = shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, X>>;
using Largest = shard::ShardedView<double**, Kokkos::LayoutRight, shard::Partial<X, shard::Max>>;
using Summed  = shard::ShardedView<double**, Kokkos::LayoutRight, shard::Partial<X, shard::Sum>>;
const Kokkos::DefaultExecutionSpace space;

void of_maxima(const Rows& dx, const Rows& dy, const Largest& x) {
  shard::Redistribute{}.pullback(space, dx, dy, x);
}
void to_contributions(const Summed& dx, const Rows& dy, const Summed& x) {
  shard::Redistribute{}.pullback(space, dx, dy, x);
}
void to_a_line(const Kokkos::View<double*, Kokkos::HostSpace>& y, const Rows& x) {
  shard::GlobalSum<>{}.apply(space, y, x);
}
auto with_fields(const Rows& x) {
  return shard::operation_graph(
      x, [](auto& graph, const Rows& part) { return graph.run(shard::Redistribute{}, part); });
}
