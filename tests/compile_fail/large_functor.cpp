// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: this functor is too large for the arguments of a device's kernel
// expect: the functor of parallel_for needs operator()(int i, int j, ...) const with one
#include <shard/shard.hpp>

using namespace shard;

struct Lat;

using Field = ShardedView<double**, Kokkos::LayoutRight, ShardDim<0, Lat, Halo<1>>>;

struct Weigh {
  Field t;
  double weights[500];
  KOKKOS_FUNCTION void operator()(int i, int j) const { t(i, j) *= weights[0]; }
};

void use(const Kokkos::DefaultExecutionSpace& space, const Weigh& weigh) {
  parallel_for("weigh", space, owned_region(weigh.t), weigh);
}

struct Column {
  Field t;
  KOKKOS_FUNCTION void operator()(int i) const { t(i, 0) = 0; }
};
void over_the_plane(const Kokkos::DefaultExecutionSpace& space, const Column& column) {
  parallel_for("column", space, owned_region(column.t), column);
}
