// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a mesh axis that shards a dimension can't be Partial too
#include <shard/shard.hpp>

struct X;

using Field = shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, X>,
                                 shard::Partial<X, shard::Sum>>;

shard::index_t rows(const Field& t) { return t.extent(0); }
