// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// expect: redistribute is between fields of the same rank and value type
// expect: redistribute writes its first field: it needs a value type that isn't const
// expect: redistribute moves bytes: it needs a value type that is trivially copyable
// expect: Coupling<To, From>(comm, to, from) takes pointers: first to the `To` fields
#include <shard/redistribute/coupling.hpp>
#include <shard/shard.hpp>

#include <string>

struct X;

template <class T>
using Rows = shard::ShardedView<T**, Kokkos::LayoutRight, shard::ShardDim<0, X>>;
template <class T>
using Whole = shard::ShardedView<T**, Kokkos::LayoutRight>;
const Kokkos::DefaultExecutionSpace space;

void other_values(const Rows<double>& x, const Whole<float>& y) {
  shard::redistribute(space, y, x);
}
void to_const(const Rows<double>& x, const Whole<const double>& y) {
  shard::redistribute(space, y, x);
}
void texts(const Rows<std::string>& x, const Whole<std::string>& y) {
  shard::redistribute(space, y, x);
}
void the_other_way(const Rows<double>& to, const Whole<double>& from) {
  shard::Coupling<Rows<double>, Whole<double>>(MPI_COMM_WORLD, &from, &to);
}
