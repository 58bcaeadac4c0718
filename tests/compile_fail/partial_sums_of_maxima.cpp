// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the Partials of a field have one reduction: a sum of largest values isn't the largest of
// sums
#include <shard/shard.hpp>

struct X;
struct Y;

using Field = shard::ShardedView<double**, Kokkos::LayoutRight, shard::Partial<X, shard::Sum>,
                                 shard::Partial<Y, shard::Max>>;

shard::index_t rows(const Field& t) { return t.extent(0); }
