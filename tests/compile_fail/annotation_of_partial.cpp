// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a partition spec can't say Partial: redistribute the field first
// expect: this needs the field's values, and a Partial field holds contributions to them
#include <shard/shard.hpp>

struct Lat;
struct Lon;
using Sums = shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, Lat>,
                                shard::Partial<Lon, shard::Sum>>;

auto spec() { return shard::partition_spec<Sums, shard::Mesh<Lat, Lon>>(); }
auto wrap(const Sums& sums) { return shard::wrap_as_sharded(sums); }
