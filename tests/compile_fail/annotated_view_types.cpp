// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: an AnnotatedView's layout is LayoutRight or LayoutLeft
// expect: an AnnotatedView has rank 1 to 6
// expect: an AnnotatedView has run-time extents
// expect: an AnnotatedView's values are not const
// expect: an AnnotatedView's cells are moved as bytes
#include <shard/shard.hpp>

#include <string>

using Right = Kokkos::LayoutRight;

auto strided(const Kokkos::View<double**, Kokkos::LayoutStride>& t) {
  return shard::wrap_as_sharded(t).rank;
}
auto scalar(const Kokkos::View<double, Right>& t) { return shard::wrap_as_sharded(t).rank; }
auto fixed(const Kokkos::View<double* [3], Right>& t) { return shard::wrap_as_sharded(t).rank; }
auto constant(const Kokkos::View<const double*, Right>& t) {
  return shard::wrap_as_sharded(t).rank;
}
auto words(const Kokkos::View<std::string*, Right, Kokkos::HostSpace>& t) {
  return shard::wrap_as_sharded(t).rank;
}
