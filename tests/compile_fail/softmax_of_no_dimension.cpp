// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: a SpatialSoftmax runs along one of its field's spatial dimensions
#include <shard/layers/pointwise/spatial_softmax.hpp>

struct X;

using Field = shard::ShardedView<double****, Kokkos::LayoutRight, shard::ShardDim<2, X>>;

void use(const Field& t) { (void)shard::SpatialSoftmax<2>().state(t); }
