// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: the collectives are between Kokkos::Views; of a field give view() or owned()
// expect: the collectives are between Views of the same rank, 1 to 6
// expect: a collective writes its first View
// expect: the collectives are between Views of the same value type
// expect: the collectives move bytes
// expect: only the sum has a tangent and a pullback here
#include <shard/shard.hpp>

#include <string>

struct X;

using Grid  = shard::Mesh<X>;
using Field = shard::ShardedView<double**, Kokkos::LayoutRight, shard::ShardDim<0, X>>;
using Host  = Kokkos::HostSpace;
const Kokkos::DefaultHostExecutionSpace space;
using Line  = Kokkos::View<double*, Host>;
using Plane = Kokkos::View<double**, Host>;
using Seen  = Kokkos::View<const double*, Host>;
using Short = Kokkos::View<float*, Host>;
using Words = Kokkos::View<std::string*, Host>;

void fields(const Field& t, const Grid& g) { shard::all_reduce<X>(space, t, t, g); }
void ranks(const Line& y, const Plane& x, const Grid& g) {
  shard::all_gather<X>(space, y, x, g, 0);
}
void to_const(const Seen& y, const Grid& g) { shard::broadcast<X>(space, y, y, g); }
void values(const Line& y, const Short& x, const Grid& g) { shard::broadcast<X>(space, y, x, g); }
void words(const Words& y, const Grid& g) { shard::broadcast<X>(space, y, y, g); }
void of_maxima(const Line& y, const Grid& g) {
  shard::AllReduce<X, shard::Max>{}.pullback(space, y, y, g);
}
