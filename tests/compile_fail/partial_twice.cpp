// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a mesh axis has at most one Partial
#include <shard/shard.hpp>

struct X;

using Field = shard::ShardedView<double**, Kokkos::LayoutRight, shard::Partial<X, shard::Sum>,
                                 shard::Partial<X, shard::Sum>>;

shard::index_t rows(const Field& t) { return t.extent(0); }
