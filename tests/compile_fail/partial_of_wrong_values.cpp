// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a reduction needs an arithmetic value type
// expect: Max and Min need values that have an order
#include <shard/shard.hpp>

struct X;

using Flags = shard::ShardedView<bool**, Kokkos::LayoutRight, shard::Partial<X, shard::Sum>>;
using Waves = shard::ShardedView<Kokkos::complex<double>**, Kokkos::LayoutRight,
                                 shard::Partial<X, shard::Max>>;

shard::index_t rows(const Flags& t) { return t.extent(0); }
shard::index_t rows(const Waves& t) { return t.extent(0); }
