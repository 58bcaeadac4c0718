// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a WindowAttention has one to three positive sizes
// expect: a GridAttention has one to three positive sizes
// expect: a RingAttention's fields are [batch, channel, sequence]
// expect: a ColumnAttention's first spatial dimension is unsharded
// expect: LearnedQueries' first spatial dimension is unsharded
#include <shard/layers/attention/attention_column.hpp>
// expect: a NeighbourhoodAttention has an odd kernel
// expect: the boundary of a NeighbourhoodAttention's keys and values is Zero
// expect: the ShardedView's halo is narrower than the layer needs
#include <shard/layers/attention/attention_neighbourhood.hpp>
#include <shard/layers/attention/attention_ring.hpp>
#include <shard/layers/pointwise/learned_queries.hpp>

shard::WindowAttention<4, 0> windows;
shard::GridAttention<2, 2, 2, 2> grid;

struct Lat;
using Plane = shard::ShardedView<double****, Kokkos::LayoutRight, shard::ShardDim<2, Lat>>;

auto state_of(const Plane& q) { return shard::RingAttention{}.state(q); }
auto of_columns(const Plane& q) { return shard::ColumnAttention{}.state(q); }
void queries(const Kokkos::DefaultExecutionSpace& space, const Plane& x) {
  const shard::LearnedQueries layer{2, 4};
  layer.apply(space, shard::make_parameters<double>(layer, "weight"), x, x);
}

using Even = shard::NeighbourhoodAttention<shard::Kernel<3, 4>>;
auto state_of_even(const Plane& q) { return Even{}.state(q); }

template <class Keys>
void neighbours(const Plane& q, const Keys& k) {
  const shard::NeighbourhoodAttention<shard::Kernel<3, 3>> layer;
  auto state = layer.state(q);
  layer.apply(Kokkos::DefaultExecutionSpace(), state, q, q, k, k);
}
using Clamped = shard::ShardedView<double****, Kokkos::LayoutRight,
                                   shard::ShardDim<2, Lat, shard::Halo<2>, shard::Clamp>>;
void clamped(const Plane& q, const Clamped& k) { neighbours(q, k); }
void narrow(const Plane& q) { neighbours(q, q); }
