// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: dimensions count from 0
// expect: a Shard names a dimension that the data type does not have
// expect: a Partial is at the position of its own mesh axis
// expect: a reduction is Sum, Max or Min
#include <shard/shard.hpp>

struct X;
struct Y;
struct Product;

using Grid = shard::Mesh<X, Y>;
template <class... P>
using Plane = shard::ShardedFrom<double**, Kokkos::LayoutRight, Grid, P...>;

constexpr shard::Shard<-1> from_the_end;
shard::index_t rows(const Plane<shard::Shard<2>, shard::Replicate>& t) { return t.extent(0); }
shard::index_t rows(const Plane<shard::Partial<Y, shard::Sum>, shard::Replicate>& t) {
  return t.extent(0);
}
shard::index_t rows(const Plane<shard::Partial<X, Product>, shard::Replicate>& t) {
  return t.extent(0);
}
