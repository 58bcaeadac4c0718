// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a WindowAttention has one to three positive sizes
// expect: a GridAttention has one to three positive sizes
// expect: a RingAttention's fields are [batch, channel, sequence]
#include <shard/layers/attention/attention_ring.hpp>

shard::WindowAttention<4, 0> windows;
shard::GridAttention<2, 2, 2, 2> grid;

struct Lat;
using Plane = shard::ShardedView<double****, Kokkos::LayoutRight, shard::ShardDim<2, Lat>>;

auto state_of(const Plane& q) { return shard::RingAttention{}.state(q); }
